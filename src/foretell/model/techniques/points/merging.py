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
_MEAN_TO_DEVIATION = 1.2533  # likewise from their mean
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
    noise = _repeat_noise(log_y, medians, point)
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


def _repeat_noise(log_y: Array, medians: Array, point: NDArray[np.int64]) -> float | None:
    """Estimate the deviation of one run from the distance of repeats to their median."""
    count = np.bincount(point)[point]
    repeated = count > 1
    if repeated.sum() < _FEWEST_REPEATS:
        return None
    distance = np.abs(log_y - medians[point])[repeated]
    noise = _MEAN_TO_DEVIATION * np.mean(
        distance * np.sqrt(count[repeated] / (count[repeated] - 1))
    )
    return float(noise) if noise > 1e-6 else None
