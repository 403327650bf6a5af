"""The density of a time from its transform: a cosine series between bounds on its tails."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import fft

from foretell.decide.queueing.service._base import Complex, Reals

_LEAST_CELLS, _MOST_CELLS, _PER_MEAN = 1024, 16_384, 128
_N_NODES = 150
_TAIL = math.log(1e-12)


def density_grid(
    transform: Callable[[Complex], Complex], mean: float, low: float, high: float
) -> tuple[Reals, Reals]:
    """Return a few hundred times between two bounds, and the probability of each.

    The density is a series of cosines, whose coefficients are values of the
    transform on the imaginary axis (the COS method of Fang and Oosterlee). Its cells are then
    joined, each group at its mean, until they have some probability or some width.
    """
    needed = max(_LEAST_CELLS, _PER_MEAN * (high - low) / mean)
    n_cells = min(_MOST_CELLS, 1 << math.ceil(math.log2(needed)))
    frequencies = np.pi * np.arange(n_cells) / (high - low)
    values = transform(-1j * frequencies) * np.exp(-1j * frequencies * low)
    weights = np.maximum(fft.dct(values.real, type=3), 0.0)
    weights /= weights.sum()
    middles = low + (np.arange(n_cells) + 0.5) * (high - low) / n_cells
    group = np.floor(_N_NODES * np.cumsum(weights)) + np.floor(
        _N_NODES * np.arange(n_cells) / n_cells
    )
    starts = np.flatnonzero(np.diff(group, prepend=-1.0))
    joined = np.add.reduceat(weights, starts)
    sums = np.add.reduceat(weights * middles, starts)
    is_there = joined > 0
    return sums[is_there] / joined[is_there], joined[is_there]


def usual_bounds(
    transform: Callable[[Complex], Complex], mean: float, decay_rate: float
) -> tuple[float, float]:
    """Return times that are left and exceeded with almost no probability, by Chernoff's bound."""
    steps = np.geomspace(1e-2, 1e4, 100) / mean
    tilts = decay_rate * (1 - np.geomspace(1e-3, 0.999, 50))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        below = -(np.log(transform(steps + 0j).real) - _TAIL) / steps
        above = (np.log(transform(-tilts + 0j).real) - _TAIL) / tilts
    low = float(below[np.isfinite(below)].max())
    return max(0.0, low), float(above[np.isfinite(above)].min())
