"""How far off a model was in rehearsals, and so how wide its intervals must be.

Intervals are empirical: the quantiles of what was measured minus what was predicted, on folds that
ask the same kind of question, at the same distance from the data. They guarantee nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pydantic
from numpy.typing import NDArray

Array = NDArray[np.float64]

INSIDE, BETWEEN, BEYOND = 0, 1, 2
#: Residuals kept of each kind: enough for a quantile of one percent.
_MOST_RESIDUALS = 400
#: Without any fold beyond the data: how much of the target's log range a prediction may be off
#: at a distance of one range.
_UNREHEARSED_SLOPE = 0.25
_LEAST_ERROR = 1e-4
_MOST_WIDTH = 10.0  # of the log of an interval's end
#: Folds see less of the data than the model does, but also what it has learned from.
_CORRECTION = 1.0


class Residuals(pydantic.BaseModel):
    """Measured minus predicted logs on one kind of fold, in order."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    values: list[pydantic.FiniteFloat] = []

    @classmethod
    def of(cls, residuals: Array) -> Residuals:
        """Keep at most so many order statistics."""
        ordered = np.sort(residuals)
        if len(ordered) > _MOST_RESIDUALS:
            chosen = np.linspace(0, len(ordered) - 1, _MOST_RESIDUALS).round().astype(int)
            ordered = ordered[chosen]
        return cls(values=ordered.tolist())

    def bounds(self, level: float) -> tuple[float, float]:
        """Return the lower and upper quantile that hold a share of the residuals between them.

        With few residuals the ends lie beyond all of them, as the next one well may.
        """
        n = len(self.values)
        if not n:
            return 0.0, 0.0
        tail = (1 - level) / 2
        position = (n + 1) * (1 - tail)
        values = np.array(self.values)
        inflation = 1.0 if position <= n else 1 + 1 / np.sqrt(n)
        share = min(1.0, position / n)
        upper = float(np.quantile(values, share)) * inflation
        lower = float(np.quantile(values, 1 - share)) * inflation
        return min(lower, 0.0), max(upper, 0.0)

    @property
    def mean_error(self) -> float:
        """The mean relative error of the predictions."""
        return float(np.abs(np.expm1(-np.array(self.values))).mean()) if self.values else 0.0


class Calibration(pydantic.BaseModel):
    """What rehearsals say about the errors of a model.

    Attributes
    ----------
    beyond
        Residuals in units of the size expected at their distance.
    base, slope
        The size of residuals at a distance of d ranges: base + slope·d.
    reach
        The largest distance rehearsed; 0 where none was.
    unknown
        Residuals when the level of a category is not known.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    inside: Residuals
    between: Residuals
    beyond: Residuals
    base: pydantic.FiniteFloat
    slope: pydantic.FiniteFloat
    reach: pydantic.FiniteFloat
    unknown: Residuals

    def bounds(
        self, kind: NDArray[np.int64], distance: Array, is_unknown: NDArray[np.bool_], level: float
    ) -> tuple[Array, Array]:
        """Return the logs of the ends of an interval relative to the prediction."""
        inside = self.inside.bounds(level)
        between = _wider(self.between.bounds(level), inside)
        beyond = self.beyond.bounds(level)
        size = self._size(distance)
        lower = np.select([kind == INSIDE, kind == BETWEEN], [inside[0], between[0]], 0.0)
        upper = np.select([kind == INSIDE, kind == BETWEEN], [inside[1], between[1]], 0.0)
        is_beyond = kind == BEYOND
        lower = np.where(is_beyond, np.minimum(beyond[0] * size, between[0]), lower)
        upper = np.where(is_beyond, np.maximum(beyond[1] * size, between[1]), upper)
        unknown = self.unknown.bounds(level)
        lower = np.where(is_unknown, np.minimum(lower, unknown[0]), lower)
        upper = np.where(is_unknown, np.maximum(upper, unknown[1]), upper)
        return np.maximum(lower, -_MOST_WIDTH), np.minimum(upper, _MOST_WIDTH)

    def expected_error(
        self, kind: NDArray[np.int64], distance: Array, is_unknown: NDArray[np.bool_]
    ) -> Array:
        """Return the mean relative error measured on such questions."""
        inside = self.inside.mean_error
        between = max(self.between.mean_error, inside)
        beyond = np.maximum(np.expm1(self._size(distance)), between)
        error = np.select([kind == INSIDE, kind == BETWEEN], [inside, between], beyond)
        result: Array = np.where(is_unknown, np.maximum(error, self.unknown.mean_error), error)
        return result

    def _size(self, distance: Array) -> Array:
        size: Array = np.minimum(self.base + self.slope * distance, _MOST_WIDTH)
        return size


def _wider(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return min(one[0], other[0]), max(one[1], other[1])


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """The runs of one fold: how far off each was, and how far outside the training points."""

    kind: int
    residuals: Array
    distance: Array


def calibrate(rehearsed: Sequence[Rehearsed], unknown: Array, log_range: float) -> Calibration:
    """Learn the size of errors from rehearsals.

    Parameters
    ----------
    unknown
        Residuals of predictions that do not know the level of a category.
    log_range
        The range of the log target: what there is to be wrong by, where nothing was rehearsed.
    """
    inside = _gathered(rehearsed, INSIDE)[0]
    between = _gathered(rehearsed, BETWEEN)[0]
    beyond, distance = _gathered(rehearsed, BEYOND)
    known = np.concatenate([inside, between])
    least = float(np.abs(known).mean()) if len(known) else _UNREHEARSED_SLOPE * log_range
    least = max(least, _LEAST_ERROR)
    if len(beyond):
        base, slope = _line(np.abs(beyond), distance, least)
        reach = float(distance.max())
    else:
        base, slope, reach = least, max(least, _UNREHEARSED_SLOPE * log_range), 0.0
        beyond, distance = known, np.zeros(len(known))
    if not len(inside):  # too few points for any fold
        inside = np.array([-1.0, 1.0]) * least * 2
        beyond, distance = inside, np.zeros(2)
    return Calibration(
        inside=Residuals.of(inside),
        between=Residuals.of(between),
        beyond=Residuals.of(beyond / (base + slope * distance)),
        base=base,
        slope=slope,
        reach=reach,
        unknown=Residuals.of(unknown),
    )


def _gathered(rehearsed: Sequence[Rehearsed], kind: int) -> tuple[Array, Array]:
    chosen = [r for r in rehearsed if r.kind == kind]
    residuals = np.concatenate([np.zeros(0), *(r.residuals for r in chosen)])
    return residuals, np.concatenate([np.zeros(0), *(r.distance for r in chosen)])


def _line(size: Array, distance: Array, least: float) -> tuple[float, float]:
    """Fit the size of residuals as a line in the distance that starts at what is seen inside."""
    moment = float(distance @ distance)
    slope = float(distance @ (size - least)) / moment if moment > 0 else 0.0
    return least, max(slope, 0.0)
