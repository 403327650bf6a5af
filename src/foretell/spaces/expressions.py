"""Expressions of parameters, such as ``workers * cpus <= 4``: arithmetic and comparisons only.

They come from files of other people, so they are parsed and walked, never executed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from foretell.errors import UsageError, suggest

_MOST_CHARACTERS = 1000
_MOST_POWER = 1e6
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "min": min, "max": max, "round": round,
    "log2": math.log2, "sqrt": math.sqrt, "ceil": math.ceil, "floor": math.floor,
}  # fmt: skip


def _of_numbers(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Refuse texts and lists, which Python would repeat or format without end."""

    def checked(left: Any, right: Any) -> Any:
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise TypeError("texts and lists are compared only")
        return work(left, right)

    return checked


def _power(base: Any, exponent: Any) -> Any:
    if abs(base) > _MOST_POWER or abs(exponent) > 64:
        raise ValueError("the power is too large")
    return base**exponent


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _of_numbers(operator.add), ast.Sub: _of_numbers(operator.sub),
    ast.Mult: _of_numbers(operator.mul), ast.Div: _of_numbers(operator.truediv),
    ast.FloorDiv: _of_numbers(operator.floordiv), ast.Mod: _of_numbers(operator.mod),
    ast.Pow: _of_numbers(_power),
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


class Expression:
    """A parsed expression.

    >>> Expression("workers * cpus <= 4").value({"workers": 2, "cpus": 2})
    True
    """

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > _MOST_CHARACTERS:
            raise UsageError(f"an expression has at most {_MOST_CHARACTERS} characters")
        try:
            self.tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise UsageError(
                f"'{text}' is no expression; write one such as workers * cpus <= 4"
            ) from None
        self.names = _names(self.tree, text)

    def check(self, known: Collection[str]) -> None:
        """Raise a UsageError unless every name is known."""
        for name in self.names:
            if name not in known:
                raise UsageError(
                    f"'{self.text}' speaks of '{name}', which is no parameter. "
                    f"{suggest(name, known)}"
                )

    def value(self, configuration: Mapping[str, Any]) -> Any:
        """Compute it for one configuration."""
        try:
            found = _value(self.tree, configuration)
            if not isinstance(found, str) and not math.isfinite(found):
                raise ValueError(f"{found} is no finite number")
            return found
        except (TypeError, ValueError, ArithmeticError) as error:
            settings = ", ".join(f"{n} = {configuration[n]!r}" for n in self.names)
            raise UsageError(f"'{self.text}' has no value for {settings}: {error}") from None


def _names(tree: ast.expr, text: str) -> list[str]:
    """Return the parameters an expression speaks of; refuse all that is not arithmetic."""
    names: list[str] = []
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            is_known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
            if not is_known or node.keywords:
                raise UsageError(f"'{text}': the functions are {', '.join(_FUNCTIONS)}")
        elif isinstance(node, ast.Name):
            names += [] if node in called else [node.id]
        elif isinstance(node, ast.Constant):
            if not isinstance(node.value, bool | int | float | str):
                raise UsageError(f"'{text}': {node.value!r} is no number and no text")
        elif not isinstance(node, _GRAMMAR):
            word = type(node).__name__.lower()
            raise UsageError(f"'{text}': only arithmetic and comparisons are understood, no {word}")
    return list(dict.fromkeys(names))


_GRAMMAR = (
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.List, ast.Tuple, ast.Load, ast.And, ast.Or,
    *_BINARY, *_UNARY, *_COMPARISONS,
)  # fmt: skip


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.BinOp():
            return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
        case ast.UnaryOp():
            return _UNARY[type(node.op)](_value(node.operand, names))
        case ast.BoolOp():
            found = (_value(v, names) for v in node.values)
            return all(found) if isinstance(node.op, ast.And) else any(found)
        case ast.Compare():
            return _compare(node, names)
        case ast.List() | ast.Tuple():
            return [_value(v, names) for v in node.elts]
        case ast.Call():
            assert isinstance(node.func, ast.Name)
            return _FUNCTIONS[node.func.id](*(_value(a, names) for a in node.args))
    raise ValueError("it is no arithmetic")


def _compare(node: ast.Compare, names: Mapping[str, Any]) -> bool:
    left = _value(node.left, names)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = _value(comparator, names)
        if not _COMPARISONS[type(op)](left, right):
            return False
        left = right
    return True
