"""Columns that only tell runs apart: names, dates and numbers of single runs, and indexes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from foretell.dataset import Dataset

if TYPE_CHECKING:
    import pandas as pd

#: Text is an identifier in a table of so many rows if more than this share of its values differ.
_FEWEST_ROWS, _LEAST_SHARE = 20, 0.5
#: Fewer numbers in a row may be a coincidence.
_FEWEST_NUMBERS = 5
#: Names of columns that number the rows: pandas calls an index without a name "Unnamed: 0".
_INDEX_NAME = re.compile(
    r"unnamed: ?\d+|#|id|index|((row|run|job|trial|sample)([ _]?(id|index|no|nr|number))?)",
    re.IGNORECASE,
)


def identifiers(dataset: Dataset, target: str) -> dict[str, str]:
    """Find columns that have a value of their own in most rows; say of each why it is left out.

    A model would take them for an explanation of each run, and could say nothing about the next.
    """
    columns = [name for name in dataset.columns if name != target]
    found = _found(dataset, columns)
    return found if len(found) < len(columns) else {}


def nothing_shared(dataset: Dataset, target: str) -> list[str]:
    """Note what is missing if no column has anything in common with new runs."""
    import pandas as pd

    columns = [name for name in dataset.columns if name != target]
    has_numbers = any(pd.api.types.is_numeric_dtype(dataset.frame[name]) for name in columns)
    if has_numbers or len(_found(dataset, columns)) < len(columns):
        return []
    return [
        "Runs have nothing in common: every column holds names, and most rows have a name of their "
        "own. New names get the mean of all runs. Add columns with numbers, or with names that "
        "several runs share."
    ]


def _found(dataset: Dataset, columns: Sequence[str]) -> dict[str, str]:
    return {
        name: reason
        for name in columns
        if (reason := _reason(name, dataset.frame[name])) is not None
    }


def _reason(name: str, values: pd.Series[Any]) -> str | None:
    import pandas as pd

    n_rows, n_values = len(values), values.nunique()
    if pd.api.types.is_numeric_dtype(values):
        numbers = np.sort(values.to_numpy(dtype=float))
        counts_up = n_rows >= _FEWEST_NUMBERS and bool((np.diff(numbers) == 1).all())
        is_index = counts_up and _INDEX_NAME.fullmatch(name.strip()) is not None
        why = f"it numbers the {n_rows} rows" if is_index else None
    else:
        is_label = n_rows >= _FEWEST_ROWS and n_values > _LEAST_SHARE * n_rows
        why = f"it has {n_values} different values in {n_rows} rows" if is_label else None
    if why is None:
        return None
    return (
        f"Column '{name}' was left out: {why}, so it tells nothing about new runs. To keep it, "
        "name it among the columns to use."
    )


def grows_with_every_row(values: pd.Series[Any]) -> bool:
    """Whether a column holds numbers that grow from each row to the next."""
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(values) or len(values) < _FEWEST_ROWS:
        return False
    return bool((np.diff(values.to_numpy(dtype=float)) > 0).all())
