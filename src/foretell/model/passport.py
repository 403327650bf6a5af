"""What a prediction says about itself: its interval, how far outside the data it is, and trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foretell.errors import UsageError
from foretell.model.calibration import Spot
from foretell.model.features.feature_map import as_numbers
from foretell.model.features.levels import level_names
from foretell.model.measured_range import MeasuredRange, total_distance

if TYPE_CHECKING:
    import pandas as pd

    from foretell.model.saved_model import SavedModel

Array = NDArray[np.float64]

TRUST_INSIDE, TRUST_NEAR, TRUST_FAR, TRUST_UNKNOWN = "inside", "near", "far", "unknown level"
#: The columns that ``foretell predict`` adds, in this order.
COLUMNS = ("prediction", "lower", "upper", "outside", "expected_error", "trust")


@dataclass(frozen=True, eq=False)
class Forecast:
    """Predictions with their passports.

    Attributes
    ----------
    lower, upper
        The ends of an empirical interval; NaN where the model knows of none.
    outside
        Which columns leave the data and how far; empty where none does.
    expected_error
        The mean relative error measured on such questions; NaN where none was.
    along
        How many rows leave the data along each column, the most frequent first.
    trust
        *inside*, *near* (as far out as errors were measured), *far* (further), or *unknown level*.
    """

    value: Array
    lower: Array
    upper: Array
    outside: list[str]
    expected_error: Array
    trust: NDArray[np.object_]
    along: dict[str, int]

    def to_frame(self) -> pd.DataFrame:
        """Return one row per prediction, with the columns of ``foretell predict``."""
        import pandas as pd

        parts = (self.value, self.lower, self.upper, self.outside, self.expected_error, self.trust)
        return pd.DataFrame(dict(zip(COLUMNS, parts, strict=True)))


def forecast(model: SavedModel, frame: pd.DataFrame, value: Array, level: float) -> Forecast:
    """Add passports to predictions."""
    if not 0 < level < 1:
        raise UsageError(f"an interval holds a share between 0 and 1, such as 0.9, not {level:g}")
    place = places(model, frame)
    is_outside = place.distance > 0
    calibration = model.calibration
    if calibration is None:
        unknown = np.full(len(value), np.nan)
        expected = model.scores.get("validation", {}).get("mape")
        is_inside = ~is_outside & ~place.spot.is_unknown
        error = np.where(is_inside & (expected is not None), expected or 0.0, np.nan)
        lower, upper, is_near = unknown, unknown, np.zeros(len(value), dtype=bool)
    else:
        low, high = calibration.bounds(place.spot, level)
        lower, upper = value * np.exp(low), value * np.exp(high)
        error = calibration.expected_error(place.spot)
        is_near = calibration.is_near(place.spot)
    trust = np.where(is_outside, TRUST_FAR, TRUST_INSIDE).astype(object)
    trust[is_outside & is_near] = TRUST_NEAR
    trust[place.spot.is_unknown] = TRUST_UNKNOWN
    return Forecast(value, lower, upper, place.remarks, error, trust, place.along)


@dataclass(frozen=True, eq=False)
class Places:
    """Where rows lie relative to the data.

    Attributes
    ----------
    distance, ratio
        How far outside, in ranges of all columns together, and as the largest factor of one.
    """

    distance: Array
    ratio: Array
    spot: Spot
    remarks: list[str]
    along: dict[str, int]


def places(model: SavedModel, frame: pd.DataFrame) -> Places:
    """Say where each row of a table lies, its columns named as in training."""
    names = list(model.ranges)
    n_rows = len(frame)
    remarks: list[list[str]] = [[] for _ in range(n_rows)]
    x = np.array([as_numbers(frame[name]) for name in names]).reshape(len(names), n_rows).T
    measured = _measured(model, names)
    distance, ratio = measured.distance(x), measured.ratio(x)
    _remark_columns(remarks, names, measured, ratio, distance)
    counts = dict(zip(names, (distance != 0).sum(axis=0).tolist(), strict=True))
    is_unknown = np.zeros(n_rows, dtype=bool)
    for name, unknown in model.feature_map.unknown_levels(frame).items():
        levels = level_names(frame[name])
        unknown_rows = np.flatnonzero(np.isin(levels, unknown))
        counts[name] = len(unknown_rows)
        for i in unknown_rows:
            remarks[i].append(f"{name}: unknown level {levels[i]}")
            is_unknown[i] = True
    return Places(
        total_distance(distance),
        ratio.max(axis=1, initial=1.0),
        Spot(names, distance, ratio, measured.between(x), is_unknown),
        ["; ".join(r) for r in remarks],
        {name: n for name, n in sorted(counts.items(), key=lambda item: -item[1]) if n},
    )


def _measured(model: SavedModel, names: list[str]) -> MeasuredRange:
    low = np.array([model.ranges[n][0] for n in names])
    high = np.array([model.ranges[n][1] for n in names])
    return MeasuredRange(low, high, tuple(np.array(model.levels.get(n, [])) for n in names))


def _remark_columns(
    remarks: list[list[str]],
    names: list[str],
    measured: MeasuredRange,
    ratio: Array,
    distance: Array,
) -> None:
    for row, column in zip(*np.nonzero(distance), strict=True):
        is_above = distance[row, column] > 0
        end = measured.high[column] if is_above else measured.low[column]
        word = "above the largest" if is_above else "below the smallest"
        remarks[row].append(f"{names[column]}: {ratio[row, column]:.3g}× {word} measured ({end:g})")
