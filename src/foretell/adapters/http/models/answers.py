"""What a worker answers: predictions, curves, runs and descriptions of models, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.adapters.http.models.schemas import CurveRequest
from foretell.adapters.http.server.problems import WRONG_INPUT, ProblemError
from foretell.dataset import TextTable, read_dataset
from foretell.errors import ForetellError, suggest
from foretell.model.features.feature import NUMBER
from foretell.model.saved.model import SavedModel
from foretell.predictor import Forecast

_MAX_RUNS = 500


def describe(name: str, model: SavedModel) -> dict[str, Any]:
    """Say what a model predicts, from which columns, and how far off it was."""
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


def refuse_flags(
    model: SavedModel, rows: Sequence[Mapping[str, Any]], place: str = "rows[{}]"
) -> None:
    """Refuse true and false where a column holds numbers: Python would take them for 1 and 0.

    ``place`` is what a row is called in messages, with ``{}`` for its position.
    """
    numeric = set(model.feature_map.numbers)
    numeric |= {old for old, new in model.rename.items() if new in numeric}
    for i, row in enumerate(rows):
        for name in numeric:
            if isinstance(row.get(name), bool):
                text = f"must be a number, not {str(row[name]).lower()}"
                raise ProblemError(WRONG_INPUT, text, at=(place.format(i), name))


def passports(forecast: Forecast) -> list[dict[str, Any]]:
    """Return one object per prediction; unknown numbers become null."""
    parts = zip(
        map(_known, forecast.value.tolist()),
        map(_known, forecast.lower.tolist()),
        map(_known, forecast.upper.tolist()),
        forecast.trust.tolist(),
        forecast.outside,
        map(_known, forecast.expected_error.tolist()),
        strict=True,
    )
    names = ("value", "lower", "upper", "trust", "outside", "expected_error")
    return [dict(zip(names, part, strict=True)) for part in parts]


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def curve_of(model: SavedModel, asked: CurveRequest) -> dict[str, Any]:
    """Predict along one column, inside the measured range and beyond it."""
    column = asked.column
    if column not in model.ranges:
        raise ProblemError(
            WRONG_INPUT,
            f"{column[:100]!r} is not a numeric column of this model. "
            f"{suggest(column[:100], model.ranges)}",
            at=("column",),
        )
    row = {**asked.row, column: 0.0}
    refuse_flags(model, [row], "row")
    low, high = model.ranges[column]
    x = places_along(low, high, model.levels.get(column, []), asked.n_points, asked.beyond)
    rows = pd.DataFrame([row] * len(x))
    rows[column] = x
    forecast = model.forecast(rows, asked.interval)
    points = zip(x.tolist(), passports(forecast), strict=True)
    return {
        "target": model.target,
        "column": column,
        "interval": asked.interval,
        "low": low,
        "high": high,
        "points": [{"x": place, **passport} for place, passport in points],
    }


def places_along(
    low: float, high: float, levels: list[float], n_points: int, beyond: float
) -> NDArray[np.float64]:
    """Return values from below the range to above it.

    They are whole numbers where only whole numbers were measured. Positive columns are stepped
    through by ratios, as usual in measurements.

    >>> places_along(1, 4, [1, 2, 4], 4, 2.0).tolist()
    [1.0, 2.0, 3.0, 4.0, 8.0]
    """
    if low > 0:
        x = np.geomspace(low / beyond, high * beyond, n_points)
    else:
        margin = (beyond - 1) * ((high - low) or 1.0) / 2
        x = np.linspace(low - margin, high + margin, n_points)
    measured = np.array([low, high, *levels])
    if (measured == measured.round()).all():
        x = x.round()
        x = x[x >= min(low, 1.0)]  # rounding must not add zero workers
    return np.unique(np.concatenate([x, measured]))


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
    others = [other for other in model.feature_map.columns if other.name != column]
    if runs is None or any(other.name not in row for other in others):
        return []
    for other in others:
        values, wanted = runs[other.name], row[other.name]
        if other.kind == NUMBER and isinstance(wanted, int | float):
            runs = runs[values.astype(float) == float(wanted)]
        else:
            runs = runs[values.astype(str).str.lower() == str(wanted).lower()]
    runs = runs.iloc[:: max(1, -(-len(runs) // _MAX_RUNS))]
    pairs = zip(runs[column].astype(float), runs[model.target], strict=True)
    return [{"x": x, "value": value} for x, value in pairs]
