"""What a model predicts, from which columns, and how far off it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foretell.model.saved.model import SavedModel


def describe(name: str, model: SavedModel) -> dict[str, Any]:
    """Describe a model as JSON."""
    columns = []
    for column in model.feature_map.columns:
        low, high = model.ranges.get(column.name, (None, None))
        levels = list(column.levels) or model.levels.get(column.name, [])
        columns.append(
            {"name": column.name, "kind": column.kind, "low": low, "high": high, "levels": levels}
        )
    return {
        "name": name,
        "target": model.target,
        "technique": model.technique,
        "n_rows": model.n_rows,
        "columns": columns,
        "errors": model.scores,
        "has_intervals": model.has_intervals,
        "formula": model.formula,
    }
