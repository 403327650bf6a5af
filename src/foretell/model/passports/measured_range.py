"""What was measured of each column: its range, its levels, and how far a value lies outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from foretell.model.features.cells import Fault
    from foretell.model.features.feature_map import FeatureMap

Array = NDArray[np.float64]

#: A column with more values than this has no levels to lie between.
MOST_LEVELS = 20
_TOLERANCE = 1e-9
#: A column that never varied has no scale; a factor of two counts as one range.
_RANGE_OF_CONSTANT = float(np.log(2.0))
#: Larger ratios are not told apart.
MOST_RATIO = 1e6


@dataclass(frozen=True, eq=False)
class MeasuredRange:
    """The values of each numeric column in training.

    Attributes
    ----------
    low, high
        The smallest and largest value of each column.
    levels
        The values of each column that has few, in order; empty for the others.
    """

    low: Array
    high: Array
    levels: tuple[Array, ...]

    @classmethod
    def of(cls, x: Array) -> MeasuredRange:
        """Measure training rows."""
        levels = []
        for column in x.T:
            values = np.unique(column)
            levels.append(values if len(values) <= MOST_LEVELS else values[:0])
        return cls(x.min(axis=0), x.max(axis=0), tuple(levels))

    @cached_property
    def _is_log(self) -> NDArray[np.bool_]:
        return self.low > 0

    @cached_property
    def is_constant(self) -> NDArray[np.bool_]:
        """Which columns never varied, so that no model knows their effect."""
        constant: NDArray[np.bool_] = self.low == self.high
        return constant

    def _comparable(self, x: Array) -> Array:
        """Take zero in a column of one positive value, a switch always on, for half of it."""
        is_off = self.is_constant & self._is_log & (x <= 0)
        return np.where(is_off, self.low / 2, x)

    @cached_property
    def _ends(self) -> tuple[Array, Array, Array]:
        """Both ends of each range and its size, on the scale on which distances are measured."""
        with np.errstate(divide="ignore", invalid="ignore"):
            low = np.where(self._is_log, np.log(self.low), self.low)
            high = np.where(self._is_log, np.log(self.high), self.high)
        return low, high, np.where(high > low, high - low, _RANGE_OF_CONSTANT)

    def distance(self, x: Array) -> Array:
        """Return how far each value is above (positive) or below the range, in ranges.

        Positive columns are compared by ratios: twice the largest value of a column measured from
        1 to 4 is half a range above.
        """
        low, high, size = self._ends
        values = self._scaled(x)
        above = np.maximum(values - high, 0) / size
        below = np.maximum(low - values, 0) / size
        distance: Array = above - below
        distance[np.abs(distance) < _TOLERANCE] = 0.0
        return distance

    def position(self, x: Array) -> Array:
        """Return where each value lies in the range of its column: from 0 to 1 inside."""
        low, _, size = self._ends
        position: Array = (self._scaled(x) - low) / size
        return position

    def _scaled(self, x: Array) -> Array:
        """Return values on the scale on which distances are measured."""
        return np.where(self._is_log, np.log(np.maximum(self._comparable(x), 1e-300)), x)

    def ratio(self, x: Array, distance: Array | None = None) -> Array:
        """Return by which factor each value leaves the range; 1 inside.

        Where a column holds zeros or negative numbers, by how many ranges, plus one. The distance
        is measured if it is not given.
        """
        distance = self.distance(x) if distance is None else distance
        x = self._comparable(x)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            by_factor = np.maximum(x / self.high, self.low / np.maximum(x, 1e-300))
        by_range = 1 + np.abs(distance)
        ratio = np.where(self._is_log, by_factor, by_range)
        return np.clip(np.where(distance != 0, ratio, 1.0), 1.0, MOST_RATIO)

    def between(self, x: Array, distance: Array | None = None) -> NDArray[np.bool_]:
        """Say which values lie inside the range but on none of the few levels measured."""
        distance = self.distance(x) if distance is None else distance
        result = np.zeros(x.shape, dtype=bool)
        for j, levels in enumerate(self.levels):
            if len(levels) > 1:
                above = np.searchsorted(levels, x[:, j])
                nearest = levels[np.minimum(above, len(levels) - 1)]
                lower = levels[np.maximum(above - 1, 0)]
                gap = np.minimum(np.abs(x[:, j] - nearest), np.abs(x[:, j] - lower))
                result[:, j] = gap > _TOLERANCE * np.maximum(np.abs(x[:, j]), 1e-300)
        inside: NDArray[np.bool_] = result & (distance == 0)
        return inside


def total_distance(distance: Array) -> Array:
    """Return one distance per row: the length of the way outside along all columns."""
    total: Array = np.sqrt((distance**2).sum(axis=1))
    return total


def not_positive(
    ranges: Mapping[str, tuple[float, float]], values: Mapping[str, NDArray[Any]]
) -> list[Fault]:
    """Find zero and negative values of columns that were positive in every training row.

    Such columns are compared by ratios, and nothing is any number of times smaller than zero. A
    column that never varied is not compared: it may be a switch that was always on.
    """
    from foretell.model.features.cells import Fault

    found = []
    for name, (low, high) in ranges.items():
        if 0 < low < high and (bad := values[name] <= 0).any():
            first, trained = values[name][bad][0], f"in every training row ({low:g} to {high:g})"
            end = f", such as {first:g}, but was positive {trained}"
            is_what = f"is not positive, as it was {trained}"
            found.append(Fault(name, bad, "value ≤ 0", is_what, end=end))
    return found


def training_ranges(feature_map: FeatureMap, frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Measure the range of each numeric column."""
    return {
        name: (float(frame[name].min()), float(frame[name].max())) for name in feature_map.numbers
    }


def training_levels(feature_map: FeatureMap, frame: pd.DataFrame) -> dict[str, list[float]]:
    """List the values of each numeric column that has few."""
    names = feature_map.numbers
    if not names:
        return {}
    measured = MeasuredRange.of(frame[names].to_numpy(dtype=float))
    found = zip(names, measured.levels, strict=True)
    return {name: levels.tolist() for name, levels in found if len(levels)}
