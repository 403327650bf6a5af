"""Rows of tables as configurations: as plain dicts, and which of them are also in another table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

#: The share by which equal fractions may differ.
_TOLERANCE = 1e-12


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts of Python's own values."""
    return [
        {str(n): v.item() if isinstance(v, np.generic) else v for n, v in row.items()}
        for row in frame.to_dict("records")
    ]


def places_in(frame: pd.DataFrame, others: pd.DataFrame) -> NDArray[np.int64]:
    """Return, for each row, the position of an equal row in another table; -1 if there is none.

    Rows are compared in the columns of the other table. Of several equal rows, it is the last.
    """
    places, keys = np.zeros(len(frame), dtype=np.int64), np.zeros(len(others), dtype=np.int64)
    for name in others.columns:
        own, known, n_known = _coded(frame[name], others[name])
        # An empty cell gets a number that no other cell has.
        known, n_known = np.where(known < 0, n_known, known), n_known + 1
        places = np.where((places >= 0) & (own >= 0), places * n_known + own, -1)
        found, keys = np.unique(keys * n_known + known, return_inverse=True)
        places = _find(found, places)
    last = np.full(len(others) + 1, -1, dtype=np.int64)
    last[keys] = np.arange(len(others))
    return np.where(places >= 0, last[places], -1)


def is_in(frame: pd.DataFrame, others: pd.DataFrame) -> NDArray[np.bool_]:
    """Say which rows equal a row of another table in the columns of that table."""
    return places_in(frame, others) >= 0


def _coded(
    values: pd.Series[Any], others: pd.Series[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Number the values of a column by equality with those of another, -1 if equal to none.

    Also return the numbers of the other values, and how many there are. Fractions that differ in
    the last digits alone are equal: the same computation may end in either.
    """
    kinds = {values.dtype.kind, others.dtype.kind}
    if "f" not in kinds or not kinds <= set("iuf"):
        known = pd.Index(others.astype(object).unique())
        coded = [known.get_indexer(column.astype(object)) for column in (values, others)]
        coded = [np.where(c.isna(), -1, k) for c, k in zip((values, others), coded, strict=True)]
        return coded[0], coded[1], len(known)
    x, y = (column.to_numpy(dtype=np.float64) for column in (values, others))
    known = np.unique(y)
    groups = np.cumsum(np.diff(known, prepend=known[:1]) > _TOLERANCE * np.abs(known))
    return _nearest(known, groups, x), _nearest(known, groups, y), len(known)


def _nearest(
    known: NDArray[np.float64], groups: NDArray[np.int64], x: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the group of the known value that equals each number; -1 if there is none."""
    if not len(known):
        return np.full(len(x), -1, dtype=np.int64)
    above = np.minimum(np.searchsorted(known, x), len(known) - 1)
    below = np.maximum(above - 1, 0)
    near = np.where(np.abs(known[below] - x) < np.abs(known[above] - x), below, above)
    is_same = np.abs(known[near] - x) <= _TOLERANCE * np.abs(x)
    return np.where(is_same, groups[near], -1)


def _find(sorted_: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each value among sorted ones; -1 if it is not there."""
    if not len(sorted_):
        return np.full(len(values), -1, dtype=np.int64)
    places = np.minimum(np.searchsorted(sorted_, values), len(sorted_) - 1)
    return np.where(sorted_[places] == values, places, -1)


def without(frame: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Drop the rows that equal a row of another table in all columns that both tables have."""
    shared = [name for name in others.columns if name in frame.columns]
    if not shared or not len(others):
        return frame
    return frame[~is_in(frame, others[shared])]
