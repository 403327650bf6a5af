"""Means and quantiles of values that depend on one another, with intervals from batches of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_N_BATCHES = 20
_LEAST_IN_BATCH = 10


@dataclass(frozen=True)
class Estimate:
    """A figure of a simulation, and the ends of its 95 % interval; NaN where values are too few."""

    value: float
    lower: float
    upper: float

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.upper - self.lower) / 2


def batch_mean(values: Array) -> Estimate:
    """Estimate a mean from values in their order.

    One wait resembles the next, so that the spread of single values says too little. Means of long
    batches are nearly independent.

    >>> batch_mean(np.tile([1.0, 3.0], 500))
    Estimate(value=2.0, lower=2.0, upper=2.0)
    """
    return _estimate(float(values.mean()) if len(values) else math.nan, _batches(values, np.mean))


def batch_quantile(values: Array, level: float) -> Estimate:
    """Estimate a quantile from values in their order: that of all, with the spread of batches."""
    whole = float(np.quantile(values, level)) if len(values) else math.nan
    return _estimate(whole, _batches(values, lambda batch: np.quantile(batch, level)))


def _batches(values: Array, figure: object) -> Array:
    assert callable(figure)
    n = min(_N_BATCHES, len(values) // _LEAST_IN_BATCH)
    return np.array([figure(batch) for batch in np.array_split(values, n)] if n > 1 else [])


def _estimate(value: float, of_batches: Array) -> Estimate:
    from scipy.stats import t

    n = len(of_batches)
    if not n:
        return Estimate(value, math.nan, math.nan)
    half = float(t.ppf(0.975, n - 1) * of_batches.std(ddof=1) / math.sqrt(n))
    return Estimate(value, value - half, value + half)
