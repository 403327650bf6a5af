"""The measured runs behind a model, to be shown beside its predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from foretell.dataset import TextTable, read_dataset
from foretell.errors import ForetellError
from foretell.model.features.feature import NUMBER

if TYPE_CHECKING:
    import pandas as pd

    from foretell.model.saved.model import SavedModel

_MAX_POINTS = 500


def read_runs(model: SavedModel, table: bytes | None) -> pd.DataFrame | None:
    """Read the table that a fit left; None where there is none, or where it was changed since."""
    if table is None:
        return None
    try:
        source = TextTable(table, "the runs")
        target = read_dataset(source).frame[model.target].astype(float)
        frame = model.configurations(source).frame[model.columns].copy()
    except (ForetellError, KeyError, ValueError, TypeError):
        return None
    frame[model.target] = target.to_numpy()
    return frame.dropna()


def runs_along(
    model: SavedModel, runs: pd.DataFrame | None, row: Mapping[str, Any], column: str
) -> list[dict[str, float]]:
    """Return the runs that differ from a configuration in one column only, thinned if many."""
    if runs is None:
        return []
    for other in model.feature_map.columns:
        if other.name == column:
            continue
        if other.name not in row:
            return []
        runs = runs[_is_equal(runs[other.name], row[other.name], is_number=other.kind == NUMBER)]
    runs = runs.iloc[:: max(1, -(-len(runs) // _MAX_POINTS))]
    pairs = zip(runs[column].astype(float), runs[model.target], strict=True)
    return [{"x": x, "value": value} for x, value in pairs]


def _is_equal(values: pd.Series[Any], wanted: Any, *, is_number: bool) -> pd.Series[bool]:
    if is_number and isinstance(wanted, int | float):
        return values.astype(float) == float(wanted)
    return values.astype(str).str.lower() == str(wanted).lower()
