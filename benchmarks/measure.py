"""Measure small jobs of this machine, for the accuracy benchmark; writes benchmarks/data/*.csv.

    python -m benchmarks.measure

Three kinds of jobs that every machine can run, chosen for how differently they behave: matrix
products (a power law with a plateau in threads), a database query (work, groups, and an index that
helps or does not), and reading a table in random order (which slows down where a cache ends).
Runs are in random order, so that drift is not taken for an effect.
"""

from __future__ import annotations

import csv
import itertools
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data")
_REPEATS = 3

Settings = Mapping[str, Any]


def main() -> None:
    """Measure every job that was not measured yet."""
    DATA.mkdir(exist_ok=True)
    for name, (grid, job) in JOBS.items():
        if not (DATA / f"{name}.csv").exists():
            _measure(name, grid, job)


def _measure(
    name: str, grid: Mapping[str, Sequence[Any]], job: Callable[[Settings], float]
) -> None:
    settings = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ]
    runs = settings * _REPEATS
    random.Random(7).shuffle(runs)
    with (DATA / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*grid, "time_s"])
        writer.writeheader()
        for run in runs:
            writer.writerow({**run, "time_s": f"{job(run):.6g}"})
    print(f"{name}: {len(runs)} runs", file=sys.stderr)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def matrix_product(run: Settings) -> float:
    """Multiply two matrices of one size with so many threads."""
    import numpy as np
    from threadpoolctl import threadpool_limits

    generator = np.random.default_rng(0)
    a = generator.random((run["rows"], run["inner"])).astype(run["dtype"])
    b = generator.random((run["inner"], run["rows"])).astype(run["dtype"])
    with threadpool_limits(run["threads"]):
        a[:50] @ b[:, :50]  # wakes the threads
        return _timed(lambda: a @ b)


def query(run: Settings) -> float:
    """Sum a column by groups in a database file, with or without an index."""
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "t.db")
        connection.execute(f"PRAGMA cache_size = -{run['cache_kib']}")
        connection.execute("CREATE TABLE t (k INTEGER, v REAL, pad TEXT)")
        generator = random.Random(1)
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, ?)",
            (
                (generator.randrange(run["groups"]), generator.random(), "x" * 20)
                for _ in range(run["rows"])
            ),
        )
        if run["index"] == "yes":
            connection.execute("CREATE INDEX i ON t (k)")
        connection.commit()
        took = _timed(
            lambda: connection.execute("SELECT k, SUM(v), COUNT(*) FROM t GROUP BY k").fetchall()
        )
        connection.close()
    return took


def random_reads(run: Settings) -> float:
    """Add up values of an array in random order: slow where it no longer fits a cache."""
    import numpy as np

    n_values = run["size_kib"] * 1024 // 8
    generator = np.random.default_rng(0)
    values = generator.random(n_values)
    where = generator.integers(0, n_values, run["reads"])
    if run["order"] == "sorted":
        where.sort()
    values.take(where[:1000]).sum()
    return _timed(lambda: values.take(where).sum())


JOBS: dict[str, tuple[dict[str, Sequence[Any]], Callable[[Settings], float]]] = {
    "matrix": (
        {
            "rows": [200, 300, 450, 700, 1000, 1500],
            "inner": [200, 450, 1000],
            "dtype": ["float32", "float64"],
            "threads": [1, 2],
        },
        matrix_product,
    ),
    "query": (
        {
            "rows": [2000, 5000, 10000, 20000, 40000, 80000],
            "groups": [10, 100, 1000, 5000],
            "cache_kib": [100, 2000],
            "index": ["no", "yes"],
        },
        query,
    ),
    "reads": (
        {
            "size_kib": [64, 256, 1024, 4096, 16384, 65536],
            "reads": [200000, 400000, 800000, 1600000, 3200000],
            "order": ["random", "sorted"],
        },
        random_reads,
    ),
}


if __name__ == "__main__":
    main()
