"""Expressions of whole columns at once: the same values as row by row, in little time."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.errors import UsageError
from foretell.spaces.expressions import Expression

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "log2": np.log2, "sqrt": np.sqrt, "ceil": np.ceil, "floor": np.floor,
    "min": lambda *parts: reduce(np.minimum, parts),
    "max": lambda *parts: reduce(np.maximum, parts),
}  # fmt: skip


def column_of(expression: Expression, frame: pd.DataFrame) -> NDArray[Any]:
    """Compute an expression for each row, as a number; what holds is 1."""
    found = _at_once(expression, frame)
    if found is None:
        found = _row_by_row(expression, frame)
    return found


def _at_once(expression: Expression, frame: pd.DataFrame) -> NDArray[Any] | None:
    """Compute it on numbers; None where texts or rare words take part, or a value is missing."""
    columns = {name: frame[name].to_numpy() for name in expression.names}
    if not all(np.issubdtype(column.dtype, np.number) for column in columns.values()):
        return None
    as_floats = {name: column.astype(float) for name, column in columns.items()}
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(_value(expression.tree, as_floats), dtype=float)
    except (TypeError, ValueError, ArithmeticError, KeyError):
        return None
    found = np.broadcast_to(found, len(frame))
    return found if np.isfinite(found).all() else None


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return float(value)
        case ast.Name():
            return names[node.id]
        case ast.BinOp():
            return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, names)
        case ast.UnaryOp(op=ast.Not()):
            return np.logical_not(_value(node.operand, names))
        case ast.BoolOp():
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return reduce(join, (_value(v, names) for v in node.values))
        case ast.Compare():
            sides = [_value(v, names) for v in (node.left, *node.comparators)]
            pairs = zip(node.ops, sides, sides[1:], strict=False)
            return reduce(np.logical_and, (_COMPARISONS[type(op)](a, b) for op, a, b in pairs))
        case ast.Call(func=ast.Name(id=name)):
            return _FUNCTIONS[name](*(_value(a, names) for a in node.args))
    raise TypeError("this is worked out row by row")


def _row_by_row(expression: Expression, frame: pd.DataFrame) -> NDArray[Any]:
    """Compute it once for rows that are alike in what it speaks of."""
    if not expression.names:
        return np.full(len(frame), _number(expression, {}))
    found = np.zeros(len(frame))
    groups = frame.groupby(expression.names, sort=False, dropna=False)
    for key, rows in groups.indices.items():
        values = key if isinstance(key, tuple) else (key,)
        plain = [v.item() if isinstance(v, np.generic) else v for v in values]
        found[rows] = _number(expression, dict(zip(expression.names, plain, strict=True)))
    return found


def _number(expression: Expression, configuration: Mapping[str, Any]) -> float:
    value = expression.value(configuration)
    if isinstance(value, str):
        raise UsageError(f"'{expression.text}' is a text; a number or a condition is wanted")
    return float(value)
