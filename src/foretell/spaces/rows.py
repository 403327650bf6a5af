"""Rows of tables as configurations: as plain dicts, and which of them are also in another table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts of Python's own values."""
    return [
        {str(n): v.item() if isinstance(v, np.generic) else v for n, v in row.items()}
        for row in frame.to_dict("records")
    ]


def places_in(frame: pd.DataFrame, others: pd.DataFrame) -> NDArray[np.int64]:
    """Return, for each row, the position of an equal row in another table; -1 if there is none.

    Rows are compared in the columns of the other table.
    """
    where = {tuple(row): i for i, row in enumerate(others.astype(object).to_numpy().tolist())}
    rows = frame[list(others.columns)].astype(object).to_numpy().tolist()
    return np.array([where.get(tuple(row), -1) for row in rows], dtype=np.int64)


def is_in(frame: pd.DataFrame, others: pd.DataFrame) -> NDArray[np.bool_]:
    """Say which rows equal a row of another table in the columns of that table."""
    # A cheap test per column first: comparing whole rows of a large table is slow.
    found = np.ones(len(frame), dtype=bool)
    for name in others.columns:
        found &= frame[name].isin(others[name].unique().tolist()).to_numpy()
    rows = np.flatnonzero(found)
    found[rows] = places_in(frame.iloc[rows], others) >= 0
    return found


def without(frame: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Drop the rows that equal a row of another table in all columns that both tables have."""
    shared = [name for name in others.columns if name in frame.columns]
    if not shared or not len(others):
        return frame
    return frame[~is_in(frame, others[shared])]
