"""What several techniques share against outliers: weights of rows, and bounds of predictions."""

from __future__ import annotations

import numpy as np

from foretell.model.techniques._base import Array, State
from foretell.model.techniques._state import read_number

_MAD = 1.4826  # from the median of absolute values to a standard deviation
MOST_LOG = 700.0  # whose exponential is still a number


def student_weights(
    residuals: Array, multiplicity: Array, *, tail: float, least_scale: float
) -> Array:
    """Return how much each row counts: less the further off it is than most.

    Parameters
    ----------
    multiplicity
        How many runs each row stands for.
    tail
        Degrees of freedom of the Student distribution; with few, outliers count for little.
    least_scale
        A typical residual is at least this large, so that no row is an outlier for being off by
        less.
    """
    scale = max(_MAD * _median(np.abs(residuals), multiplicity), least_scale)
    square = np.minimum(np.abs(residuals) / scale, 1e100) ** 2
    return np.minimum(1.0, (tail + 1) / (tail + square))


def _median(values: Array, multiplicity: Array) -> float:
    """Return the median of values that stand for several each."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(multiplicity[order])
    half = below[-1] / 2
    at = int(np.searchsorted(below, half))
    after = min(at + 1, len(order) - 1) if below[at] == half else at
    return float(values[order[at]] + values[order[after]]) / 2


def log_band(log_y: Array) -> tuple[float, float]:
    """Return the smallest and largest log prediction that is made: two ranges and a factor e out.

    >>> log_band(np.array([0.0, 1.0]))
    (-3.0, 4.0)
    """
    low, high = float(log_y.min()), float(log_y.max())
    margin = 2 * (high - low) + 1
    return max(low - margin, -MOST_LOG), min(high + margin, MOST_LOG)


def read_log_band(state: State) -> tuple[float, float]:
    """Return the bounds of log predictions from a saved state, or raise ValueError."""
    low, high = read_number(state, "low"), read_number(state, "high")
    if not -MOST_LOG <= low <= high <= MOST_LOG:
        raise ValueError("the bounds of predictions are out of order")
    return low, high
