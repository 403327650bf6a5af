"""Lower bounds: what runs teach that were stopped at a time limit.

Such a run says only that the target is larger than what was reached. Each becomes a point with the
value to expect beyond its bound, given what a process predicts there. It counts for as much as a
bound can tell: like a run where the prediction is too low, and little where the prediction exceeds
the bound anyway. The process is then fitted again with these points, and each value is
computed anew from all the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foretell.dataset import Dataset, as_numbers
from foretell.model.table import Table
from foretell.model.techniques._base import Regressor
from foretell.model.techniques.points.axes import Axes
from foretell.model.techniques.points.merging import MergedRuns
from foretell.model.techniques.processes._process import MOST_KEPT, Points, fit_process
from foretell.model.techniques.processes.log_gp import LogGPRegressor

Array = NDArray[np.float64]

_ROUNDS = 5
_STEPS = 20
_MOST_BOUNDS = MOST_KEPT // 4
#: Errors of models have heavy tails: with a normal distribution, a run far slower than predicted
#: would be expected to end right after its time limit.
_TAIL = 3.0
_LEAST_SPREAD = 0.01
_MAD = 1.4826  # from the median of absolute values to a standard deviation
#: How much a bound counts at least: one that is met keeps the prediction there from falling.
_SATISFIED = 0.3


@dataclass(frozen=True, eq=False)
class LowerBounds:
    """Configurations that were stopped, and the log of what the target is at least there."""

    x: Array
    log_y: Array

    def __len__(self) -> int:
        return len(self.log_y)

    @classmethod
    def of(cls, timed_out: Dataset, table: Table, target: str) -> LowerBounds:
        """Take runs whose settings the columns of the table can describe."""
        columns = [column.name for column in table.feature_map.columns]
        frame = timed_out.frame.assign(**{target: as_numbers(timed_out.frame[target])})
        # Of one configuration, the highest bound implies the others.
        highest = frame.groupby(columns, sort=True)[target].idxmax()
        if len(highest) > _MOST_BOUNDS:
            highest = highest.iloc[
                np.linspace(0, len(highest) - 1, _MOST_BOUNDS).round().astype(int)
            ]
        rows = frame.loc[highest].reset_index(drop=True)
        x = table.feature_map.matrix(replace(timed_out, frame=rows, rows=None))
        return cls(x, np.log(rows[target].to_numpy(dtype=float)))


def is_describable(timed_out: Dataset, table: Table) -> NDArray[np.bool_]:
    """Say which runs have all values, and only such as the columns of the table can hold.

    A level must be known, and a number positive where all others are.
    """
    columns = [column.name for column in table.feature_map.columns]
    is_known: NDArray[np.bool_] = timed_out.frame[columns].notna().all(axis=1).to_numpy(copy=True)
    for name in table.feature_map.numbers:
        values = as_numbers(timed_out.frame[name])
        is_known &= np.isfinite(values)
        if table.frame[name].min() > 0:
            is_known &= values > 0
    complete = timed_out.take(is_known)
    if len(complete.frame):
        read = table.feature_map.values(complete)
        is_new = np.zeros(len(complete.frame), dtype=bool)
        for name, levels in table.feature_map.unknown_levels(read).items():
            is_new |= np.isin(read[name], levels)
        is_known[is_known] = ~is_new
    return is_known


def expected_points(
    bounds: LowerBounds, merged: MergedRuns, log_gp: LogGPRegressor, model: Regressor, seed: int
) -> Points | None:
    """Return what bounds teach a model that was fitted without them; None if it meets them all.

    A process of the model's errors, which are at least so large at the bounds, says by how much
    predictions there must rise. They never fall.
    """
    predicted = np.log(model.predict(bounds.x))
    least = bounds.log_y - predicted
    if not (least > 0).any():
        return None
    drawn = merged.points.draw(MOST_KEPT, seed)
    residuals = merged.points.log_y[drawn] - merged.fitted.left_out
    spread = max(_MAD * float(np.median(np.abs(residuals))), log_gp.noise, _LEAST_SPREAD)
    real = merged.points.sample(MOST_KEPT - _MOST_BOUNDS, seed)
    errors = replace(real, log_y=real.log_y - np.log(model.predict(real.x)))
    weight = np.maximum(weight_of_bound(least / spread), _SATISFIED)
    beyond = replace(real, x=bounds.x, log_y=least, weight=weight)
    axes = Axes.of(real.joined(beyond).x, real.groups, log_gp.totals)
    expected = np.zeros(len(bounds))
    for round_ in range(_ROUNDS):
        rise = expected + spread * mean_beyond((least - expected) / spread)
        beyond = replace(beyond, log_y=rise)
        if round_ < _ROUNDS - 1:
            fitted = fit_process(
                errors.joined(beyond), "smooth", axes=axes, most_steps=_STEPS, seed=seed
            )
            expected = np.maximum(0.0, fitted.left_out[len(errors) :])
    return replace(beyond, log_y=predicted + beyond.log_y)


def mean_beyond(bound: Array) -> Array:
    """Return the mean of a Student distribution beyond a bound, in its own scale.

    >>> mean_beyond(np.array([-50.0, 0.0, 10.0])).round(2).tolist()
    [0.0, 1.1, 15.09]
    """
    from scipy.stats import t

    density, beyond = t.pdf(bound, _TAIL), t.sf(bound, _TAIL)
    mean: Array = (_TAIL + bound**2) / (_TAIL - 1) * density / beyond
    return mean


def weight_of_bound(bound: Array) -> Array:
    """Return how much a bound tells relative to a run: its share of the Fisher information.

    >>> weight_of_bound(np.array([-5.0, 0.0, 30.0])).round(2).tolist()
    [0.0, 0.64, 1.0]
    """
    from scipy.special import log_ndtr

    at = np.clip(bound, -30.0, 30.0)
    hazard = np.exp(-0.5 * at**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-at))
    weight: Array = hazard * (hazard - at)
    return weight
