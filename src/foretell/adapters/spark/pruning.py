"""Partitions that are dropped before they are read: a Spark job reads only what is kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from foretell.approximate import kept_partitions
from foretell.errors import Option, UsageError


def prune_partitions(rdd: Any, kept: Iterable[int] | None = None) -> Any:
    """Return an RDD that has only some partitions of another; the rest is never read.

    Dropping inside ``mapPartitionsWithIndex`` still starts a task for each partition, which opens
    and reads its input. Here Spark does not see the other partitions at all.

    Parameters
    ----------
    rdd
        Any RDD of PySpark. That of a data frame is ``frame.rdd``.
    kept
        The partitions to keep; by default those of `kept_partitions`, so what the dispatcher says.

    >>> lines = spark.sparkContext.textFile("posts.xml", 5)  # doctest: +SKIP
    >>> foretell.prune_partitions(lines, [0, 3]).getNumPartitions()  # doctest: +SKIP
    2
    """
    from pyspark.rdd import RDD

    if not hasattr(rdd, "getNumPartitions"):
        kind = type(rdd).__name__
        raise UsageError(
            f"must be an RDD, not a {kind}; that of a data frame is its .rdd, or read only the "
            "files that foretell.kept_partitions names",
            option=Option("rdd"),
        )
    n = rdd.getNumPartitions()
    chosen = sorted(set(kept_partitions(n) if kept is None else kept))
    if chosen and not 0 <= chosen[0] <= chosen[-1] < n:
        raise UsageError(f"partitions {chosen} of an RDD with {n}; they are numbered from 0")
    if len(chosen) == n:
        return rdd
    java = rdd.ctx._jvm
    pruned = java.org.apache.spark.rdd.PartitionPruningRDD.create(
        rdd._jrdd.rdd(), _scala_set(java, chosen)
    )
    return RDD(pruned.toJavaRDD(), rdd.ctx, rdd._jrdd_deserializer)


def _scala_set(java: Any, numbers: Iterable[int]) -> Any:
    """Make a Scala set, which is also the function that says whether it holds a number.

    Python cannot hand functions to Scala, and Spark asks for one: which partitions to keep.
    """
    found = java.java.util.HashSet()
    for number in numbers:
        found.add(number)
    return java.scala.jdk.javaapi.CollectionConverters.asScala(found).toSet()
