"""The configurations to choose from: every combination of values, or the rows of a table.

They are made in blocks, so that millions of them need little memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.equal_rows import without
from foretell.errors import UsageError, suggest
from foretell.spaces.expressions import Expression
from foretell.spaces.values import Range, Scalar, Values, listed

BLOCK = 100_000
#: So many values of a continuous range are tried at a time.
_STEPS = 64


@dataclass(frozen=True)
class Rules:
    """What follows from the columns of a configuration, and what must hold for it.

    Attributes
    ----------
    excluded
        Configurations that are left out.
    """

    derive: Mapping[str, Expression] = field(default_factory=dict)
    only: tuple[Expression, ...] = ()
    excluded: pd.DataFrame | None = field(default=None, compare=False)

    def applied(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the derived columns, and keep the rows for which all expressions hold."""
        frame = self.derived(frame)
        for expression in self.only:
            frame = frame[column_of(expression, frame).astype(bool)]
        if self.excluded is not None:
            frame = without(frame, self.excluded)
        return frame.reset_index(drop=True)

    def derived(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the derived columns."""
        for name, expression in self.derive.items():
            frame = frame.assign(**{name: column_of(expression, frame)})
        return frame

    def check(self, names: Collection[str]) -> None:
        """Raise a UsageError where an expression speaks of a column that is not there."""
        for name, expression in self.derive.items():
            if name in names:
                raise UsageError(f"'{name}' is derived, and given, too; remove one of the two")
            expression.check(names)
        for expression in self.only:
            expression.check([*names, *self.derive])


class Space(Protocol):
    """What can be chosen."""

    @property
    def names(self) -> list[str]:
        """The columns of a configuration."""

    @property
    def size(self) -> float:
        """How many configurations there are, before any filter; infinite where a range is."""

    @property
    def rules(self) -> Rules:
        """What follows from columns, and what must hold."""

    def values(self, name: str) -> list[Scalar]:
        """Return different values of a column, or the ends of a continuous one."""

    def blocks(self) -> Iterator[pd.DataFrame]:
        """Make all configurations, some at a time."""


@dataclass(frozen=True)
class Listed:
    """The rows of a table."""

    frame: pd.DataFrame
    rules: Rules = Rules()

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

    def blocks(self) -> Iterator[pd.DataFrame]:
        """Return the rows, some at a time."""
        for start in range(0, len(self.frame), BLOCK):
            yield self.rules.applied(self.frame.iloc[start : start + BLOCK])


@dataclass(frozen=True)
class Grid:
    """Every combination of the values of some columns.

    Attributes
    ----------
    axes
        The values of each column: one, several, or a continuous range.
    """

    axes: Mapping[str, list[Scalar] | Range]
    rules: Rules = Rules()

    @property
    def names(self) -> list[str]:
        """The columns, in the order given, and those derived from them."""
        return [*self.axes, *self.rules.derive]

    @property
    def size(self) -> float:
        """The number of combinations; infinite with a continuous range."""
        return math.prod(
            math.inf if isinstance(axis, Range) else len(axis) for axis in self.axes.values()
        )

    def values(self, name: str) -> list[Scalar]:
        """Return the values of a column, or the ends of its range; none of a derived one."""
        axis = self.axes.get(name, [])
        return [axis.start, axis.stop] if isinstance(axis, Range) else axis

    def blocks(self) -> Iterator[pd.DataFrame]:
        """Make all combinations, the last column changing fastest."""
        assert self.size < math.inf, "a continuous space is searched"
        for start in range(0, int(self.size), BLOCK):
            rows = np.arange(start, min(start + BLOCK, int(self.size)))
            yield self.rules.applied(self._combinations(rows))

    def _combinations(self, rows: NDArray[np.int64]) -> pd.DataFrame:
        columns: dict[str, Any] = {}
        for name in reversed(list(self.axes)):
            axis = _array(self.values(name))
            rows, place = np.divmod(rows, len(axis))
            columns[name] = axis[place]
        return pd.DataFrame({name: columns[name] for name in self.axes})

    def draw(self, n: int, seed: int) -> pd.DataFrame:
        """Draw configurations that cover every axis evenly."""
        from scipy.stats import qmc

        shares = qmc.LatinHypercube(d=len(self.axes), seed=seed).random(n)
        columns = {
            name: _array(_at(axis, shares[:, j]))
            for j, (name, axis) in enumerate(self.axes.items())
        }
        return self.rules.applied(pd.DataFrame(columns))

    def around(self, configuration: Mapping[str, Any], name: str, step: int) -> pd.DataFrame:
        """Vary one column of a configuration; later steps look closer at one of many values."""
        values = _closer(self.axes[name], configuration[name], step)
        frame = pd.DataFrame({n: _array([configuration[n]] * len(values)) for n in self.axes})
        return self.rules.applied(frame.assign(**{name: _array(values)}))

    def jump(
        self, configuration: Mapping[str, Any], n: int, step: int, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Vary all columns of a configuration at random; later steps stay closer to it."""
        columns = {}
        for name, axis in self.axes.items():
            values = _closer(axis, configuration[name], step)
            columns[name] = _array([values[place] for place in rng.integers(0, len(values), n)])
        return self.rules.applied(pd.DataFrame(columns))


def _closer(axis: list[Scalar] | Range, center: Scalar, step: int) -> list[Scalar]:
    """Return values over the whole axis first, then over ever smaller parts around a value."""
    if isinstance(axis, Range):
        reach = (axis.stop - axis.start) / 4**step
        middle = float(center)
        low, high = max(axis.start, middle - reach), min(axis.stop, middle + reach)
        found = [*np.linspace(low, high, _STEPS).tolist(), middle]
        return sorted({float(f"{v:.9g}") for v in found})
    if len(axis) <= _STEPS:
        return axis
    place, reach = axis.index(center), max(len(axis) / 4**step, _STEPS / 2)
    low, high = max(0.0, place - reach), min(len(axis) - 1.0, place + reach)
    places = {place, *np.linspace(low, high, _STEPS).round().astype(int).tolist()}
    return [axis[p] for p in sorted(places)]


def _at(axis: list[Scalar] | Range, shares: NDArray[np.float64]) -> list[Scalar]:
    if isinstance(axis, Range):
        return [axis.at(share) for share in shares.tolist()]
    return [axis[place] for place in (shares * len(axis)).astype(int).tolist()]


def _array(values: Sequence[Scalar]) -> NDArray[Any]:
    """Numbers as numbers, anything else as it is."""
    is_number = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return np.array(values, dtype=None if is_number else object)


def column_of(expression: Expression, frame: pd.DataFrame) -> NDArray[Any]:
    """Compute an expression for each row; once for rows that are alike in what it speaks of."""
    if not expression.names:
        return np.full(len(frame), expression.value({}))
    groups = frame.groupby(expression.names, sort=False)
    found = np.empty(len(frame), dtype=object)
    for key, rows in groups.indices.items():
        values = key if isinstance(key, tuple) else (key,)
        plain = [v.item() if isinstance(v, np.generic) else v for v in values]
        found[rows] = expression.value(dict(zip(expression.names, plain, strict=True)))
    return found.astype(float) if len(found) else np.zeros(0)


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
            f"'{text}' names no values; write workers=1..64, size=1..64*2 or machine=m4,c4"
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
            f"'{text}' is no range; write 1..64 for whole numbers, 1..64:4 for steps, 1..64*2 for "
            "factors, the smaller number first"
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
    """Check the values of each column, and list those of ranges that can be listed."""
    twice = [name for name in vary if name in fix]
    if twice:
        raise UsageError(f"'{twice[0]}' is both varied and fixed; remove one of the two")
    if not vary and not fix:
        raise UsageError("there is nothing to choose from; say what to vary: --vary workers=1..64")
    axes: dict[str, list[Scalar] | Range] = {}
    for name, values in {**fix, **vary}.items():
        if isinstance(values, Range) and values.is_continuous and values.is_whole:
            values = values.model_copy(update={"step": 1.0})
        is_open = isinstance(values, Range) and values.is_continuous
        axes[name] = values if is_open else list(dict.fromkeys(listed(values)))  # type: ignore[assignment]
        if not axes[name]:
            raise UsageError(f"'{name}' has no value to choose; write {name}=1..8 or {name}=a,b")
    return Grid(axes, rules or Rules())


def check_columns(space: Space, needed: Mapping[str, str], known: Collection[str]) -> None:
    """Raise a UsageError unless a space has all columns that are needed, and no unknown one.

    Parameters
    ----------
    needed
        The columns, and what to say of each to those who left it out.
    known
        Columns that mean something, whether they are needed or not.
    """
    for name in space.names:
        if name not in known and isinstance(space, Grid):
            raise UsageError(f"no model knows a column '{name}'. {suggest(name, known)}")
    for name, what in needed.items():
        if name not in space.names:
            raise UsageError(
                f"{what}; add --fix {name}=VALUE, or --vary {name}=... if it is to be chosen"
            )
