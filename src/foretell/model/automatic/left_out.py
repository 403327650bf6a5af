"""Columns that no model should learn from: outcomes of runs, and names and numbers of runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from foretell.dataset import Dataset
from foretell.outcomes import OUTCOMES

if TYPE_CHECKING:
    import pandas as pd

    from foretell.model.campaigns.schema import Data

#: Text is an identifier if there are at least this many rows, and more than this share of its
#: values differ.
_FEWEST_ROWS, _LEAST_SHARE = 20, 0.5
#: With fewer rows, names that all differ may be a coincidence.
_FEWEST_NAMES = 3
#: Fewer numbers in a row may be a coincidence.
_FEWEST_NUMBERS = 5
#: Names of columns that number the rows: pandas calls an index without a name "Unnamed: 0".
_INDEX_NAME = re.compile(
    r"unnamed: ?\d+|#|id|index|((row|run|job|trial|sample)([ _]?(id|index|no|nr|number))?)",
    re.IGNORECASE,
)
#: Names of columns whose numbers only tell runs apart, even with gaps: job_id, jobId, pid.
_ID_NAME = re.compile(r"(?i:(.*[ _.-])?[pu]?id)|.*[a-z]I[Dd]")


def left_out(dataset: Dataset, target: str) -> dict[str, str]:
    """Find columns that should not be used unless the user names them; say of each why.

    An outcome, such as the energy beside the time, is not known when a run is to be predicted. A
    column with a value of its own in most rows would be taken for an explanation of each run, and
    could say nothing about the next. The only columns of a table are kept.
    """
    columns = [name for name in dataset.columns if name != target]
    found: dict[str, str] = {}
    for reason_of in (_outcome, _identifier):
        reasons = {
            name: f"Column '{name}' was left out: {why}. To predict from it anyway, name it and "
            "the other columns with `use`."
            for name in columns
            if name not in found and (why := reason_of(name, dataset.frame[name])) is not None
        }
        if len(found) + len(reasons) < len(columns):
            found |= reasons
    return found


def nothing_shared(dataset: Dataset, data: Data) -> list[str]:
    """Note what is missing if no column that is used has anything in common with new runs."""
    columns = [dataset.frame[name] for name in dataset.columns if name != data.target]
    varied = [column for column in columns if column.nunique() > 1]
    used = set(data.use_columns or dataset.columns) - set(data.skip_columns)
    tells = any(column.name in used and not _is_own(column) for column in varied)
    if len(dataset.frame) < _FEWEST_NAMES or tells or not any(map(_is_own, varied)):
        return []
    return [
        "Runs have nothing in common: every column holds names, and most rows have a name of their "
        "own. New names get the mean of all runs. Add columns with numbers, or with names that "
        "several runs share."
    ]


def grows_with_every_row(values: pd.Series[Any]) -> bool:
    """Whether a column holds numbers that grow from each row to the next."""
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(values) or len(values) < _FEWEST_ROWS:
        return False
    return bool((np.diff(values.to_numpy(dtype=float)) > 0).all())


def _outcome(name: str, _: pd.Series[Any]) -> str | None:
    return "it is known only after a run" if name in OUTCOMES else None


def _identifier(name: str, values: pd.Series[Any]) -> str | None:
    import pandas as pd

    n_rows, n_values = len(values), values.nunique()
    if pd.api.types.is_numeric_dtype(values):
        why = _numeric_reason(name.strip(), values)
    else:
        is_label = _is_label(values)
        why = f"it has {n_values} different values in {n_rows} rows" if is_label else None
    return None if why is None else f"{why}, so it tells nothing about new runs"


def _is_own(values: pd.Series[Any]) -> bool:
    """Whether the values are names of which no other run, or hardly any, has the same."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values):
        return False
    return values.nunique() == len(values) or _is_label(values)


def _is_label(values: pd.Series[Any]) -> bool:
    return len(values) >= _FEWEST_ROWS and values.nunique() > _LEAST_SHARE * len(values)


def _numeric_reason(name: str, values: pd.Series[Any]) -> str | None:
    """Say why a column of numbers only tells runs apart; None if it may matter."""
    numbers = np.sort(values.to_numpy(dtype=float))
    steps = np.diff(numbers)
    if len(numbers) < _FEWEST_NUMBERS or not (steps > 0).all() or (numbers % 1).any():
        return None
    if _INDEX_NAME.fullmatch(name) and (steps == 1).all():
        return f"it numbers the {len(numbers)} rows"
    if _ID_NAME.fullmatch(name):
        return f"its name says identifier, and it differs in each of the {len(numbers)} rows"
    return None
