"""Made-up performance tables whose truth is known everywhere, drawn from a seed.

A task draws a law of its family (`laws.py`, `jagged.py`), a design (grid, fraction of a grid,
random; 5 to 500 rows; repeats or none), noise (with heavy tails or without) and a kind of question.
Methods and constants are chosen on these tables; the real ones judge them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.jagged import JAGGED
from benchmarks.laws import SMOOTH, Column, Law, Random

TARGET = "time_s"
KINDS = ("holdout", "between", "beyond", "few")
#: By how much the largest rows of a task beyond the data exceed those trained on.
DISTANCES = (1.5, 2.0, 4.0)
#: Numbers of configurations that tasks with few rows train on. Nobody asks jagged laws with five.
_FEW_SMOOTH, _FEW_JAGGED = (5, 8, 12, 20, 30, 45, 60), (12, 20, 30, 45, 60, 90, 110)


@dataclass(frozen=True)
class Noise:
    """How runs of one configuration differ: a spread, and a share of runs that are much slower."""

    spread: float
    outliers: float

    def draw(self, true_s: np.ndarray, random: Random) -> np.ndarray:
        """Return one run of each."""
        factor = np.exp(random.normal(0, self.spread, len(true_s)))
        is_slow = random.random(len(true_s)) < self.outliers
        return true_s * np.where(is_slow, factor * random.uniform(1.3, 3.0, len(true_s)), factor)


@dataclass(frozen=True)
class SyntheticTask:
    """Runs to train on, and rows to predict, with their true times and one noisy run of each.

    ``distance`` is the ratio by which each row leaves the measured range; 1 inside.
    """

    name: str
    family: str
    kind: str
    train: pd.DataFrame
    test: pd.DataFrame
    truth: np.ndarray
    distance: np.ndarray
    law: Law
    noise: Noise


FAMILIES: Mapping[str, Callable[[Random], Law]] = {f.__name__: f for f in (*SMOOTH, *JAGGED)}


# --- Tasks ---------------------------------------------------------------------------------------


def draw_tasks(
    families: Sequence[str] = tuple(FAMILIES),
    kinds: Sequence[str] = KINDS,
    seeds: Sequence[int] = (0, 1, 2),
) -> Iterator[SyntheticTask]:
    """Draw one task of each family, kind and seed that can ask such a question."""
    for family in families:
        for kind in kinds:
            for seed in seeds:
                task = draw_task(family, kind, seed)
                if task is not None:
                    yield task


def draw_law(family: str, seed: int, *more: int) -> tuple[Law, Noise, Random]:
    """Draw a law, its noise, and the source of what else is drawn."""
    random = np.random.default_rng([zlib.crc32(family.encode()), seed, *more])
    law = FAMILIES[family](random)
    noise = Noise(float(random.choice([0.01, 0.03, 0.1])), float(random.choice([0.0, 0.0, 0.05])))
    return law, noise, random


def draw_task(family: str, kind: str, seed: int) -> SyntheticTask | None:
    """Draw a task, or None where the family has no column for such a question."""
    law, noise, random = draw_law(family, seed, KINDS.index(kind))
    grid = _grid(law, random)
    cut = _CUTS[kind](law, grid, random)
    if cut is None:
        return None
    train, test = cut
    n_repeats = int(random.choice([1, 1, 2, 3]))
    train = train.loc[np.repeat(train.index, n_repeats)].reset_index(drop=True)
    train[TARGET] = noise.draw(law.truth(train), random)
    truth = law.truth(test)
    test = test.assign(**{TARGET: noise.draw(truth, random)}).reset_index(drop=True)
    return SyntheticTask(
        f"{family}--{kind}-{seed}", family, kind, train, test, truth,
        _distance(law, train, test), law, noise,
    )  # fmt: skip


def configurations(law: Law) -> pd.DataFrame:
    """Return the whole grid of a law."""
    axes = [np.array(c.values, dtype=object) for c in law.columns]
    mesh = np.meshgrid(*axes, indexing="ij")
    frame = pd.DataFrame({c.name: m.ravel() for c, m in zip(law.columns, mesh, strict=True)})
    return frame.infer_objects()


def _grid(law: Law, random: Random) -> pd.DataFrame:
    """Draw a design: the whole grid, a fraction of it, or random values; 500 rows at most."""
    if random.random() < 0.25 and all(c.grows or isinstance(c.values[0], str) for c in law.columns):
        return _random_design(law, int(random.integers(60, 400)), random)
    n_cells = np.prod([float(len(c.values)) for c in law.columns])
    if law.draw is not None:
        frame = law.draw(random, 2_000).drop_duplicates()
    elif n_cells > 20_000:
        frame = pd.DataFrame({c.name: random.choice(c.values, 4_000) for c in law.columns})
        frame = frame.drop_duplicates()
    else:
        frame = configurations(law)
    most = int(random.choice([60, 120, 250, 500]))
    if len(frame) > most:
        frame = frame.iloc[np.sort(random.permutation(len(frame))[:most])]
    return frame.reset_index(drop=True)


def _random_design(law: Law, n_rows: int, random: Random) -> pd.DataFrame:
    drawn = {}
    for column in law.columns:
        if isinstance(column.values[0], str):
            drawn[column.name] = random.choice(column.values, n_rows)
        else:
            low, high = np.log(column.values[0]), np.log(column.values[-1])
            values = np.exp(random.uniform(low, high, n_rows))
            is_whole = all(isinstance(v, int) for v in column.values)
            drawn[column.name] = np.rint(values).astype(int) if is_whole else values.round(3)
    return pd.DataFrame(drawn)


def _holdout(law: Law, grid: pd.DataFrame, random: Random) -> tuple[pd.DataFrame, pd.DataFrame]:
    held = random.permutation(len(grid)) < max(4, len(grid) // 5)
    return grid[~held], grid[held]


def _between(
    law: Law, grid: pd.DataFrame, random: Random
) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    column = _cut_column(law, grid, random, n_values=5)
    if column is None:
        return None
    values = np.unique(grid[column.name])
    inner = values[1:-1]
    held = grid[column.name].isin(random.choice(inner, max(1, len(inner) // 3), replace=False))
    return grid[~held], grid[held]


def _beyond(
    law: Law, grid: pd.DataFrame, random: Random
) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Train on all; ask about 1.5, 2 and 4 times the largest value of a column."""
    column = _cut_column(law, grid, random, n_values=3)
    if column is None:
        return None
    largest = float(grid[column.name].max())
    asked = []
    for ratio in DISTANCES:
        rows = grid.iloc[random.permutation(len(grid))[: max(10, len(grid) // 8)]]
        value = largest * ratio
        is_whole = np.issubdtype(grid[column.name].dtype, np.integer)
        asked.append(rows.assign(**{column.name: round(value) if is_whole else value}))
    return grid, pd.concat(asked).drop_duplicates()


def _few(law: Law, grid: pd.DataFrame, random: Random) -> tuple[pd.DataFrame, pd.DataFrame]:
    is_jagged = any(law.family == family.__name__ for family in JAGGED)
    sizes = _FEW_JAGGED if is_jagged else _FEW_SMOOTH
    n_train = min(int(random.choice(sizes)), len(grid) // 2)
    order = random.permutation(len(grid))
    return grid.iloc[np.sort(order[:n_train])], grid.iloc[np.sort(order[n_train:])]


_CUTS = {"holdout": _holdout, "between": _between, "beyond": _beyond, "few": _few}


def _cut_column(law: Law, grid: pd.DataFrame, random: Random, n_values: int) -> Column | None:
    fitting = [c for c in law.columns if c.grows and grid[c.name].nunique() >= n_values]
    return fitting[int(random.integers(len(fitting)))] if fitting else None


def _distance(law: Law, train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    ratio = np.ones(len(test))
    for column in law.columns:
        if column.grows:
            low, high = float(train[column.name].min()), float(train[column.name].max())
            values = test[column.name].to_numpy(dtype=float)
            ratio = np.maximum(ratio, np.maximum(values / high, low / values))
    return ratio
