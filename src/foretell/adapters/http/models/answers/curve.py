"""Scaling curves: predictions along one column, inside the measured range and beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foretell.adapters.http.models.answers.flags import refuse_flags_in_rows
from foretell.adapters.http.models.answers.passports import passports
from foretell.adapters.http.server.problems import WRONG_INPUT, ProblemError
from foretell.errors import suggest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from foretell.adapters.http.models.schemas import CurveRequest
    from foretell.model.saved.model import SavedModel


def curve_of(model: SavedModel, asked: CurveRequest) -> dict[str, Any]:
    """Predict along the column that is asked for."""
    import pandas as pd

    if asked.column not in model.ranges:
        raise ProblemError(
            WRONG_INPUT,
            f"{asked.column[:100]!r} is not a numeric column of this model. "
            f"{suggest(asked.column[:100], model.ranges)}",
            at=("column",),
        )
    refuse_flags_in_rows(model, [{**asked.row, asked.column: 0.0}], "row")
    low, high = model.ranges[asked.column]
    x = places_along(low, high, model.levels.get(asked.column, []), asked.n_points, asked.beyond)
    rows = pd.DataFrame([{**asked.row, asked.column: 0.0}] * len(x))
    rows[asked.column] = x
    forecast = model.forecast(rows, asked.interval)
    points = [
        {"x": place, **passport}
        for place, passport in zip(x.tolist(), passports(forecast), strict=True)
    ]
    return {
        "target": model.target,
        "column": asked.column,
        "interval": asked.interval,
        "low": low,
        "high": high,
        "points": points,
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
    import numpy as np

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
