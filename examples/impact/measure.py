"""Measure what settings of Spark and of its learning methods do: writes runs.csv.

    python measure.py [--quick] [OUTPUT]

Four methods of pyspark.ml on made-up data, in local mode. A run is one call of ``fit`` on data that
is cached already; the first run of each session is thrown away. The order is random, so that
whatever else the machine does meets all settings alike.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyspark
from pyspark.ml.classification import DecisionTreeClassifier, GBTClassifier, LogisticRegression
from pyspark.ml.clustering import KMeans
from pyspark.ml.evaluation import ClusteringEvaluator, MulticlassClassificationEvaluator
from pyspark.ml.functions import array_to_vector
from pyspark.sql import SparkSession
from pyspark.sql.functions import array, col

N_ROWS, N_FEATURES, N_REPEATS = 20_000, 12, 2
CORES, COMPRESSION, PARTITIONS = (1, 2), ("true", "false"), (2, 8)
HYPER = {
    "KMeans": ("k", (4, 12)),
    "DecisionTree": ("max_depth", (3, 9)),
    "GBT": ("max_iter", (2, 6)),
    "LogisticRegression": ("max_iter", (4, 20)),
}


def made_up(n_rows: int) -> pd.DataFrame:
    """Return points of two classes whose border is not straight, in six clusters."""
    draw = np.random.default_rng(0)
    centers = draw.normal(0, 3, (6, N_FEATURES))
    x = centers[draw.integers(0, 6, n_rows)] + draw.normal(size=(n_rows, N_FEATURES))
    score = x[:, 0] * x[:, 1] + 2 * x[:, 2] - x[:, 3] ** 2 / 4
    y = (score + draw.normal(0, 1, n_rows) > np.median(score)).astype(float)
    frame = pd.DataFrame(x, columns=[f"f{i}" for i in range(N_FEATURES)])
    return frame.assign(label=y, is_held_out=draw.random(n_rows) < 0.3)


def estimator(method: str, value: int):
    """Return a method with one of its settings; all else as Spark has it."""
    if method == "KMeans":
        return KMeans(k=value, seed=1, maxIter=10)
    if method == "DecisionTree":
        return DecisionTreeClassifier(maxDepth=value, seed=1)
    if method == "GBT":
        return GBTClassifier(maxIter=value, maxDepth=3, seed=1)
    return LogisticRegression(maxIter=value)


def quality(method: str, model, held_out) -> float:
    """Return the accuracy on held-out points; of clusters, how well they are apart."""
    predicted = model.transform(held_out)
    if method == "KMeans":
        return ClusteringEvaluator().evaluate(predicted)
    return MulticlassClassificationEvaluator(metricName="accuracy").evaluate(predicted)


def measure_session(cores: int, compress: str, plan: list, frame: pd.DataFrame) -> list[dict]:
    """Make all runs of one session of Spark."""
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.shuffle.compress", compress)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    names = [f"f{i}" for i in range(N_FEATURES)]
    points = spark.createDataFrame(frame).select(
        array_to_vector(array(*map(col, names))).alias("features"), "label", "is_held_out"
    )
    held_out = points.filter("is_held_out").coalesce(2).cache()
    training = {}
    for n in PARTITIONS:
        training[n] = points.filter("not is_held_out").repartition(n).cache()
        training[n].count()
    held_out.count()
    for method, value in {m: v for m, _, v in plan}.items():
        estimator(method, value).fit(training[PARTITIONS[0]])  # loads classes, compiles
    rows = []
    for method, n_partitions, value in plan:
        started = time.perf_counter()
        model = estimator(method, value).fit(training[n_partitions])
        took = time.perf_counter() - started
        rows.append(
            {
                "method": method, "cores": cores, "partitions": n_partitions,
                "shuffle_compression": compress, HYPER[method][0]: value, "time_s": round(took, 4),
                "quality": round(quality(method, model, held_out), 5),
            }
        )  # fmt: skip
    spark.stop()
    return rows


def write(rows: list[dict], output: Path) -> None:
    """Write the runs so far; a setting that a method lacks stays empty."""
    hyper = sorted({name for name, _ in HYPER.values()})
    first = ["method", "cores", "partitions", "shuffle_compression"]
    frame = pd.DataFrame(rows)[[*first, *hyper, "time_s", "quality"]]
    frame.astype(dict.fromkeys(hyper, "Int64")).to_csv(output, index=False)


def describe(output: Path, started: str) -> None:
    """Write when and on what the runs were measured, beside their table."""
    cpus = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    about = {
        "started_at": started,
        "ended_at": datetime.now(UTC).isoformat(timespec="minutes"),
        "n_cores": os.cpu_count(),
        "cpu": cpus[0].partition(":")[2].strip() if cpus else platform.machine(),
        "pyspark": pyspark.__version__,
        "n_rows": N_ROWS,
        "n_features": N_FEATURES,
    }
    output.with_name("about.json").write_text(json.dumps(about, indent=1) + "\n")


def main() -> None:
    """Measure all settings, in two rounds of sessions."""
    words = [word for word in sys.argv[1:] if word != "--quick"]
    is_quick = len(words) < len(sys.argv) - 1
    output = Path(words[0] if words else Path(__file__).parent / "runs.csv")
    frame = made_up(2_000 if is_quick else N_ROWS)
    rows: list[dict] = []
    started = datetime.now(UTC).isoformat(timespec="minutes")
    shuffle = random.Random(0).shuffle
    for _ in range(1 if is_quick else N_REPEATS):
        sessions = list(itertools.product(CORES, COMPRESSION))
        shuffle(sessions)
        for cores, compress in sessions[: 1 if is_quick else None]:
            plan = [(m, n, v) for m, (_, vs) in HYPER.items() for n in PARTITIONS for v in vs]
            shuffle(plan)
            rows += measure_session(cores, compress, plan, frame)
            print(f"{len(rows)} runs, {sum(r['time_s'] for r in rows):.0f} s", flush=True)
            write(rows, output)
            describe(output, started)


if __name__ == "__main__":
    main()
