"""Expressions of whole columns at once: the same values as row by row, in little time."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.errors import UsageError
from foretell.spaces.expressions import Arithmetic, Expression, evaluate


def _number_only(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError("texts are compared row by row")
    return float(value)


def _no_list(values: Iterable[Any]) -> Any:
    raise TypeError("lists are searched row by row")


#: Arithmetic of whole columns. What is missing here (powers, `in`, rounding) is computed row by
#: row: Python checks sizes there, and rounds in its own way.
_OF_COLUMNS = Arithmetic(
    constant=_number_only,
    listed=_no_list,
    every=lambda parts: reduce(np.logical_and, parts),
    some=lambda parts: reduce(np.logical_or, parts),
    binary={
        ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
        ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    },
    unary={ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: np.logical_not},
    comparisons={
        ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
        ast.Gt: operator.gt, ast.GtE: operator.ge,
    },
    functions={
        "abs": np.abs, "log2": np.log2, "sqrt": np.sqrt, "ceil": np.ceil, "floor": np.floor,
        "min": lambda *parts: reduce(np.minimum, parts),
        "max": lambda *parts: reduce(np.maximum, parts),
    },
)  # fmt: skip


def column_of(expression: Expression, frame: pd.DataFrame) -> NDArray[Any]:
    """Compute an expression for each row, as a number; a condition that holds is 1."""
    found = _at_once(expression, frame)
    if found is None:
        found = _row_by_row(expression, frame)
    return found


def _at_once(expression: Expression, frame: pd.DataFrame) -> NDArray[Any] | None:
    """Compute it on numbers; None if it has to be computed row by row."""
    columns = {name: frame[name].to_numpy() for name in expression.names}
    if not all(np.issubdtype(column.dtype, np.number) for column in columns.values()):
        return None
    as_floats = {name: column.astype(float) for name, column in columns.items()}
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(evaluate(expression.tree, as_floats, _OF_COLUMNS), dtype=float)
    except (TypeError, ValueError, ArithmeticError, KeyError):
        return None
    found = np.broadcast_to(found, len(frame))
    return found if np.isfinite(found).all() else None


def _row_by_row(expression: Expression, frame: pd.DataFrame) -> NDArray[Any]:
    """Compute it once for all rows that have the same values of its columns."""
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
        raise UsageError(
            f"'{expression.text}' is a text; write a number or a condition, such as workers <= 4"
        )
    return float(value)
