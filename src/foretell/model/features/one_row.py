"""Reading the values of a single row without building a table, which takes much longer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from foretell.model.features.feature import CATEGORY, NUMBER, Column
from foretell.model.features.feature_map import Values


def read_row(columns: Iterable[Column], row: Mapping[str, Any]) -> Values | None:
    """Read plain numbers and known levels; None where anything else calls for a table.

    >>> read_row([Column("nodes", NUMBER)], {"nodes": 4})
    {'nodes': array([4.])}
    >>> read_row([Column("nodes", NUMBER)], {"nodes": "4"}) is None
    True
    """
    values: Values = {}
    for column in columns:
        value = row.get(column.name)
        if column.kind == CATEGORY:
            if type(value) is not str or value not in column.levels:
                return None
            values[column.name] = np.array([value], dtype=object)
        else:
            number = _number(value, is_flag=column.kind != NUMBER)
            if number is None:
                return None
            values[column.name] = np.array([number])
    return values


def _number(value: Any, *, is_flag: bool) -> float | None:
    """Return a plain finite number, or a flag, as a float."""
    if is_flag:
        return float(value) if type(value) is bool else None
    if type(value) is float and math.isfinite(value):
        return value
    # Beyond, the table's own way of reading whole numbers decides.
    return float(value) if type(value) is int and abs(value) < 2**53 else None
