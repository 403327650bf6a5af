"""The coordinates of laws and processes: logarithms where they exist, levels as codes.

A column of positive numbers is replaced by its logarithm, so that a power law is a straight line.
One that also holds zeros is shifted a little first. Any other stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array, State
from foretell.model.techniques._state import read_array

Groups = tuple[tuple[int, ...], ...]

#: A column with zeros gets a logarithm when its largest value is more than this many times the
#: smallest positive one.
_WIDE = 20.0
#: Exponents of the curve are clipped here: far outside, nothing more is known than a constant.
_MOST_EXPONENT = 30.0
_MOST_CURVE = 3.0  # deviation of a curve in training
_NO_COLUMN = -1
_FEW_ROWS = 2_000  # of which a column is remembered


@dataclass(frozen=True, eq=False)
class Axes:
    """Numeric axes, each a column or the product of two, and categories.

    Attributes
    ----------
    first, second
        The columns whose product is the axis; ``second`` is -1 where the axis is one column.
    is_log, offset, mean, deviation
        An axis is (log(value + offset) - mean) / deviation, or the same without the logarithm.
    low, high
        The range of each axis in training.
    has_curve, level, slope, height
        Whether an axis also has a curve, the part of 1/value that no straight line in the
        logarithm explains: ``(exp(-z·deviation) - level - slope·z) / height``.
    groups
        The columns of each category: the indicators of its levels.
    """

    n_columns: int
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    is_log: NDArray[np.bool_]
    offset: Array
    mean: Array
    deviation: Array
    low: Array
    high: Array
    has_curve: NDArray[np.bool_]
    level: Array
    slope: Array
    height: Array
    groups: Groups

    @classmethod
    def of(cls, x: Array, groups: Groups = (), products: Sequence[tuple[int, int]] = ()) -> Axes:
        """Measure training rows; a column of one value gives no axis."""
        indicators = {column for group in groups for column in group}
        plain = [(j, _NO_COLUMN) for j in range(x.shape[1]) if j not in indicators]
        pairs = [pair for pair in [*plain, *products] if np.ptp(_values(x, *pair)) > 0]
        measured = [_measure(_values(x, *pair)) for pair in pairs]
        columns = np.array(pairs, dtype=np.int64).reshape(len(pairs), 2)
        parts = np.array(measured, dtype=np.float64).reshape(len(pairs), len(_MEASURED)).T
        numbers = dict(zip(_MEASURED, parts, strict=True))
        is_log, has_curve = (numbers.pop(name) != 0 for name in _FLAGS)
        varying = tuple(g for g in groups if (np.ptp(x[:, list(g)], axis=0) > 0).any())
        return cls(
            n_columns=x.shape[1],
            first=columns[:, 0],
            second=columns[:, 1],
            groups=varying,
            is_log=is_log,
            has_curve=has_curve,
            **numbers,
        )

    @property
    def columns(self) -> list[set[int]]:
        """The columns of each axis: one, or the two that are multiplied."""
        pairs = zip(self.first.tolist(), self.second.tolist(), strict=True)
        return [set(pair) - {_NO_COLUMN} for pair in pairs]

    @property
    def n_axes(self) -> int:
        """How many numeric axes there are."""
        return len(self.first)

    def coordinates(self, x: Array) -> Array:
        """Return the axes of each row: mean 0 and deviation 1 in training."""
        z = np.empty((len(x), self.n_axes))
        for k in range(self.n_axes):
            values = _values(x, self.first[k], self.second[k])
            if self.is_log[k]:
                values = np.log(np.maximum(values + self.offset[k], 1e-300))
            z[:, k] = (values - self.mean[k]) / self.deviation[k]
        return z

    def curves(self, z: Array) -> Array:
        """Return the curve of each axis that has one, in the order of the axes.

        Below the smallest measured value it goes on as a straight line: 1/value explodes there,
        and what is measured in logarithms never grows faster than a power.
        """
        kept = np.flatnonzero(self.has_curve)
        z, low, deviation = z[:, kept], self.low[kept], self.deviation[kept]
        held = np.maximum(z, low)
        exponent = np.clip(-held * deviation, -_MOST_EXPONENT, _MOST_EXPONENT)
        inverse = np.exp(exponent) * (1 + (held - z) * deviation)
        line = self.level[kept] + self.slope[kept] * z
        return (inverse - line) / self.height[kept]

    def codes(self, x: Array) -> NDArray[np.int64]:
        """Return the level of each category as its position in the group; -1 is unknown."""
        codes = np.full((len(x), len(self.groups)), -1, dtype=np.int64)
        for i, group in enumerate(self.groups):
            indicators = x[:, list(group)] != 0
            known = indicators.any(axis=1)
            codes[known, i] = indicators[known].argmax(axis=1)
        return codes

    def to_state(self) -> State:
        """Return plain arrays."""
        group_of = np.full(self.n_columns, -1, dtype=np.int64)
        for i, group in enumerate(self.groups):
            group_of[list(group)] = i
        arrays = {name: getattr(self, name) for name in (*_NUMBERS, *_WHOLE, *_FLAGS)}
        return State({}, {**arrays, "group_of": group_of})

    @classmethod
    def from_state(cls, state: State, n_columns: int) -> Axes:
        """Rebuild, or raise ValueError."""
        first = read_array(state, "first", shape=(None,), dtype=np.int64)
        n = len(first)
        second = read_array(state, "second", shape=(n,), dtype=np.int64)
        highest = np.maximum(first, second).max(initial=0)
        if n and not (first.min() >= 0 and second.min() >= _NO_COLUMN and highest < n_columns):
            raise ValueError("an axis belongs to no column")
        numbers = {name: read_array(state, name, shape=(n,)) for name in _NUMBERS}
        flags = {name: read_array(state, name, shape=(n,), dtype=np.bool_) for name in _FLAGS}
        if not ((numbers["deviation"] > 0).all() and (numbers["height"] > 0).all()):
            raise ValueError("deviations and heights must be positive")
        group_of = read_array(state, "group_of", shape=(n_columns,), dtype=np.int64)
        n_groups = int(group_of.max(initial=-1)) + 1
        if n_groups > n_columns:
            raise ValueError("there are more categories than columns")
        groups = tuple(tuple(np.flatnonzero(group_of == i).tolist()) for i in range(n_groups))
        if not all(groups):
            raise ValueError("a category has no column")
        return cls(
            n_columns=n_columns, first=first, second=second, groups=groups, **numbers, **flags
        )


_NUMBERS = ("offset", "mean", "deviation", "low", "high", "level", "slope", "height")
_MEASURED = (
    "is_log", "offset", "mean", "deviation", "low", "high", "has_curve", "level", "slope", "height",
)  # fmt: skip
_WHOLE = ("first", "second")
_FLAGS = ("is_log", "has_curve")


def _values(x: Array, first: int, second: int) -> Array:
    values: Array = x[:, first]
    return values if second == _NO_COLUMN else values * x[:, second]


def _measure(values: Array) -> tuple[float, ...]:
    """Return what is measured of an axis; all members of an ensemble ask for the same ones."""
    if len(values) > _FEW_ROWS:
        return _measured(values)
    return _remembered(values.tobytes())


@lru_cache(maxsize=128)
def _remembered(content: bytes) -> tuple[float, ...]:
    return _measured(np.frombuffer(content))


def _measured(values: Array) -> tuple[float, ...]:
    """Return what is measured of an axis, in the order of _MEASURED."""
    levels = np.unique(values)
    smallest = levels[levels > 0][0] if levels[-1] > 0 else 0.0
    is_wide = levels[0] == 0 and len(levels) > 2 and levels[-1] > _WIDE * smallest
    is_log = bool(levels[0] > 0 or is_wide)
    offset = float(smallest) if is_log and levels[0] == 0 else 0.0
    if is_log:
        values, levels = np.log(values + offset), np.log(levels + offset)
    mean, deviation = float(values.mean()), float(values.std())
    if not deviation > 0:
        deviation = float(np.ptp(values)) or 1.0
    z = (values - mean) / deviation
    has_curve = is_log and len(levels) > 2
    level, slope, height = 0.0, 0.0, 1.0
    if has_curve:
        inverse = np.exp(np.clip(-z * deviation, -_MOST_EXPONENT, _MOST_EXPONENT))
        slope, level = np.polyfit(z, inverse, 1)
        # Over many decades 1/x dwarfs all else. On narrow axes it stays as it is: stretched to the
        # same size there, it would explode outside.
        height = max(1.0, float((inverse - level - slope * z).std()) / _MOST_CURVE)
    return (
        float(is_log), offset, mean, deviation, float(z.min()), float(z.max()),
        float(has_curve), float(level), float(slope), height,
    )  # fmt: skip
