"""What a prediction says about itself: its interval, how far outside the data it is, and trust."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foretell.errors import Option, UsageError, nearest
from foretell.model.features.feature import CATEGORY
from foretell.model.features.feature_map import FeatureMap, Values
from foretell.model.passports.calibration import MOST_ERROR, Calibration, Spot
from foretell.model.passports.measured_range import MOST_RATIO, MeasuredRange
from foretell.model.table import Table
from foretell.predictor import (
    TRUST_FAR,
    TRUST_INSIDE,
    TRUST_NEAR,
    TRUST_UNKNOWN,
    Forecast,
    Outlook,
    Quantiles,
)
from foretell.spaces.levels import level_names
from foretell.wording import printable

Array = NDArray[np.float64]
#: Pairs of an unknown and a known level that are compared by spelling; more take seconds.
_MOST_COMPARED = 10_000
#: Predictions this near to a limit are at it.
_ABOUT = 1 + 1e-9


class MeasuredModel(Protocol):
    """What passports need to know about a model: what was measured, and its errors."""

    @property
    def feature_map(self) -> FeatureMap:
        """The columns of the model, with their levels."""

    @property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """The smallest and largest training value of each numeric column."""

    @property
    def measured(self) -> MeasuredRange:
        """What was measured of these columns, in the same order."""

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest prediction, at which those further out are held."""

    @property
    def categories(self) -> Mapping[str, Sequence[str]]:
        """The levels of each category in training."""

    @property
    def scores(self) -> Mapping[str, Mapping[str, float | None]]:
        """The errors measured for the model."""

    @property
    def calibration(self) -> Calibration | None:
        """How wide intervals must be; None where too little is known."""

    def is_stopped(self, values: Values, n_rows: int) -> NDArray[np.bool_]:
        """Say of which rows only lower bounds are known, because runs near them were stopped."""


def check_level(level: float) -> float:
    """Return the share of runs that intervals are to hold, or raise a UsageError."""
    if not 0 < level < 1:
        raise UsageError(
            f"must be a share between 0 and 1, such as 0.9, not {level:g}",
            option=Option("interval"),
        )
    return level


def forecast(
    model: MeasuredModel, values: Values, value: Array, level: float, doubt: Array
) -> Forecast:
    """Add passports to predictions.

    Parameters
    ----------
    doubt
        The logs of the ratios of the lower and upper end of what models that explain the data about
        as well predict, to the predictions.
    """
    place = places(model, values, len(value))
    calibration = model.calibration
    if calibration is None:
        unknown = np.full(len(value), np.nan)
        expected = model.scores.get("validation", {}).get("mape")
        is_inside = ~place.spot.is_beyond & ~place.spot.is_unknown
        error = np.where(is_inside & (expected is not None), expected or 0.0, np.nan)
        lower, upper = unknown, unknown
    else:
        low, high = calibration.bounds(place.spot, level)
        low = -_joined(-low, -doubt[:, 0], place.spot)
        high = _joined(high, doubt[:, 1], place.spot)
        lower, upper = value * np.exp(low), value * np.exp(high)
        error = calibration.expected_error(place.spot)
    trust = _trust(model, place.spot)
    # No rehearsal went far. Errors that are measured later are limited in the same way.
    error = np.where(_is_far(model, place.spot), np.nan, np.minimum(error, MOST_ERROR))
    remarks = _with_limits(place.remarks, value, model.limits)
    return Forecast(value, lower, upper, remarks, error, trust, place.along)


def _with_limits(remarks: list[str], value: Array, limits: tuple[float, float]) -> list[str]:
    """Say of predictions that they were held at a limit: such values are the same further out."""
    low, high = limits
    held = {
        "held at the model's lower limit": value <= low * _ABOUT,
        "held at the model's upper limit": value >= high / _ABOUT,
    }
    for text, is_held in held.items():
        for i in np.flatnonzero(is_held):
            remarks[i] = f"{remarks[i]}; {text}" if remarks[i] else text
    return remarks


def _joined(width: Array, doubt: Array, spot: Spot) -> Array:
    """Widen intervals beyond the data by what laws that explain the data equally well differ by.

    Errors in rehearsals and the choice of a law are independent reasons to be wrong.
    """
    return np.where(spot.is_beyond, np.hypot(width, np.maximum(doubt, 0.0)), width)


def outlook(
    model: MeasuredModel,
    values: Values,
    value: Array,
    probabilities: Sequence[float],
    doubt: Array,
) -> Outlook:
    """Add quantiles and trust to predictions, in the time that many rows allow."""
    for p in probabilities:
        if not 0 < p < 1:
            raise UsageError(f"a probability lies between 0 and 1, such as 0.9, not {p:g}")
    spot = _spot(model, values, len(value))
    quantiles = np.full((len(value), len(probabilities)), np.nan)
    if model.calibration is not None:
        for j, p in enumerate(probabilities):
            # A share of 80 % between the ends leaves 10 % above the upper one.
            low, high = model.calibration.bounds(spot, abs(2 * p - 1))
            if p < 0.5:
                quantiles[:, j] = value * np.exp(-_joined(-low, -doubt[:, j], spot))
            elif p > 0.5:
                quantiles[:, j] = value * np.exp(_joined(high, doubt[:, j], spot))
            else:
                quantiles[:, j] = value
    return Outlook(
        value,
        Quantiles(tuple(probabilities), quantiles),
        _trust(model, spot),
        _is_supported(model, spot),
    )


def _trust(model: MeasuredModel, spot: Spot) -> NDArray[np.object_]:
    trust = np.where(spot.is_beyond, TRUST_NEAR, TRUST_INSIDE).astype(object)
    trust[_is_far(model, spot)] = TRUST_FAR
    trust[spot.is_unknown] = TRUST_UNKNOWN
    return trust


def _is_far(model: MeasuredModel, spot: Spot) -> NDArray[np.bool_]:
    """Say which rows lie further outside the data than errors were measured."""
    if model.calibration is None:
        return spot.is_beyond | spot.is_stopped
    return (spot.is_beyond & ~model.calibration.is_near(spot)) | spot.is_stopped


def _is_supported(model: MeasuredModel, spot: Spot) -> NDArray[np.bool_]:
    """Say for which rows an interval rests on errors that were rehearsed, or continues these."""
    is_known = ~spot.is_unknown & ~spot.is_stopped
    if model.calibration is None:
        return ~spot.is_beyond & is_known
    return model.calibration.is_supported(spot) & is_known


@dataclass(frozen=True, eq=False)
class Places:
    """Where rows lie relative to the data; the ratio is the largest of all columns."""

    ratio: Array
    spot: Spot
    remarks: list[str]
    along: dict[str, int]


def places(model: MeasuredModel, values: Values, n_rows: int) -> Places:
    """Say where each row lies, given what was read of its columns."""
    spot = _spot(model, values, n_rows)
    names = list(spot.names)
    remarks: list[list[str]] = [[] for _ in range(n_rows)]
    for row, column in zip(*np.nonzero(spot.distance), strict=True):
        is_above = spot.distance[row, column] > 0
        end = (model.measured.high if is_above else model.measured.low)[column]
        where = f"{'above the largest' if is_above else 'below the smallest'} measured ({end:g})"
        ratio = spot.ratio[row, column]
        times = f"{'over ' if ratio >= MOST_RATIO else ''}{ratio:.3g}×"
        remarks[row].append(f"{names[column]}: {times} {where}")
    counts = dict(zip(names, (spot.distance != 0).sum(axis=0).tolist(), strict=True))
    for name, is_unknown in spot.unknown.items():
        unknown_rows = np.flatnonzero(is_unknown)
        counts[name] = len(unknown_rows)
        texts = _unknown_texts(set(values[name][unknown_rows]), model.categories[name])
        for i in unknown_rows:
            remarks[i].append(f"{name}: {texts[values[name][i]]}")
    for row in np.flatnonzero(spot.is_stopped):
        remarks[row].append("the runs nearest to it were stopped at a time limit")
    return Places(
        spot.ratio.max(axis=1, initial=1.0),
        spot,
        ["; ".join(r) for r in remarks],
        {name: n for name, n in sorted(counts.items(), key=lambda item: -item[1]) if n},
    )


def _unknown_texts(unknown: Collection[str], known: Sequence[str]) -> dict[str, str]:
    """Say of each unknown level which known one was probably meant, unless there are too many."""
    is_few = len(unknown) * len(known) <= _MOST_COMPARED
    near = {level: nearest(level, known) if is_few else None for level in unknown}
    return {
        level: f"unknown level {printable(level)}"
        + (f" (did you mean {printable(found)}?)" if found else "")
        for level, found in near.items()
    }


def spot_in_table(table: Table, train: NDArray[np.int64], rows: NDArray[np.int64]) -> Spot:
    """Locate rows of a table relative to training rows."""
    names = table.feature_map.numbers
    x = table.frame[names].to_numpy(dtype=float)
    unknown_levels = {}
    for column in table.feature_map.columns:
        if column.kind == CATEGORY:
            levels = level_names(table.frame[column.name])
            unknown_levels[column.name] = ~np.isin(levels[rows], np.unique(levels[train]))
    measured = MeasuredRange.of(x[train])
    return Spot.of(names, measured, x[rows], unknown_levels, np.zeros(len(rows), dtype=bool))


def _spot(model: MeasuredModel, values: Values, n_rows: int) -> Spot:
    names = list(model.ranges)
    x = np.array([values[name] for name in names], dtype=float).reshape(len(names), n_rows).T
    unknown_levels = {
        name: np.isin(values[name], unknown)
        for name, unknown in model.feature_map.unknown_levels(values).items()
    }
    is_stopped = model.is_stopped(values, n_rows)
    return Spot.of(names, model.measured, x, unknown_levels, is_stopped)
