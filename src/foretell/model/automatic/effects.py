"""Effects: whether a column explains more than a shuffled copy of it would.

A model that may use a column always does, a little, and takes chance for an effect. So a process is
fitted with the column, and with its values exchanged at random between configurations. A column
without effect makes the measured values no more likely than its shuffled copies do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from foretell.model.automatic.bench import Bench
from foretell.model.features.feature_map import FeatureMap
from foretell.model.techniques.points.axes import Axes
from foretell.model.techniques.processes._process import Fitted, Points, fit_process

Array = NDArray[np.float64]

#: With fewer configurations chance looks like an effect, and an effect like chance; with more, it
#: has too small a share to matter.
_FEWEST_POINTS, _MOST_POINTS = 20, 500
#: Configurations that a process is fitted to: fewer with many columns, for the time it takes.
_MOST_CHECKED, _FEWEST_CHECKED = 150, 80
_FEW_COLUMNS, _MOST_COLUMNS = 6, 15
_N_COPIES, _STEPS = 24, 25
#: By how much the log of the posterior must be better than with each copy; and by how much more
#: nothing else is to be expected of further copies.
_LEAST_GAIN, _CLEAR_GAIN = 0.6, 8.0
_OUTLIER = 0.05  # the weight of a run that is six deviations off
#: The share of a column that the others explain, up to which its effect can be told from theirs.
_MOST_RELATED = 0.5
_LEAST_FREEDOM = 10


def columns_without_effect(bench: Bench, columns: FeatureMap) -> list[str]:
    """Name the columns that explain no more than shuffled copies of them.

    Columns that are part of a cliff or of a product matter, and are not checked; nor are columns
    that depend on others, in whose place they may stand.
    """
    if not _FEWEST_POINTS <= len(bench.points) <= _MOST_POINTS:
        return []
    features = _features_by_column(columns)
    if not 1 < len(features) <= _MOST_COLUMNS:
        return []
    most = max(_FEWEST_CHECKED, _MOST_CHECKED * _FEW_COLUMNS // len(features))
    points = _fairly_weighted(bench).sample(min(most, _MOST_CHECKED), bench.seed)
    axes = Axes.of(points.x, points.groups, bench.log_gp.totals)
    whole = fit_process(points, "smooth", axes=axes, start=bench.log_gp.process, seed=bench.seed)
    in_totals = {column for total in bench.log_gp.totals for column in total}
    return [
        name
        for name, own in features.items()
        if not in_totals & set(own)
        and not _depends_on_others(points.x, own)
        and not _beats_copies(points, axes, whole, own, bench.seed)
    ]


def _fairly_weighted(bench: Bench) -> Points:
    """Return the points without clear outliers, each weighted by its number of runs.

    The usual weights are small where a process with all columns is far off. They would make that
    process more likely than any with a shuffled column.
    """
    is_usual = bench.points.weight >= _OUTLIER * bench.n_runs
    points = replace(bench.points, weight=bench.n_runs)
    return points.take(np.flatnonzero(is_usual))


def _features_by_column(columns: FeatureMap) -> dict[str, list[int]]:
    """Return the features of each column; without columns that are part of a cliff."""
    found: dict[str, list[int]] = {}
    for i, feature in enumerate(columns.features):
        found.setdefault(feature.factors[0].column, []).append(i)
    for feature in columns.features:
        if feature.threshold is not None:
            for factor in feature.factors:
                found.pop(factor.column, None)
    return found


def _depends_on_others(x: Array, own: list[int]) -> bool:
    """Whether other columns explain much of a column, as they do if one stands for another."""
    others = [j for j in range(x.shape[1]) if j not in own and np.ptp(x[:, j]) > 0]
    regressors = np.column_stack([np.ones(len(x)), *(_scaled(x[:, j]) for j in others)])
    freedom = len(x) - np.linalg.matrix_rank(regressors)
    if freedom < _LEAST_FREEDOM:
        return True
    values = np.column_stack([_scaled(x[:, j]) for j in own])
    values -= values.mean(axis=0)
    total = float((values**2).sum())
    if total == 0:  # it has one value
        return True
    rest = values - regressors @ np.linalg.lstsq(regressors, values, rcond=None)[0]
    explained = 1 - float((rest**2).sum()) / freedom / (total / (len(x) - 1))
    return bool(explained > _MOST_RELATED)


def _scaled(values: Array) -> Array:
    scaled: Array = np.log(values) if (values > 0).all() else values
    return scaled


def _beats_copies(points: Points, axes: Axes, whole: Fitted, own: list[int], seed: int) -> bool:
    """Whether the values are more likely with a column than with each of its shuffled copies."""
    for cost in _costs_of_copies(points, axes, whole, own, seed):
        gain = cost - whole.cost
        if gain < _LEAST_GAIN:
            return False
        if gain > _CLEAR_GAIN:
            return True
    return True


def _costs_of_copies(
    points: Points, axes: Axes, whole: Fitted, own: list[int], seed: int
) -> Iterator[float]:
    random = np.random.default_rng([seed, own[0]])
    for _ in range(_N_COPIES):
        x = points.x.copy()
        x[:, own] = x[random.permutation(len(x))][:, own]
        copy = fit_process(
            replace(points, x=x),
            "smooth",
            axes=axes,
            start=whole.process,
            most_steps=_STEPS,
            seed=seed,
        )
        yield copy.cost
