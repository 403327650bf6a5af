"""A table with predictions beside its cells, which stay as they were given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.dataset import TextTable
from foretell.errors import UsageError
from foretell.predictor import FORECAST_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

    from foretell.model.saved.model import Configurations
    from foretell.predictor import Forecast

_MOST_WHOLE = 2.0**53  # larger numbers have no digit of their own for each unit


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


def with_predictions(cells: pd.DataFrame, forecast: Forecast, name: str) -> pd.DataFrame:
    """Put predictions beside the cells of a table, called by a name in messages."""
    for column in FORECAST_COLUMNS:
        if column in cells.columns:
            raise UsageError(f"{name} has a column '{column}' already; rename or remove it")
    return cells.reset_index(drop=True).join(forecast.to_frame())
