"""How far off a model was in rehearsals, and so how wide its intervals must be.

Intervals are empirical: quantiles of measured minus predicted logs, on folds that ask the same kind
of question at the same distance from the data. They come without a guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import pydantic
from numpy.typing import NDArray

from foretell.model.passports.known_errors import (
    Judged,
    KnownError,
    error_beyond,
    error_of,
    known_errors,
)
from foretell.model.passports.measured_range import MeasuredRange
from foretell.model.passports.questions import QuestionKind

Array = NDArray[np.float64]

_MOST_RESIDUAL = 1e3
Size = Annotated[float, pydantic.Field(ge=0, le=1e9, allow_inf_nan=False)]
Residual = Annotated[float, pydantic.Field(ge=-_MOST_RESIDUAL, le=_MOST_RESIDUAL)]

#: Residuals kept of each kind: enough for a quantile of one percent.
_MOST_RESIDUALS = 400
#: Of a column with too few values to rehearse: how much of the target's log range a prediction may
#: be off at a distance of one range, and between its values.
_UNREHEARSED, _UNREHEARSED_BETWEEN = 0.25, 0.05
#: Where every run was stopped, the upper end is as far up as so many ranges outside such a column.
_STOPPED = 3.0
_LEAST_SIZE = 1e-4
_TOLERANCE = 1e-9
#: The same folds chose the weights of the members, so their residuals are slightly too small.
_OPTIMISM = 1.1
#: How much the folds of a column count against those of all columns.
_OWN = 0.75
#: The runs of one level are wrong together. With this many levels held out, of a category or
#: between those of a column, intervals are twice as wide as the spread among them.
_LEVELS_THAT_TELL, _LEVELS_THAT_TELL_BETWEEN = 1, 2
_MOST_LEVELS_KNOWN = 100
#: Errors at a distance count as known if this many configurations lie as far out. Up to a factor
#: of two, one is enough.
_CONFIRMING, _UNCONFIRMED_REACH = 3, 2.0
_Widths = tuple[tuple[float, float], tuple[float, float], float, float]
#: As far as intervals were found to hold on tables kept aside (docs/automatic-mode.md).
CONTINUED_FROM, CONTINUED_RATIO = 1.5, 4.0
_MOST_WIDTH = 10.0  # of the log of an interval's end
_MOST_LOG_ERROR = 3.0
#: No relative error counts for more than this.
MOST_ERROR = float(np.expm1(_MOST_LOG_ERROR))


class Residuals(pydantic.BaseModel):
    """Measured minus predicted logs on one kind of fold, in order."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    values: list[Residual] = pydantic.Field(default=[], max_length=_MOST_RESIDUALS)

    @classmethod
    def of(cls, residuals: Array) -> Residuals:
        """Sort residuals, and keep a limited number of them, evenly spaced."""
        ordered = np.sort(np.clip(residuals, -_MOST_RESIDUAL, _MOST_RESIDUAL))
        if len(ordered) > _MOST_RESIDUALS:
            chosen = np.linspace(0, len(ordered) - 1, _MOST_RESIDUALS).round().astype(int)
            ordered = ordered[chosen]
        return cls(values=ordered.tolist())

    def bounds(self, level: float) -> tuple[float, float]:
        """Return the lower and upper quantile that hold a share of the residuals between them."""
        if not self.values:
            return 0.0, 0.0
        tail = (1 - level) / 2
        # Each end rests on its half of the residuals.
        inflation = _inflation(len(self.values) / 2)
        lower, upper = np.quantile(self.values, [tail, 1 - tail]) * inflation
        return min(float(lower), 0.0), max(float(upper), 0.0)

    def half_width(self, level: float) -> float:
        """Return the size that a share of the residuals does not exceed."""
        if not self.values:
            return 0.0
        return float(np.quantile(np.abs(self.values), level)) * _inflation(len(self.values))

    @cached_property
    def mean_error(self) -> float:
        """The mean relative error of the predictions."""
        off = -np.array(self.values)
        return float(relative_error(off, np.zeros(len(off))).mean()) if self.values else 0.0


def relative_error(log_predicted: Array, log_y: Array) -> Array:
    """Return the relative error of each prediction; a wild one counts as 20 times too high."""
    off = np.clip(log_predicted - log_y, -_MOST_LOG_ERROR, _MOST_LOG_ERROR)
    return np.abs(np.expm1(off))


def log_of_predictions(predicted: Array) -> Array:
    """Return logs that are finite even where a model predicts zero or less.

    Models of a target that was not always positive may do so, and are then completely wrong about
    a positive one.
    """
    return np.log(np.maximum(predicted, np.finfo(float).tiny))


def _or(error: float, residuals: Residuals) -> float:
    """Return a known error, or else the mean error of residuals."""
    return residuals.mean_error if np.isnan(error) else error


def _inflation(n: float) -> float:
    """Return by how much to widen quantiles of few residuals, roughly as Student's t would."""
    return _OPTIMISM * (1 + 2 / n)


class Calibration(pydantic.BaseModel):
    """What rehearsals say about the errors of a model.

    Attributes
    ----------
    between, beyond
        Residuals in units of the size expected there.
    between_size, between_sizes
        The size of residuals between levels: of a column not rehearsed, and of those rehearsed.
        Larger if few levels were held out.
    base, slope, slopes
        The size of residuals grows from the base with the distance, measured in ranges: with a
        slope for a column not rehearsed, and with slopes below and above the range for the others.
    reaches
        The largest ratio below and above the range of each column at which errors are known.
    unknown, unknown_widening
        Residuals when the level of a category is not known. Few levels tell little, so intervals
        are this much wider.
    errors
        The mean relative error by question, column and direction.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    inside: Residuals
    between: Residuals
    between_size: Size
    between_sizes: dict[str, Size]
    beyond: Residuals
    base: Size
    slope: Size
    slopes: dict[str, tuple[Size, Size]]
    reaches: dict[str, tuple[Size, Size]]
    unknown: Residuals
    unknown_widening: Size = 1.0
    errors: list[KnownError] = []

    def is_near(self, spot: Spot) -> NDArray[np.bool_]:
        """Say which rows lie no further out, along each column, than errors were measured."""
        return _is_within(spot, self._reach(spot))

    def is_supported(self, spot: Spot) -> NDArray[np.bool_]:
        """Say which rows lie within reach of intervals, along each column.

        Where errors were measured at some distance, intervals are continued to a ratio at which
        they were found to hold on tables of all kinds.
        """
        reach = self._reach(spot)
        is_continued = reach >= CONTINUED_FROM
        return _is_within(spot, np.where(is_continued, np.maximum(reach, CONTINUED_RATIO), reach))

    def _reach(self, spot: Spot) -> Array:
        """Return the largest ratio at which errors are known, in the direction of each row."""
        reaches = [self.reaches.get(n, (1.0, 1.0)) for n in spot.names]
        below, above = np.array(reaches, dtype=float).reshape(len(spot.names), 2).T
        return np.where(spot.distance > 0, above, below)

    def bounds(self, spot: Spot, level: float) -> tuple[Array, Array]:
        """Return the logs of the ends of an interval relative to the prediction."""
        inside, between, beyond_width, unknown_width = self._widths(level)
        size = self._between_size(spot)
        lower = np.where(size > 0, np.minimum(between[0] * size, inside[0]), inside[0])
        upper = np.where(size > 0, np.maximum(between[1] * size, inside[1]), inside[1])
        # The same on both sides: whether a trend over- or underestimates is chance.
        beyond = beyond_width * self._beyond_size(spot)
        lower, upper = np.minimum(lower, -beyond), np.maximum(upper, beyond)
        stopped = spot.is_stopped * beyond_width * (self.base + _STOPPED * self.slope)
        upper = np.maximum(upper, stopped)
        unknown = spot.is_unknown * unknown_width
        lower, upper = np.minimum(lower, -unknown), np.maximum(upper, unknown)
        return np.maximum(lower, -_MOST_WIDTH), np.minimum(upper, _MOST_WIDTH)

    def _widths(self, level: float) -> _Widths:
        """Return the widths at a level, cached because most callers use the same few levels."""
        if level not in self._known_widths:
            if len(self._known_widths) >= _MOST_LEVELS_KNOWN:
                self._known_widths.clear()
            self._known_widths[level] = (
                self.inside.bounds(level),
                self.between.bounds(level),
                self.beyond.half_width(level),
                self.unknown_widening * self.unknown.half_width(level),
            )
        return self._known_widths[level]

    @cached_property
    def _known_widths(self) -> dict[float, _Widths]:
        return {}

    def expected_error(self, spot: Spot) -> Array:
        """Return the mean relative error on such questions.

        It is NaN outside the range of a column along which nothing is known.
        """
        inside = np.full(
            len(spot.ratio), _or(error_of(self.errors, QuestionKind.INSIDE), self.inside)
        )
        between, unknown = np.zeros((2, len(inside)))
        for name, is_between in zip(spot.names, spot.between.T, strict=True):
            size = self.between_sizes.get(name, self.between_size)
            error = error_of(self.errors, QuestionKind.BETWEEN, name)
            error = float(np.expm1(size)) if np.isnan(error) else error
            between = np.maximum(between, np.where(is_between, error, 0.0))
        for name, is_unknown in spot.unknown.items():
            error = _or(error_of(self.errors, QuestionKind.UNKNOWN, name), self.unknown)
            unknown = np.maximum(unknown, np.where(is_unknown, error, 0.0))
        beyond = error_beyond(self.errors, spot.names, spot.distance, spot.ratio)
        elsewhere = np.maximum(np.maximum(between, beyond), unknown)
        is_inside = ~(spot.is_beyond | spot.between.any(axis=1) | spot.is_unknown)
        return np.where(is_inside, inside, elsewhere)

    def _between_size(self, spot: Spot) -> Array:
        """Return the size of residuals for the column that matters most; 0 if on all levels.

        Outside the range it is at least what it is between levels.
        """
        sizes = np.array([self.between_sizes.get(n, self.between_size) for n in spot.names])
        unmeasured = spot.between | (spot.distance != 0)
        size: Array = np.minimum((unmeasured * sizes).max(axis=1, initial=0.0), _MOST_WIDTH)
        return size

    def _beyond_size(self, spot: Spot) -> Array:
        """Return the size of residuals outside the range; 0 inside."""
        pooled = (self.slope, self.slope)
        slopes = [self.slopes.get(n, pooled) for n in spot.names]
        below, above = np.array(slopes, dtype=float).reshape(len(spot.names), 2).T
        by_column = np.where(spot.distance > 0, above, below) * spot.distance
        way = np.sqrt((by_column**2).sum(axis=1))
        return np.minimum(np.where(spot.is_beyond, self.base + way, 0.0), _MOST_WIDTH)


def _is_within(spot: Spot, reach: Array) -> NDArray[np.bool_]:
    is_within = (spot.distance == 0) | (spot.ratio <= reach * (1 + _TOLERANCE))
    return np.asarray(is_within.all(axis=1))


@dataclass(frozen=True, eq=False)
class Spot:
    """Where rows lie: how far outside along each column, between levels, or at an unknown level.

    ``distance`` is in ranges, ``ratio`` the factor by which a value leaves the range. ``unknown``
    says of each category which rows have a level that was never measured, ``is_stopped`` of which
    rows only lower bounds are known.
    """

    names: Sequence[str]
    distance: Array
    ratio: Array
    between: NDArray[np.bool_]
    unknown: Mapping[str, NDArray[np.bool_]]
    is_stopped: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        measured: MeasuredRange,
        x: Array,
        unknown: Mapping[str, NDArray[np.bool_]],
        is_stopped: NDArray[np.bool_],
    ) -> Spot:
        """Locate rows, given which have an unknown level of each category or were stopped."""
        distance = measured.distance(x)
        ratio, between = measured.ratio(x, distance), measured.between(x, distance)
        return cls(names, distance, ratio, between, unknown, is_stopped)

    @cached_property
    def is_unknown(self) -> NDArray[np.bool_]:
        """Which rows have an unknown level of some category."""
        found = np.zeros(len(self.distance), dtype=bool)
        for rows in self.unknown.values():
            found |= rows
        return found

    @cached_property
    def is_beyond(self) -> NDArray[np.bool_]:
        """Which rows leave the range of some column."""
        return np.asarray((self.distance != 0).any(axis=1))

    def by_column(self) -> Iterator[tuple[QuestionKind, str, int, NDArray[np.bool_]]]:
        """Yield which rows lie between the values of a column, and beyond its range on one side.

        A row beyond several ranges counts for the column along which it is farthest out.
        """
        is_beyond = self.is_beyond & ~self.is_unknown
        for j, name in enumerate(self.names):
            is_between = self.between[:, j] & ~self.is_beyond & ~self.is_unknown
            yield QuestionKind.BETWEEN, name, 0, is_between
            is_farthest = is_beyond & (np.abs(self.distance).argmax(axis=1) == j)
            for direction in (-1, 1):
                is_there = is_farthest & (np.sign(self.distance[:, j]) == direction)
                yield QuestionKind.BEYOND, name, direction, is_there


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """The runs of one fold: how far off each was, and how far outside the training points.

    Attributes
    ----------
    columns, direction
        The columns that were cut, and whether values above (1) or below (-1) were held out.
    configuration
        The number of each run's configuration. Repeats share it.
    """

    kind: QuestionKind
    columns: tuple[str, ...]
    direction: int
    residuals: Array
    distance: Array
    ratio: Array
    configuration: NDArray[np.int64]

    @property
    def judged(self) -> Judged:
        """The relative errors of the runs."""
        error = relative_error(-self.residuals, np.zeros(len(self.residuals)))
        return Judged(self.kind, self.columns, self.direction, self.ratio, error)


def calibrate(
    rehearsed: Sequence[Rehearsed],
    scatter: Array,
    log_range: float,
    cuttable: Sequence[str] = (),
) -> Calibration:
    """Learn the size of errors from rehearsals.

    Parameters
    ----------
    scatter
        Residuals of repeats around their configuration, used where there are no folds.
    log_range
        The range of the log target: how far off a prediction can be where nothing was rehearsed.
    cuttable
        Columns with enough values to be rehearsed. Those that were not, because there are many,
        get what the others have on average.
    """
    of_kind = {kind: [r for r in rehearsed if r.kind == kind] for kind in QuestionKind}
    inside = _residuals(of_kind[QuestionKind.INSIDE])
    guess = np.array([-1.0, 1.0]) * max(_UNREHEARSED * log_range, _LEAST_SIZE)
    if not len(inside):  # too few points for any fold
        inside = np.concatenate([guess, scatter])
    least = max(float(np.abs(inside).mean()), _LEAST_SIZE)
    levels = of_kind[QuestionKind.UNKNOWN]
    return Calibration(
        inside=Residuals.of(inside),
        **_between(of_kind[QuestionKind.BETWEEN], inside, least, log_range, cuttable),
        **_beyond(of_kind[QuestionKind.BEYOND], inside, least, log_range, cuttable),
        unknown=Residuals.of(_residuals(levels) if levels else guess),
        unknown_widening=_widening(levels, _LEVELS_THAT_TELL),
        errors=known_errors([r.judged for r in rehearsed if len(r.residuals)]),
    )


def _between(
    folds: Sequence[Rehearsed],
    inside: Array,
    least: float,
    log_range: float,
    cuttable: Sequence[str],
) -> dict[str, Any]:
    """Learn the size of residuals between the levels of each column."""
    unrehearsed = max(least, _UNREHEARSED_BETWEEN * log_range)
    if not folds:
        size = {"between_size": unrehearsed, "between_sizes": {}}
        return {"between": Residuals.of(inside / least), **size}

    def size_of(some: Sequence[Rehearsed]) -> float:
        return float(np.abs(_residuals(some)).mean())

    pooled = max(size_of(folds), least)
    sizes = {
        name: max(_mixed(size_of, own, pooled), least)
        for name, own in _by_column(folds, cuttable).items()
    }
    scaled = [f.residuals / sizes[f.columns[0]] for f in folds]
    widening = _widening(folds, _LEVELS_THAT_TELL_BETWEEN)
    return {
        "between": Residuals.of(np.concatenate(scaled)),
        "between_size": max(widening * pooled, unrehearsed),
        "between_sizes": {name: widening * size for name, size in sizes.items()},
    }


def _beyond(
    folds: Sequence[Rehearsed],
    inside: Array,
    least: float,
    log_range: float,
    cuttable: Sequence[str],
) -> dict[str, Any]:
    """Learn how residuals grow with the distance, along each column and both ways."""
    unrehearsed = max(least, _UNREHEARSED * log_range)
    if not folds:
        return {"beyond": Residuals.of(inside / least), "base": least, "slope": unrehearsed,
                "slopes": {}, "reaches": {}}  # fmt: skip

    def slope_of(some: Sequence[Rehearsed]) -> float:
        """Fit the size of residuals as a line in the distance that starts at the base."""
        size = np.abs(_residuals(some))
        distance = np.concatenate([f.distance for f in some])
        moment = float(distance @ distance)
        return max(float(distance @ (size - least)) / moment, 0.0) if moment > 0 else 0.0

    pooled = slope_of(folds)
    both_ways = {
        name: [[f for f in own if f.direction == way] for way in (-1, 1)]
        for name, own in _by_column(folds, cuttable).items()
    }
    slopes = {
        name: tuple(_mixed(slope_of, own, pooled) for own in ways)
        for name, ways in both_ways.items()
    }
    scaled = [
        f.residuals / (least + slopes[f.columns[0]][int(f.direction > 0)] * f.distance)
        for f in folds
    ]
    return {
        "beyond": Residuals.of(np.concatenate(scaled)),
        "base": least,
        "slope": max(pooled, unrehearsed),
        "slopes": slopes,
        "reaches": {
            name: tuple(_reach(own) for own in ways)
            for name, ways in both_ways.items()
            if any(ways)
        },
    }


def _widening(folds: Sequence[Rehearsed], doubled_at: int) -> float:
    """Return by how much to widen intervals, given how many levels were held out."""
    return 1 + doubled_at / max(1, len(folds))


def _by_column(folds: Sequence[Rehearsed], cuttable: Sequence[str]) -> dict[str, list[Rehearsed]]:
    """Return the folds that cut each column; none of some that could be cut."""
    names = dict.fromkeys([*cuttable, *(name for f in folds for name in f.columns)])
    return {name: [f for f in folds if name in f.columns] for name in names}


def _mixed(
    measure: Callable[[Sequence[Rehearsed]], float], own: Sequence[Rehearsed], pooled: float
) -> float:
    """Measure the folds of one column, mixed with what all columns have on average."""
    return _OWN * measure(own) + (1 - _OWN) * pooled if own else pooled


def _reach(folds: Sequence[Rehearsed]) -> float:
    """Return the largest ratio at which errors are known.

    One configuration far out says little about others there, so several must lie as far out.
    """
    furthest: dict[int, float] = {}
    for fold in folds:
        for configuration, ratio in zip(fold.configuration.tolist(), fold.ratio, strict=True):
            furthest[configuration] = max(furthest.get(configuration, 1.0), float(ratio))
    ratios = sorted(furthest.values(), reverse=True)
    if not ratios:
        return 1.0
    confirmed = ratios[_CONFIRMING - 1] if len(ratios) >= _CONFIRMING else 1.0
    return max(confirmed, min(ratios[0], _UNCONFIRMED_REACH))


def _residuals(folds: Sequence[Rehearsed]) -> Array:
    return np.concatenate([np.zeros(0), *(f.residuals for f in folds)])
