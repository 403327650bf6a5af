"""Forecasts for a table with gaps: a row that lacks a value is marked, and the others predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.model.saved.model import Configurations
from foretell.predictor import TRUST_MISSING, Forecast


def forecast_complete_rows(configurations: Configurations, interval: float) -> Forecast:
    """Predict the rows that have all values; raise a DatasetError if none has."""
    model = configurations.model
    is_missing = configurations.frame[model.columns].isna().to_numpy()
    is_complete: NDArray[np.bool_] = np.logical_not(is_missing.any(axis=1))
    if is_complete.all() or not is_complete.any():
        return model.forecast(configurations, interval)
    found = model.forecast(configurations.take(is_complete), interval)

    def spread(values: Any, fill: float | str) -> NDArray[Any]:
        whole: NDArray[Any] = np.full(len(is_complete), fill, dtype=np.asarray(values).dtype)
        whole[is_complete] = values
        return whole

    names = np.array(model.columns, dtype=object)
    outside = spread(np.array(found.outside, dtype=object), "")
    outside[~is_complete] = [
        f"no value: {', '.join(names[row])}" for row in is_missing[~is_complete]
    ]
    return Forecast(
        value=spread(found.value, np.nan),
        lower=spread(found.lower, np.nan),
        upper=spread(found.upper, np.nan),
        outside=outside.tolist(),
        expected_error=spread(found.expected_error, np.nan),
        trust=spread(found.trust, TRUST_MISSING),
        along=found.along,
    )
