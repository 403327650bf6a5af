"""Functions that tests run on Spark."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil

import foretell


def add_up(spark, n=10):
    sys.stdout.write("adding up\n")
    return {
        "sum": spark.sparkContext.parallelize(range(n), 2).map(doubled).sum(),
        "pid": os.getpid(),
    }


def doubled(number):
    return 2 * number


def estimated(spark, n=10):
    """Sum what is kept of n partitions, each of which has ten ones."""
    numbers = spark.sparkContext.parallelize([1] * 10 * n, n)
    kept = foretell.prune_partitions(numbers)
    sums = kept.mapPartitions(lambda ones: [sum(ones)]).collect()
    return foretell.estimate_sum(sums, n)


def read_pruned(spark, path, partitions, kept):
    """Read some partitions, in each of the ways in which the others are not read."""
    lines = spark.sparkContext.textFile(path, partitions)
    assert lines.getNumPartitions() == partitions
    pruned = foretell.prune_partitions(lines, kept).map(len).sum()
    after_a_step = foretell.prune_partitions(lines.map(len), kept).sum()
    by_job = sum(spark.sparkContext.runJob(lines, lambda part: [sum(map(len, part))], kept))
    assert pruned == after_a_step == by_job
    return pruned


def read_and_ignore(spark, path, partitions, kept):
    """Read all partitions, and only then drop some: what is not to be done."""
    lines = spark.sparkContext.textFile(path, partitions)
    chosen = set(kept)
    dropping = lines.mapPartitionsWithIndex(lambda i, part: map(len, part) if i in chosen else [])
    return dropping.sum()


def keep_nothing(spark):
    return foretell.prune_partitions(spark.sparkContext.parallelize([1], 1), [4])


def fail(spark):
    raise ValueError("the third column\nis empty")


def fail_in_a_task(spark):
    return spark.sparkContext.parallelize([1, 0], 2).map(lambda x: 1 / x).collect()


def return_a_set(spark):
    return {1, 2}


def work_until_killed(spark, mark):
    """Start tasks that last; each leaves its process id as a file."""

    def last(number):
        Path(mark, str(os.getpid())).touch()
        time.sleep(600)

    spark.sparkContext.parallelize(range(4), 4).foreach(last)


def go_on_whatever_happens(spark, mark):
    Path(mark, "started").touch()
    while True:
        try:
            time.sleep(600)
        except BaseException as error:
            sys.stdout.write(str(error))


def lose_spark(spark):
    """Kill the JVM in the middle of a job."""
    for child in psutil.Process().children(recursive=True):
        if child.name() == "java":
            child.send_signal(signal.SIGKILL)
    return spark.sparkContext.parallelize([1]).count()


def outlive_an_executor(spark, mark):
    """Run tasks that wait until one of their executors was killed."""

    def wait(number):
        Path(mark, str(os.getpid())).touch()
        while not Path(mark, "go").exists():
            time.sleep(0.01)
        return number

    return spark.sparkContext.parallelize(range(4), 4).map(wait).sum()


def zips_of_a_worker(spark):
    """Return from which zips of Spark a worker in Python imports."""
    zips = spark.sparkContext.parallelize([0], 1).map(
        lambda _: [p for p in sys.path if "pyspark.zip" in p]
    )
    return zips.first()
