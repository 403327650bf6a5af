"""Predictions for a table as it was given: rows the model cannot use are marked with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import TextTable
from foretell.files.complaints import shown
from foretell.model.features.cells import MISSING
from foretell.model.saved.model import Configurations, TooFarError
from foretell.predictor import TRUST_INVALID, TRUST_MISSING, Forecast

_MOST_WHOLE = 2.0**53  # larger numbers have no digit of their own for each unit
_TOO_FAR = "too far outside the data: the model predicts no finite number"


def forecast_usable_rows(configurations: Configurations, interval: float) -> Forecast:
    """Predict the rows that the model can use; raise a DatasetError if there are none."""
    model, is_usable = configurations.model, configurations.is_usable
    if not is_usable.any():
        return model.forecast(configurations, interval)  # which says what is wrong
    rows = configurations.take(is_usable)
    too_far = np.zeros(0, dtype=np.int64)
    try:
        found = model.forecast(rows, interval)
    except TooFarError as error:
        if error.mask.all():
            raise
        too_far = np.flatnonzero(is_usable)[error.mask]
        found = model.forecast(rows.take(~error.mask), interval)
    if is_usable.all() and not len(too_far):
        return found
    reasons = _reasons(configurations)
    reasons |= dict.fromkeys(too_far.tolist(), (TRUST_INVALID, _TOO_FAR))
    is_usable[too_far] = False

    def spread(values: Any, fill: float | str) -> NDArray[Any]:
        whole: NDArray[Any] = np.full(len(is_usable), fill, dtype=np.asarray(values).dtype)
        whole[is_usable] = values
        return whole

    outside = spread(np.array(found.outside, dtype=object), "")
    trust = spread(found.trust, "")
    for row, (word, reason) in reasons.items():
        trust[row], outside[row] = word, reason
    return Forecast(
        value=spread(found.value, np.nan),
        lower=spread(found.lower, np.nan),
        upper=spread(found.upper, np.nan),
        outside=outside.tolist(),
        expected_error=spread(found.expected_error, np.nan),
        trust=trust,
        along=found.along,
    )


def _reasons(configurations: Configurations) -> dict[int, tuple[str, str]]:
    """Say of each row with a fault whether values are missing or invalid, and which."""
    missing: dict[int, list[str]] = {}
    invalid: dict[int, list[str]] = {}
    for fault in configurations.faults:
        cells = configurations.frame[fault.column]
        for row in np.flatnonzero(fault.mask).tolist():
            if fault.what == MISSING:
                missing.setdefault(row, []).append(fault.column)
            else:
                text = f"{fault.column}: {shown(str(cells.iloc[row]))} {fault.is_what}"
                invalid.setdefault(row, []).append(text)
    return {
        row: (
            TRUST_INVALID if row in invalid else TRUST_MISSING,
            "; ".join(
                [
                    *([f"no value: {', '.join(missing[row])}"] if row in missing else []),
                    *invalid.get(row, []),
                ]
            ),
        )
        for row in {**missing, **invalid}
    }


def cells_as_given(source: TextTable | Path | None, table: Configurations) -> pd.DataFrame:
    """Return the cells of a table under the names of training.

    Those of a text file are texts. In any other table, whole numbers stay whole beside gaps.
    """
    if isinstance(source, TextTable):
        return source.cells().set_axis(table.columns, axis=1)
    return table.frame.apply(_whole)


def _whole(values: pd.Series[Any]) -> pd.Series[Any]:
    """Undo what pandas does to whole numbers beside a gap: 4 becomes 4.0."""
    if values.dtype != float or not values.isna().any():
        return values
    known = values[values.notna()]
    if not ((known % 1 == 0) & (known.abs() < _MOST_WHOLE)).all():
        return values
    return known.astype("int64").astype(object).reindex(values.index)
