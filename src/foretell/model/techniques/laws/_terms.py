"""The terms of a scaling law: products of shapes of columns, and levels of a category."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array
from foretell.model.techniques.laws._formula import (
    Clip,
    Expression,
    Function,
    Number,
    add,
    multiply,
)
from foretell.model.techniques.points.axes import Axes

Terms = NDArray[np.int64]

#: The base terms that a term multiplies: of three columns at most, and one level.
MOST_FACTORS = 4
_MOST_COLUMNS = 3
NONE = -1
#: More products than this are not tried: those of fewer columns or simpler shapes are.
_MOST_TERMS = 1_500
#: Terms are constant from this many times the mean on, and below this share of it.
_FAR = 1e80

RISING, FALLING, DECAYING, COMPLEMENT = "a", "1/a", "1/(1+a)", "1-a"
LOGARITHMIC, ROOT, INVERSE_ROOT = "log(1+a)", "√a", "1/√a"
LINEARITHMIC, SQUARE = "a·log(1+a)", "a²"
LEVEL, NO_LEVEL = "level", "no level"

#: How much the data must speak for a shape before it is preferred to a simpler one, in units of
#: the log of the evidence, twice. Shapes that grow fast go astray first beyond the data.
SURPRISE = {
    RISING: 0.0,
    FALLING: 0.0,
    COMPLEMENT: 0.0,
    DECAYING: 1.0,
    LOGARITHMIC: 1.0,
    ROOT: 2.0,
    INVERSE_ROOT: 2.0,
    LINEARITHMIC: 3.0,
    SQUARE: 4.0,
}
_SURPRISE_OF_FACTOR, _SURPRISE_OF_TERM = 1.0, 2.0
_CURVED: tuple[str, ...] = (RISING, FALLING, LOGARITHMIC, ROOT, INVERSE_ROOT, LINEARITHMIC, SQUARE)
#: Of a column with so few values, others cannot be told from these.
_FEW_VALUES = 3
_OF_FEW_VALUES = (RISING, FALLING, COMPLEMENT, DECAYING, LOGARITHMIC, ROOT)
ALL_SHAPES = frozenset(SURPRISE)
#: Those that many terms at once may have: faster ones would go astray together beyond the data.
SLOW_SHAPES = frozenset({RISING, FALLING, COMPLEMENT, DECAYING, LOGARITHMIC})


@dataclass(frozen=True)
class Base:
    """A shape of one column, or of one category.

    Attributes
    ----------
    columns
        The column; for ``NO_LEVEL`` all indicators of the category.
    offset, scale, least
        The shape is of a = (value + offset) / scale, at least so large.
    """

    shape: str
    columns: tuple[int, ...]
    offset: float = 0.0
    scale: float = 1.0
    least: float = 0.0

    def values(self, x: Array) -> Array:
        """Return the shape of each row, never negative."""
        if self.shape == LEVEL:
            return np.asarray(x[:, self.columns[0]] != 0, dtype=np.float64)
        if self.shape == NO_LEVEL:
            return np.asarray((x[:, self.columns] == 0).all(axis=1), dtype=np.float64)
        a: Array = np.clip((x[:, self.columns[0]] + self.offset) / self.scale, self.least, _FAR)
        if self.shape == DECAYING:
            return 1 / (1 + a)
        if self.shape == COMPLEMENT:
            return np.maximum(1 - a, 0.0)
        if self.shape == FALLING:
            return 1 / a
        if self.shape in (ROOT, INVERSE_ROOT):
            root = np.sqrt(a)
            return root if self.shape == ROOT else 1 / root
        if self.shape == SQUARE:
            return a * a
        if self.shape == RISING:
            return a
        log: Array = np.log1p(a)
        return log if self.shape == LOGARITHMIC else a * log

    def expression(self, columns: Sequence[Expression]) -> Expression:
        """Return the shape, given what each column is."""
        of = [columns[column] for column in self.columns]
        if self.shape == LEVEL:
            return of[0]
        if self.shape == NO_LEVEL:
            return add([Number(1.0), *(multiply([Number(-1.0), part]) for part in of)])
        shifted = add([of[0], Number(self.offset)])
        a: Expression = Clip(multiply([Number(1 / self.scale), shifted]), self.least, _FAR)
        if self.shape == DECAYING:
            return Function("inverse", add([Number(1.0), a]))
        if self.shape == COMPLEMENT:
            return Clip(add([Number(1.0), multiply([Number(-1.0), a])]), 0.0)
        if self.shape == FALLING:
            return Function("inverse", a)
        if self.shape in (ROOT, INVERSE_ROOT):
            return (
                Function("sqrt", a)
                if self.shape == ROOT
                else Function("inverse", Function("sqrt", a))
            )
        if self.shape == SQUARE:
            return multiply([a, a])
        if self.shape == RISING:
            return a
        return (
            Function("log1p", a)
            if self.shape == LOGARITHMIC
            else multiply([a, Function("log1p", a)])
        )

    def text(self, names: Sequence[str]) -> tuple[float, str]:
        """Return a factor, and what is written after it: such as 0.125 and ``·nodes``."""
        name = names[self.columns[0]]
        if self.shape == LEVEL:
            return 1.0, f"·[{name}]"
        if self.shape == NO_LEVEL:
            return 1.0, "·[no level]"
        value = f"({name} {'+' if self.offset > 0 else '-'} {abs(self.offset):.4g})"
        value = value if self.offset else name
        ratio = f"{value}/{self.scale:.4g}"
        power, text = {
            RISING: (-1.0, f"·{value}"),
            FALLING: (1.0, f"/{value}"),
            DECAYING: (0.0, f"/(1 + {ratio})"),
            COMPLEMENT: (0.0, f"·(1 - {value})"),
            LOGARITHMIC: (0.0, f"·log(1 + {ratio})"),
            ROOT: (-0.5, f"·√{value}"),
            INVERSE_ROOT: (0.5, f"/√{value}"),
            LINEARITHMIC: (-1.0, f"·{value}·log(1 + {ratio})"),
            SQUARE: (-2.0, f"·{value}²"),
        }[self.shape]
        with np.errstate(over="ignore"):  # of a scale of 1e-200, say
            return float(np.float64(self.scale) ** power), text


def base_terms(axes: Axes) -> list[Base]:
    """Return the shapes of all columns, in an order that depends on the axes alone."""
    terms = []
    for k, column in enumerate(axes.first.tolist()):
        if axes.is_log[k]:
            shapes = _CURVED if axes.has_curve[k] else (RISING, FALLING)
            with np.errstate(over="ignore"):  # in a hostile file, for the caller to find
                offset, scale, least = axes.offset[k], np.exp(axes.mean[k]), 1 / _FAR
        else:
            least = 0.0
            # Rounded, so that the smallest value of a column that starts at 0 is 0.
            scale = axes.deviation[k] * (axes.high[k] - axes.low[k])
            smallest = axes.mean[k] + axes.deviation[k] * axes.low[k]
            offset = -round(float(smallest / scale), 12) * scale
            # What is on or off, or a share, may also be the time without it.
            shapes = (RISING, COMPLEMENT if (offset, scale) == (0.0, 1.0) else DECAYING)
        numbers = float(offset), float(scale), least
        terms += [Base(shape, (column,), *numbers) for shape in shapes]
    for group in axes.groups:
        terms += [Base(LEVEL, (column,)) for column in group]
        terms.append(Base(NO_LEVEL, group))
    return terms


def candidate_terms(
    base: Sequence[Base], x: Array, most_columns: int, shapes: Collection[str] = ALL_SHAPES
) -> Terms:
    """Return the products to choose from, without levels; the first is the constant.

    Of a table with many columns, products of fewer columns or of the simplest shapes only.
    """
    of_column: dict[int, list[int]] = {}
    for i, term in enumerate(base):
        if term.shape in shapes and _can_tell(term, x):
            of_column.setdefault(term.columns[0], []).append(i)
    simple = {
        column: [i for i in own if base[i].shape in (RISING, FALLING, COMPLEMENT, DECAYING)]
        for column, own in of_column.items()
    }
    terms: list[tuple[int, ...]] = [()]
    for n_columns in range(1, min(most_columns, len(of_column)) + 1):
        fitting = next((s for s in (of_column, simple) if _fits(s, n_columns, len(terms))), None)
        if fitting is None:
            break
        chosen = combinations(fitting.values(), n_columns)
        terms += [term for own in chosen for term in product(*own)]
    filled = [(*term, *[NONE] * (MOST_FACTORS - len(term))) for term in terms]
    return np.array(filled, dtype=np.int64)


def _can_tell(term: Base, x: Array) -> bool:
    """Whether a column has enough values to tell a shape from simpler ones."""
    return term.shape in _OF_FEW_VALUES or len(np.unique(x[:, term.columns[0]])) > _FEW_VALUES


def _fits(shapes: dict[int, list[int]], n_columns: int, n_terms: int) -> bool:
    """Whether all products of so many columns are few enough to be tried."""
    # The sum over all choices of columns of the product of their numbers of shapes.
    counts = np.zeros(n_columns + 1)
    counts[0] = 1.0
    for own in shapes.values():
        counts[1:] += len(own) * counts[:-1]
    return bool(n_terms + counts[-1] <= _MOST_TERMS)


def surprise(base: Sequence[Base], terms: Terms) -> Array:
    """Return how unlikely each term is before any data are seen; terms have no levels."""
    of_base = np.array([*(SURPRISE.get(term.shape, np.inf) for term in base), 0.0])  # of none: 0
    n_factors = np.count_nonzero(terms != NONE, axis=1)
    factors = _SURPRISE_OF_FACTOR * np.maximum(0, n_factors - 1)
    total: Array = _SURPRISE_OF_TERM + factors + of_base[terms].sum(axis=1)
    return total


def term_values(base: Sequence[Base], terms: Terms, x: Array) -> Array:
    """Return the value of each term in each row."""
    of_base = np.ones((len(x), len(base) + 1))  # the last stands for none
    for i in np.unique(terms[terms != NONE]).tolist():
        of_base[:, i] = base[i].values(x)
    matrix = of_base.take(terms[:, 0], axis=1)
    for factor in terms.T[1:]:
        if (factor != NONE).any():
            matrix *= of_base.take(factor, axis=1)
    return matrix
