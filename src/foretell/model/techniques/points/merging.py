"""Merging repeats into points, with little weight on runs that are far off.

Measured times have heavy tails: other load on the machine, a cold page cache. Each round fits a
process, predicts every configuration from all others, and weighs each run by a Student
distribution of its residual. The value of a configuration is the weighted mean of its runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array, TrainingRows
from foretell.model.techniques.points.robust import student_weights
from foretell.model.techniques.processes._process import MOST_KEPT, Fitted, Points, fit_process

_ROUNDS = 6
_TAIL = 1.0  # degrees of freedom of the Student distribution: a few percent of runs are far off
_FEWEST_REPEATS = 8
_LEAST_SCALE = 1e-9
_LEAST_NOISE = 1e-6
_MEAN_TO_DEVIATION = 1.2533  # from the mean distance to the median
#: With this many runs, the best shift counts half; with fewer, less.
_SHIFT_RUNS = 20
_MOST_SHIFT = 0.05  # so that very noisy runs do not move predictions away from all of them
_MOST_LOG_ERROR = 3.0


@dataclass(frozen=True, eq=False)
class MergedRuns:
    """One point per configuration, in which outliers among its runs count for little.

    Attributes
    ----------
    fitted
        The last process, on at most MOST_KEPT of them.
    shift
        What to add to log predictions for the least mean relative error, to which predictions that
        are too high contribute more than those that are too low.
    point, log_y
        The point of each run, and its log target.
    """

    points: Points
    fitted: Fitted
    shift: float
    point: NDArray[np.int64]
    log_y: Array


def merge(rows: TrainingRows) -> tuple[Points, NDArray[np.int64]]:
    """Merge repeats by their median; also return the point of each row."""
    if not (rows.y > 0).all():
        raise ValueError("the target must be positive, because its logarithm is modeled")
    log_y = np.log(rows.y)
    _, first, point = np.unique(rows.x, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")  # in order of appearance
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    first, point = first[order], rank[point.ravel()]
    medians = group_medians(log_y, point, len(first))
    weight = np.bincount(point, rows.weight).astype(float)
    repeats = RepeatNoise.of(log_y, medians, point)
    is_known = repeats.n_repeats >= _FEWEST_REPEATS and repeats.pooled > _LEAST_NOISE
    noise = repeats.pooled if is_known else None
    return Points(rows.x[first], medians, weight, rows.groups, noise), point


def merge_robustly(
    rows: TrainingRows, seed: int = 0, has_time: Callable[[], bool] = lambda: True
) -> MergedRuns:
    """Merge repeats with little weight on outliers; in fewer rounds if there is no time."""
    points, point = merge(rows)
    drawn = points.draw(MOST_KEPT, seed)
    position = np.full(len(points), -1, dtype=np.int64)
    position[drawn] = np.arange(len(drawn))
    is_kept = position[point] >= 0
    of_run, kept = position[point[is_kept]], points.take(drawn)
    log_y, multiplicity = np.log(rows.y), rows.weight[is_kept]
    fitted = fit_process(kept, "smooth", seed=seed)
    for round_ in range(_ROUNDS):
        if round_ and not has_time():
            break
        residuals = log_y[is_kept] - fitted.left_out[of_run]
        weight = multiplicity * student_weights(
            residuals, multiplicity, tail=_TAIL, least_scale=_LEAST_SCALE
        )
        total = np.bincount(of_run, weight, len(kept)).astype(float)
        mean = np.bincount(of_run, weight * log_y[is_kept], len(kept)) / total
        kept = replace(kept, log_y=mean, weight=total)
        fitted = fit_process(kept, "smooth", start=fitted.process, most_steps=20, seed=seed)
    log_values, weights = points.log_y.copy(), points.weight.copy()
    log_values[drawn], weights[drawn] = kept.log_y, kept.weight
    whole = replace(points, log_y=log_values, weight=weights)
    shift = best_shift(log_y[is_kept] - fitted.left_out[of_run])
    return MergedRuns(whole, fitted, shift, point, log_y)


def best_shift(residuals: Array) -> float:
    """Return the shift of log predictions with the least mean relative error, shrunk toward 0."""
    n = len(residuals)
    candidates = np.quantile(residuals, np.linspace(0.15, 0.75, 25))
    clipped = np.clip(residuals, -_MOST_LOG_ERROR, _MOST_LOG_ERROR)
    errors = [np.abs(1 - np.exp(shift - clipped)).mean() for shift in candidates]
    best = candidates[int(np.argmin(errors))] * n / (n + _SHIFT_RUNS)
    return float(np.clip(best, -_MOST_SHIFT, _MOST_SHIFT))


def group_medians(values: Array, group: NDArray[np.int64], n_groups: int) -> Array:
    """Return the median of each group."""
    order = np.lexsort((values, group))
    count = np.bincount(group, minlength=n_groups)
    start = np.cumsum(count) - count
    ordered = values[order]
    medians: Array = (ordered[start + (count - 1) // 2] + ordered[start + count // 2]) / 2
    return medians


@dataclass(frozen=True, eq=False)
class RepeatNoise:
    """The deviation of one run, from the distance of repeats to the median of their point.

    Attributes
    ----------
    pooled
        Over all repeats; 0 if there are none.
    own
        Of each point by itself; 0 where it has one run.
    n_repeats
        How many runs have others at the same point.
    """

    pooled: float
    own: Array
    n_repeats: int

    @classmethod
    def of(cls, log_y: Array, medians: Array, point: NDArray[np.int64]) -> RepeatNoise:
        """Estimate it from logs of the target, and the point of each run."""
        n_runs = np.bincount(point, minlength=len(medians))
        is_repeated = n_runs > 1
        distance = np.bincount(point, np.abs(log_y - medians[point]), len(medians))
        # A median is nearer to the runs that it comes from than to others.
        factor = _MEAN_TO_DEVIATION * np.sqrt(n_runs / np.maximum(n_runs - 1, 1))
        total = np.where(is_repeated, factor * distance, 0.0)
        n_repeats = int(n_runs[is_repeated].sum())
        return cls(float(total.sum()) / max(n_repeats, 1), total / n_runs, n_repeats)
