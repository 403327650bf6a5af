"""Expressions of parameters, such as ``workers * cpus <= 4``: arithmetic and comparisons only.

They come from files of other people, so they are parsed and walked, never executed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from foretell.errors import UsageError, suggest

_MOST_CHARACTERS = 1000
_MOST_POWER = 1e6


def _of_numbers(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Refuse texts and lists: Python would repeat or format them without end."""

    def checked(left: Any, right: Any) -> Any:
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise TypeError("texts and lists can only be compared")
        return work(left, right)

    return checked


def _power(base: Any, exponent: Any) -> Any:
    if abs(base) > _MOST_POWER or abs(exponent) > 64:
        raise ValueError("the power is too large")
    return base**exponent


@dataclass(frozen=True)
class Arithmetic:
    """What each part of an expression means: for single values, or for whole columns.

    Attributes
    ----------
    every, some
        What ``and`` and ``or`` make of their parts, which are computed when asked for.
    """

    constant: Callable[[Any], Any]
    listed: Callable[[Iterable[Any]], Any]
    every: Callable[[Iterable[Any]], Any]
    some: Callable[[Iterable[Any]], Any]
    binary: Mapping[type[ast.operator], Callable[[Any, Any], Any]]
    unary: Mapping[type[ast.unaryop], Callable[[Any], Any]]
    comparisons: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]
    functions: Mapping[str, Callable[..., Any]]


def evaluate(node: ast.expr, names: Mapping[str, Any], by: Arithmetic) -> Any:
    """Compute the value of a parsed expression."""
    match node:
        case ast.Constant():
            return by.constant(node.value)
        case ast.Name():
            return names[node.id]
        case ast.BinOp():
            sides = (evaluate(side, names, by) for side in (node.left, node.right))
            return by.binary[type(node.op)](*sides)
        case ast.UnaryOp():
            return by.unary[type(node.op)](evaluate(node.operand, names, by))
        case ast.BoolOp():
            join = by.every if isinstance(node.op, ast.And) else by.some
            return join(evaluate(part, names, by) for part in node.values)
        case ast.Compare():
            return by.every(_compared(node, names, by))
        case ast.List() | ast.Tuple():
            return by.listed(evaluate(part, names, by) for part in node.elts)
        case ast.Call(func=ast.Name(id=name)):
            return by.functions[name](*(evaluate(part, names, by) for part in node.args))
    raise ValueError("it is not arithmetic")


def _compared(node: ast.Compare, names: Mapping[str, Any], by: Arithmetic) -> Iterator[Any]:
    """Compare each side with the next one, as in ``1 < a <= 3``."""
    left = evaluate(node.left, names, by)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = evaluate(comparator, names, by)
        yield by.comparisons[type(op)](left, right)
        left = right


_OF_VALUES = Arithmetic(
    constant=lambda value: value,
    listed=list,
    every=all,
    some=any,
    binary={
        ast.Add: _of_numbers(operator.add), ast.Sub: _of_numbers(operator.sub),
        ast.Mult: _of_numbers(operator.mul), ast.Div: _of_numbers(operator.truediv),
        ast.FloorDiv: _of_numbers(operator.floordiv), ast.Mod: _of_numbers(operator.mod),
        ast.Pow: _of_numbers(_power),
    },
    unary={ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_},
    comparisons={
        ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
        ast.Gt: operator.gt, ast.GtE: operator.ge,
        ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
    },
    functions={
        "abs": abs, "min": min, "max": max, "round": round,
        "log2": math.log2, "sqrt": math.sqrt, "ceil": math.ceil, "floor": math.floor,
    },
)  # fmt: skip
#: All that an expression may be made of, besides names, constants and calls.
_GRAMMAR = (
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.List, ast.Tuple, ast.Load, ast.And, ast.Or,
    *_OF_VALUES.binary, *_OF_VALUES.unary, *_OF_VALUES.comparisons,
)  # fmt: skip


class Expression:
    """A parsed expression.

    >>> Expression("workers * cpus <= 4").value({"workers": 2, "cpus": 2})
    True
    """

    def __init__(self, text: str, example: str = "workers * cpus <= 4") -> None:
        self.text = text
        if len(text) > _MOST_CHARACTERS:
            raise UsageError(f"an expression has at most {_MOST_CHARACTERS} characters")
        try:
            self.tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise UsageError(
                f"'{text}' is not an expression; write one such as {example}"
            ) from None
        self.names = _names(self.tree, text)

    def check(self, known: Collection[str]) -> None:
        """Raise a UsageError unless every name is known."""
        for name in self.names:
            if name not in known:
                raise UsageError(
                    f"'{self.text}' uses '{name}', which is not a column. {suggest(name, known)}"
                )

    def names_in(self, known: Collection[str]) -> bool:
        """Say whether all columns that it uses are known."""
        return all(name in known for name in self.names)

    def parts(self, joined_by: type[ast.boolop]) -> list[Expression]:
        """Return the parts joined by ``and`` or by ``or``; none if it is another expression.

        >>> [part.text for part in Expression("a > 1 and b > 1").parts(ast.And)]
        ['a > 1', 'b > 1']
        """
        if not (isinstance(self.tree, ast.BoolOp) and isinstance(self.tree.op, joined_by)):
            return []
        return [Expression(ast.unparse(part)) for part in self.tree.values]

    def value(self, configuration: Mapping[str, Any]) -> Any:
        """Compute it for one configuration."""
        try:
            found = evaluate(self.tree, configuration, _OF_VALUES)
            if not isinstance(found, str) and not math.isfinite(found):
                raise ValueError(f"{found} is not a finite number")
            return found
        except (TypeError, ValueError, ArithmeticError) as error:
            settings = ", ".join(f"{n} = {configuration[n]!r}" for n in self.names)
            raise UsageError(f"'{self.text}' has no value for {settings}: {error}") from None


def _names(tree: ast.expr, text: str) -> list[str]:
    """Return the columns that an expression uses; refuse all that is not arithmetic."""
    names: list[str] = []
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            is_known = isinstance(node.func, ast.Name) and node.func.id in _OF_VALUES.functions
            if not is_known or node.keywords:
                raise UsageError(f"'{text}': the functions are {', '.join(_OF_VALUES.functions)}")
        elif isinstance(node, ast.Name):
            names += [] if node in called else [node.id]
        elif isinstance(node, ast.Constant):
            if not isinstance(node.value, bool | int | float | str):
                raise UsageError(f"'{text}': {node.value!r} is neither a number nor a text")
        elif not isinstance(node, _GRAMMAR):
            word = type(node).__name__.lower()
            raise UsageError(f"'{text}': only arithmetic and comparisons are allowed, not {word}")
    return list(dict.fromkeys(names))
