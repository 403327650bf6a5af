"""Predictions and their passports as JSON; unknown numbers become null."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foretell.predictor import Forecast


def passports(forecast: Forecast) -> list[dict[str, Any]]:
    """Return one object per prediction."""
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
