"""The levels of a category: their names, and how values of another type are matched to them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def level_names(values: pd.Series[Any]) -> NDArray[Any]:
    """Name the levels of a category: 3 and 3.0 are one level, whatever type the file gave it."""
    if pd.api.types.is_float_dtype(values):
        return np.array([_float_name(v) for v in values.to_numpy(float).tolist()], dtype=object)
    return values.astype(str).to_numpy(object)


def trained_levels(values: pd.Series[Any], levels: Collection[str]) -> NDArray[Any]:
    """Name levels as training did, when it read the same column with another type.

    If all levels are numbers, the column was numeric: then 1.10 is the level 1.1, and 007 is 7.
    Otherwise levels are compared as text, except for truth values, which have three spellings.
    """
    names = level_names(values)
    unknown = set(names) - set(levels)
    if not unknown:
        return names
    are_numbers = all(_number_name(level) == level for level in levels)
    respelled = {name: _respelled(name, levels, are_numbers=are_numbers) for name in unknown}
    return np.array([respelled.get(name, name) for name in names], dtype=object)


def _respelled(name: str, levels: Collection[str], *, are_numbers: bool) -> str:
    spellings: list[str | None] = []
    if are_numbers:
        spellings = [_number_name(name)]
    elif name.lower() in {"true", "false"}:
        spellings = [name.capitalize(), name.lower(), name.upper()]  # those that pandas reads
    return next((s for s in spellings if s is not None and s in levels), name)


def _number_name(text: str) -> str | None:
    """Name the level that a text is when it is read as a number."""
    if "_" in text:  # Python reads 1_000
        return None
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        return str(number) if isinstance(number, int) else _float_name(number)
    return None


def _float_name(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
