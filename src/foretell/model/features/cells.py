"""Reading the cells of a column as numbers or level names, and the faults that prevent it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import as_numbers, describe_rows
from foretell.files.complaints import shown
from foretell.model.features.feature import CATEGORY, NUMBER, Column
from foretell.spaces.levels import trained_levels

MISSING = "missing value"


@dataclass(frozen=True, eq=False)
class Fault:
    """Cells of one column that a model cannot use, all for the same reason.

    Attributes
    ----------
    what
        What such a cell is, for counting them: *missing value*, *value ≤ 0*.
    is_what
        What is wrong with one of them, after its value: *is not a number*.
    begin, end
        What comes before and after the count in a message about the table.
    """

    column: str
    mask: NDArray[np.bool_]
    what: str
    is_what: str
    begin: str = "has"
    end: str = ""

    def text(self, row_numbers: NDArray[Any]) -> str:
        """Say how many cells there are and in which rows."""
        rows = describe_rows(self.mask, row_numbers, self.what)
        return f"column '{self.column}' {self.begin} {rows}{self.end}"


def read_cells(column: Column, values: pd.Series[Any]) -> tuple[NDArray[Any], list[Fault]]:
    """Read one column as numbers or level names; cells that have a fault hold anything."""
    missing = values.isna().to_numpy(dtype=bool)
    faults = [Fault(column.name, missing, MISSING, "is missing")]
    if column.kind == CATEGORY:
        if missing.any():
            return np.full(len(values), "", dtype=object), faults
        return trained_levels(values, column.levels), []
    numbers = as_numbers(values)
    is_bad = np.isnan(numbers) & ~missing
    if column.kind == NUMBER:
        is_bad |= _are_flags(values)
    wanted = "numbers like 1000 or 1.5" if column.kind == NUMBER else "true or false"
    first = str(values[is_bad].iloc[0]) if is_bad.any() else ""
    faults += [
        Fault(
            column.name,
            is_bad,
            f"other value, such as {shown(first)}",
            f"is not {'a number' if column.kind == NUMBER else wanted}",
            f"must hold {wanted}, and has",
        ),
        Fault(column.name, np.isinf(numbers), "infinite value", "is infinite"),
    ]
    return numbers, _found(faults)


def first_faults(faults: Iterable[Fault]) -> list[Fault]:
    """Keep only the first fault of each cell."""
    seen: dict[str, NDArray[np.bool_]] = {}
    found = []
    for fault in faults:
        before = seen.get(fault.column, np.zeros(len(fault.mask), dtype=bool))
        found.append(replace(fault, mask=fault.mask & ~before))
        seen[fault.column] = before | fault.mask
    return _found(found)


def _found(faults: list[Fault]) -> list[Fault]:
    return [fault for fault in faults if fault.mask.any()]


def _are_flags(values: pd.Series[Any]) -> NDArray[np.bool_]:
    """Say which cells are true or false, which Python would take for 1 and 0."""
    if pd.api.types.is_object_dtype(values):
        return np.array([isinstance(value, bool | np.bool_) for value in values], dtype=bool)
    return np.full(len(values), pd.api.types.is_bool_dtype(values))
