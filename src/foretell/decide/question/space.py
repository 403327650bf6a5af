"""The configurations to choose from: every combination of values, or the rows of a table.

They are built in blocks, so that millions of them need little memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import as_numbers
from foretell.errors import Option, UsageError, listing, suggest
from foretell.spaces.rows import is_in
from foretell.spaces.rules import NO_RULES, Rules
from foretell.spaces.values import Range, Scalar, Values, drawn, latin_hypercube, listed

BLOCK = 100_000
#: How many values of a long axis are tried at a time.
_STEPS = 64
#: A range of more whole numbers is searched instead of listed.
MOST_LISTED = 1_000_000
_MOST_WHOLE = 2**53  # up to which every whole number is one in floating point


@dataclass(frozen=True)
class Listed:
    """The rows of a table."""

    frame: pd.DataFrame
    rules: Rules = NO_RULES

    @property
    def names(self) -> list[str]:
        """The columns of the table, and those derived from them."""
        return [*map(str, self.frame.columns), *self.rules.derive]

    @property
    def size(self) -> float:
        """The number of rows."""
        return len(self.frame)

    def values(self, name: str) -> list[Scalar]:
        """Return the different values of a column."""
        return [] if name in self.rules.derive else list(self.frame[name].unique())

    def common(self, others: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of another table that equal an allowed row in the columns they have."""
        own = self.rules.applied(self.frame)
        return others[is_in(others, own[list(others.columns)].drop_duplicates())]

    def blocks(self) -> Iterator[pd.DataFrame]:
        """Return the rows that the rules allow, some at a time."""
        for start in range(0, len(self.frame), BLOCK):
            yield self.rules.applied(self.frame.iloc[start : start + BLOCK])


@dataclass(frozen=True)
class Grid:
    """Every combination of the values of some columns.

    ``axes``: the values of each column: one, several, or a continuous range.
    """

    axes: Mapping[str, list[Scalar] | Range]
    rules: Rules = NO_RULES

    @property
    def names(self) -> list[str]:
        """The columns, in the order given, and those derived from them."""
        return [*self.axes, *self.rules.derive]

    @property
    def size(self) -> float:
        """The number of combinations; infinite with a continuous range."""
        return math.prod(_length(axis) for axis in self.axes.values())

    @property
    def is_listed(self) -> bool:
        """Whether the values of all columns are listed."""
        return not any(isinstance(axis, Range) for axis in self.axes.values())

    def values(self, name: str) -> list[Scalar]:
        """Return the values of a column, or the ends of its range; none of a derived one."""
        axis = self.axes.get(name, [])
        return [axis.start, axis.stop] if isinstance(axis, Range) else axis

    def common(self, others: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table that are allowed combinations, in the columns they have."""
        shared = [name for name in self.axes if name in others.columns]
        is_here = np.ones(len(others), dtype=bool)
        for name in shared:
            is_here &= _is_on(self.axes[name], others[name])
        own = self.rules.applied(others.loc[is_here, shared])
        return others[is_in(others, own[[n for n in others.columns if n in own]])]

    def blocks(self) -> Iterator[pd.DataFrame]:
        """Return all combinations that the rules allow; the last column changes fastest."""
        assert self.is_listed, "a space that is not listed must be searched"
        for start in range(0, int(self.size), BLOCK):
            rows = np.arange(start, min(start + BLOCK, int(self.size)))
            yield self.rules.applied(self._combinations(rows))

    @cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """The listed values as arrays, built once for all blocks."""
        return {name: _array(self.values(name)) for name in self.axes}

    def _combinations(self, rows: NDArray[np.int64]) -> pd.DataFrame:
        columns: dict[str, Any] = {}
        for name in reversed(list(self.axes)):
            axis = self._arrays[name]
            rows, place = np.divmod(rows, len(axis))
            columns[name] = axis[place]
        return pd.DataFrame({name: columns[name] for name in self.axes})

    def pruned(self, most_rows: int) -> pd.DataFrame | None:
        """Return all configurations that the rules allow; None if too many are built on the way.

        Columns are added one at a time, those that rules mention first, and a configuration that a
        rule forbids is dropped as soon as the columns of the rule are there.
        """
        if not self.is_listed:
            return None
        mentioned = self.rules.names
        frame = pd.DataFrame(index=[0])
        for name in sorted(self.axes, key=lambda name: name not in mentioned):
            values = _array(self.values(name))
            if len(frame) * len(values) > most_rows:
                return None
            frame = frame.loc[frame.index.repeat(len(values))].reset_index(drop=True)
            frame[name] = np.tile(values, len(frame) // len(values))
            frame = self.rules.pruned(self.rules.derived(frame)).reset_index(drop=True)
            if frame.empty:
                break
        return frame if len(frame) else pd.DataFrame(columns=self.names)

    def draw(self, n: int, seed: int) -> pd.DataFrame:
        """Draw configurations that cover every axis evenly; those that the rules allow."""
        shares = latin_hypercube(n, len(self.axes), np.random.default_rng(seed))
        columns = {
            name: _array([drawn(axis, share) for share in shares[:, j].tolist()])
            for j, (name, axis) in enumerate(self.axes.items())
        }
        return self.rules.applied(pd.DataFrame(columns))

    def narrowed(self, ends: Mapping[str, tuple[float, float]]) -> Grid:
        """Keep the values of long axes between two ends; an axis with none there stays whole."""
        axes = {
            name: _between(axis, *ends[name]) if name in ends else axis
            for name, axis in self.axes.items()
        }
        return Grid(axes, self.rules)

    def around(
        self, configuration: Mapping[str, Any], names: Sequence[str], step: int
    ) -> pd.DataFrame:
        """Vary one column of a configuration, or several together over fewer values each.

        Later steps stay closer to the configuration.
        """
        axes = [_closer(self.axes[name], configuration[name], step) for name in names]
        rows = list(product(*(axes if len(names) == 1 else map(_few, axes))))
        columns = {name: _array([configuration[name]] * len(rows)) for name in self.axes}
        columns |= {name: _array([row[i] for row in rows]) for i, name in enumerate(names)}
        return self.rules.applied(pd.DataFrame(columns))

    def jump(
        self, configuration: Mapping[str, Any], n: int, step: int, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Vary all columns of a configuration at random; later steps stay closer to it."""
        columns = {}
        for name, axis in self.axes.items():
            values = _closer(axis, configuration[name], step)
            columns[name] = _array([values[place] for place in rng.integers(0, len(values), n)])
        return self.rules.applied(pd.DataFrame(columns))


#: What can be chosen.
Space = Listed | Grid


def _closer(axis: list[Scalar] | Range, center: Scalar, step: int) -> list[Scalar]:
    """Return values over the whole axis at first, then over smaller and smaller parts of it."""
    if isinstance(axis, Range):
        reach = (axis.stop - axis.start) / 4**step
        middle = float(center)
        low, high = max(axis.start, middle - reach), min(axis.stop, middle + reach)
        found = [*np.linspace(low, high, _STEPS).tolist(), middle]
        if axis.is_whole:
            return sorted({round(v) for v in found})
        return sorted({float(f"{v:.9g}") for v in found})
    if len(axis) <= _STEPS:
        return axis
    place = axis.index(center) if center in axis else len(axis) // 2
    reach = max(len(axis) / 4**step, _STEPS / 2)
    low, high = max(0.0, place - reach), min(len(axis) - 1.0, place + reach)
    places = {place, *np.linspace(low, high, _STEPS).round().astype(int).tolist()}
    return [axis[p] for p in sorted(places)]


def _between(axis: list[Scalar] | Range, low: float, high: float) -> list[Scalar] | Range:
    if isinstance(axis, Range):
        return _clipped(axis, low, high)
    if len(axis) <= _STEPS or not all(isinstance(v, int | float) for v in axis):
        return axis
    return [v for v in axis if low <= v <= high] or axis  # type: ignore[operator]


def _is_on(axis: list[Scalar] | Range, values: pd.Series[Any]) -> NDArray[np.bool_]:
    """Say which values an axis has."""
    if not isinstance(axis, Range):
        return values.isin(axis).to_numpy(dtype=bool)
    numbers = as_numbers(values)
    is_on = (numbers >= axis.start) & (numbers <= axis.stop)
    return is_on & (numbers == np.round(numbers)) if axis.is_whole else is_on


def _clipped(axis: Range, low: float, high: float) -> Range:
    low, high = max(low, axis.start), min(high, axis.stop)
    if axis.is_whole:
        low, high = float(math.ceil(low)), float(math.floor(high))
    if low > high or (low, high) == (axis.start, axis.stop):
        return axis
    return axis.model_copy(update={"start": low, "stop": high, "whole": axis.is_whole})


def _few(values: list[Scalar]) -> list[Scalar]:
    """Return some of the values, with both ends."""
    places = np.linspace(0, len(values) - 1, min(len(values), _STEPS // 4)).round().astype(int)
    return [values[place] for place in sorted(set(places.tolist()))]


def _length(axis: list[Scalar] | Range) -> float:
    if isinstance(axis, Range):
        return axis.stop - axis.start + 1 if axis.is_whole else math.inf
    return len(axis)


def _array(values: Sequence[Scalar]) -> NDArray[Any]:
    """Return an array of numbers, or of objects if any value is something else."""
    is_number = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return np.array(values, dtype=None if is_number else object)


def read_axis(text: str) -> tuple[str, Values]:
    """Read ``workers=1..64``, ``size=1..64*2``, ``x=0..1:0.25``, ``machine=m4,c4`` or ``n=3``.

    >>> name, values = read_axis("workers=1..8*2")
    >>> name, listed(values)
    ('workers', [1, 2, 4, 8])
    """
    name, sign, written = text.partition("=")
    name, written = name.strip(), written.strip()
    if not (sign and name and written):
        raise UsageError(
            f"'{text}' has no values; write workers=1..64, size=1..64*2 or machine=m4,c4"
        )
    if ".." in written:
        return name, _read_range(text, written)
    parts = [_scalar(part.strip()) for part in written.split(",")]
    if "" in parts:
        raise UsageError(f"'{text}' has an empty value; write machine=m4,c4")
    return name, parts


def _read_range(text: str, written: str) -> Range:
    low, _, rest = written.partition("..")
    high, factor, by = rest.partition("*")
    high, colon, step = (high, "", by) if factor else rest.partition(":")
    try:
        given = {"from": float(low), "to": float(high)}
        if factor:
            given["factor"] = float(by)
        elif colon:
            given["step"] = float(step)
        return Range.model_validate(given)
    except ValueError:
        raise UsageError(
            f"'{text}' is not a range; write 1..64 for whole numbers, 1..64:4 for steps, or "
            "1..64*2 for factors, with the smaller number first"
        ) from None


def _scalar(text: str) -> Scalar:
    for read in (int, float):
        try:
            value = read(text)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return text


def make_grid(
    vary: Mapping[str, Values], fix: Mapping[str, Scalar], rules: Rules | None = None
) -> Grid:
    """Check the values of each column, and list those of ranges that are not too long."""
    rules = rules or NO_RULES
    twice = [name for name in vary if name in fix]
    if twice:
        raise UsageError(f"'{twice[0]}' is both varied and fixed; remove one of the two")
    axes: dict[str, list[Scalar] | Range] = {}
    for name, values in {**fix, **vary}.items():
        axes[name] = _axis(name, values, rules.within.get(name))
    return Grid(axes, rules)


def _axis(name: str, values: Values, within: tuple[float, float] | None) -> list[Scalar] | Range:
    """List values, unless they are a continuous range or too many whole numbers."""
    if isinstance(values, Range) and values.is_continuous:
        if values.is_whole and max(abs(values.start), abs(values.stop)) > _MOST_WHOLE:
            raise UsageError(
                f"the range of '{name}' goes to {values.stop:g}; whole numbers must stay below 9e15"
            )
        if within is not None:
            values = _clipped(values, *within)
        if not values.is_whole or _length(values) > MOST_LISTED:
            return values
        return list(range(math.ceil(values.start), math.floor(values.stop) + 1))
    found = list(dict.fromkeys(listed(values)))
    if not found:
        raise UsageError(
            f"'{name}' has no value to choose",
            remedy=("write ", Option("vary", "1..8", key=name), " or ",
                    Option("vary", "a,b", key=name)),
        )  # fmt: skip
    return found


def check_columns(
    space: Space, needed: Mapping[str, str], known: Collection[str], who: str
) -> None:
    """Raise a UsageError unless a space has all columns that are needed, and no unknown one.

    Parameters
    ----------
    needed
        The columns, and for each its name and what was measured of it.
    known
        Columns that mean something, whether they are needed or not.
    who
        Who needs them, such as *the model of time_s needs*.
    """
    for name in space.names:
        if name not in known and isinstance(space, Grid):
            raise UsageError(f"no model has a column '{name}'. {suggest(name, known)}")
    missing = {name: what for name, what in needed.items() if name not in space.names}
    if missing:
        first = next(iter(missing))
        raise UsageError(
            f"{who} {listing(missing.values())}",
            remedy=("give a value with ", Option("fix", key=first),
                    ", or the values to choose from with ", Option("vary", key=first)),
        )  # fmt: skip
