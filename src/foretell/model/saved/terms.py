"""Which terms of a linear model can change a prediction inside the measured range."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from foretell.model.features.feature import Factor, Feature, apply_step

Array = NDArray[np.float64]

#: A term that never changes a prediction by more than this share is left out of formulas. Smaller
#: coefficients are rounding errors, which differ between processors.
_SHARE = 1e-9


def matters(
    coefficients: Array,
    features: Sequence[Feature],
    ranges: Mapping[str, tuple[float, float]],
    least_prediction: float,
) -> NDArray[np.bool_]:
    """Say which coefficients can change a prediction.

    ``least_prediction``: the size of the smallest prediction to be kept exact.
    """
    most = np.empty(len(features))
    for i, feature in enumerate(features):
        bounds = [_largest(factor, ranges) for factor in feature.factors]
        most[i] = np.inf if np.inf in bounds else math.prod(bounds)
        if feature.threshold is not None:
            most[i] = 1.0
    with np.errstate(over="ignore", invalid="ignore"):  # zero times no bound
        is_large = np.abs(coefficients) * most > _SHARE * least_prediction
    return np.asarray(is_large & (coefficients != 0))


def _largest(factor: Factor, ranges: Mapping[str, tuple[float, float]]) -> float:
    """Return a bound on the size of a factor inside the measured range."""
    if factor.level is not None or factor.column not in ranges:
        return 1.0  # an indicator, or true and false
    ends = np.array(ranges[factor.column])
    for step in factor.steps:
        if step == "inverse" and ends[0] < 0 < ends[1]:
            return np.inf
        ends = apply_step(step, ends)  # every step is monotonic, so its ends bound it
    # The inverse, logarithm or root of a bound may be undefined: then nothing is known.
    return float(np.abs(ends).max()) if np.isfinite(ends).all() else np.inf
