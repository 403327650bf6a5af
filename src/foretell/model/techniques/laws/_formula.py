"""Formulas as small trees: written once by a model, turned into JSON, Python and SQL elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Number:
    """A finite constant."""

    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError("a number of its formula is not finite")


@dataclass(frozen=True)
class Column:
    """The number in a column of the table; true and false are 1 and 0."""

    name: str
    is_flag: bool = False


@dataclass(frozen=True)
class Level:
    """1 where a category has this level, 0 elsewhere.

    Attributes
    ----------
    spellings
        The texts that mean the level, itself among them.
    is_number
        Whether all levels of the category are numbers: then 3, 3.0 and "3" are one level.
    """

    column: str
    spellings: tuple[str, ...]
    is_number: bool = False


@dataclass(frozen=True)
class Sum:
    """The sum of parts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Product:
    """The product of parts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Function:
    """A function of one expression: inverse, log, log1p, sqrt or exp."""

    name: str
    of: Expression


@dataclass(frozen=True)
class Clip:
    """Something moved to the nearest value within bounds; None leaves a side open."""

    of: Expression
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class AtLeast:
    """1 where something reaches a value, 0 elsewhere."""

    of: Expression
    value: float


Expression = Number | Column | Level | Sum | Product | Function | Clip | AtLeast


@runtime_checkable
class Formulated(Protocol):
    """A regressor that is a formula of its columns."""

    def expression(self, columns: Sequence[Expression]) -> Expression:
        """Return the prediction, given what each column is."""

    def formula(self, names: Sequence[str], target: str) -> str:
        """Return the law as a line to read, in the units of the table."""


def add(parts: Iterable[Expression]) -> Expression:
    """Return a sum without sums in it, and with its constants folded into one.

    >>> add([Number(1), Column("x"), Number(2)])
    Sum(parts=(Column(name='x', is_flag=False), Number(value=3)))
    """
    parts = [p for part in parts for p in (part.parts if isinstance(part, Sum) else (part,))]
    constant = sum(part.value for part in parts if isinstance(part, Number))
    others: list[Expression] = [part for part in parts if not isinstance(part, Number)]
    if constant or not others:
        others.append(Number(constant))
    return others[0] if len(others) == 1 else Sum(tuple(others))


def multiply(parts: Iterable[Expression]) -> Expression:
    """Return a product without products in it, and with its constants folded into one.

    >>> multiply([Number(2), Column("x"), Number(0.5)])
    Column(name='x', is_flag=False)
    """
    parts = [p for part in parts for p in (part.parts if isinstance(part, Product) else (part,))]
    constant = math.prod(part.value for part in parts if isinstance(part, Number))
    others: list[Expression] = [part for part in parts if not isinstance(part, Number)]
    if constant != 1 or not others:
        others.insert(0, Number(constant))
    return others[0] if len(others) == 1 else Product(tuple(others))


def raised(of: Expression, floor: float) -> Expression:
    """Return what is at least a floor; bounds that are there already take it over.

    SQL has to write out what it bounds once per bound.

    >>> raised(Clip(Column("x"), 1, 9), 4)
    Clip(of=Column(name='x', is_flag=False), low=4, high=9)
    """
    if isinstance(of, Function) and of.name == "exp" and isinstance(of.of, Clip) and floor > 0:
        return Function("exp", raised(of.of, math.log(floor)))
    if isinstance(of, Clip):
        low = floor if of.low is None else max(of.low, floor)
        return Clip(of.of, low, None if of.high is None else max(of.high, floor))
    return Clip(of, low=floor)


def linear(
    coefficients: Iterable[float], columns: Iterable[Expression], constant: float
) -> Expression:
    """Return a weighted sum plus a constant; what weighs nothing is left out."""
    pairs = zip(coefficients, columns, strict=True)
    terms = [multiply([Number(float(c)), column]) for c, column in pairs if c]
    return add([*terms, Number(float(constant))])
