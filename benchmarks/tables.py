"""The tables the campaigns run on: seeded, and shaped like the real ones they stand for."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

#: The real Stereomatch table, when the caller has it.
STEREOMATCH: Path | None = None


def stereo(folder: Path) -> Path:
    """3,021 runs of 1,912 configurations of an image application; a stand-in unless given."""
    if STEREOMATCH is not None:
        return STEREOMATCH.resolve()
    random = np.random.default_rng(0)
    grid = np.array(list(product(range(14, 63, 8), range(1, 4), range(1, 17), range(1, 9))))
    chosen = grid[random.permutation(len(grid))[:1912]]
    rows = np.vstack([chosen, chosen[random.integers(0, 1912, 3021 - 1912)]])
    confidence, step, arm, threads = rows.T.astype(float)
    time_ms = (900 + 5 * confidence**0.5 * arm**1.6 * 60 / step) * (0.12 + 0.88 / threads)
    time_ms *= np.exp(random.normal(0, 0.05, len(rows)))
    frame = pd.DataFrame(rows, columns=["confidence", "hypo_step", "max_arm_length", "nThreads"])
    return _write(frame.assign(exec_time_ms=time_ms), folder)


def ray(folder: Path) -> Path:
    """420 runs of distributed training: workers, cores, images, batch, epochs."""
    random = np.random.default_rng(0)
    rows = []
    while len(rows) < 420:
        n, j = random.choice([1, 2, 4, 8, 16]), random.choice([1, 2, 4, 8])
        images = random.choice([60, 120, 240, 480]) * 1000
        batch, epochs = random.choice([32, 64, 128]), random.choice([5, 10])
        work = epochs * images * 1e-4 * (1 + 8 / batch) / (n * j) ** 0.85
        noise = np.exp(random.normal(0, 0.03))
        rows.append((n, j, n * j, images, batch, epochs, (8 + work + 0.4 * np.log2(n + 1)) * noise))
    names = ["n", "j", "num_cpus", "num_images", "b", "e", "train_s"]
    return _write(pd.DataFrame(rows, columns=names), folder)


def few_rows(folder: Path) -> Path:
    """32 runs: 8 configurations of a job on some nodes, 4 times each."""
    random = np.random.default_rng(0)
    grid = np.array(list(product((1, 2, 4, 8), (2, 5), (16, 64))))
    rows = np.repeat(grid[random.permutation(len(grid))[:8]], 4, axis=0)
    nodes, size_gb, batch = rows.T.astype(float)
    time_s = (4 + 30 * size_gb / nodes * (1 + 8 / batch)) * np.exp(random.normal(0, 0.02, 32))
    frame = pd.DataFrame(rows, columns=["nodes", "size_gb", "batch"])
    return _write(frame.assign(time_s=time_s.round(2)), folder)


def wide(folder: Path) -> Path:
    """32 runs with 26 columns, which have 3,627 products of degree two and three."""
    random = np.random.default_rng(0)
    x = random.uniform(1, 10, (32, 26))
    frame = pd.DataFrame(x, columns=[f"c{i}" for i in range(26)])
    return _write(frame.assign(time_s=10 + x[:, 0] * x[:, 1]), folder)


def million(folder: Path) -> Path:
    """A million runs with 20 columns."""
    random = np.random.default_rng(0)
    x = random.uniform(1, 100, (1_000_000, 20)).round(3)
    frame = pd.DataFrame(x, columns=[f"c{i}" for i in range(20)])
    time_s = 10 + x[:, 0] / x[:, 1] + 0.1 * x[:, 2] + random.normal(0, 0.2, len(x))
    return _write(frame.assign(time_s=time_s), folder)


def _write(frame: pd.DataFrame, folder: Path) -> Path:
    path = folder / "runs.csv"
    frame.to_csv(path, index=False)
    return path
