"""Formulas of batch service: the capacity of a server, and its mean latency when it takes all."""

from __future__ import annotations

import math


def capacity_per_s(cap: int, mean_s: float) -> float:
    """Return the rate below which the queue of one server has an end: B / T(B).

    Under too high a load, all batches are of the size of the cap, and their time alone counts.

    >>> capacity_per_s(8, 0.016)
    500.0
    """
    return cap / mean_s


def take_all_mean_s(fixed_s: float, each_s: float, rate_per_s: float) -> float:
    """Return about the mean latency of a server that takes all that wait, without a cap.

    Batches take τ₀ + α·b. This is the smaller of the two bounds of Inoue (2021, *Queueing analysis
    of GPU-based inference servers with dynamic batching*), which is at most some percent off.

    >>> round(take_all_mean_s(0.002, 0.0008, 800), 5)
    0.01012
    >>> take_all_mean_s(0.002, 0.0008, 1250)
    inf
    """
    load = rate_per_s * each_s
    if load >= 1:
        return math.inf
    light = (each_s + fixed_s) / (2 * (1 - load))
    light *= 1 + 2 * rate_per_s * fixed_s + (1 - rate_per_s * fixed_s) / (1 + load)
    heavy = 1.5 * fixed_s / (1 - load) + each_s / 2 * (load + 2) / (1 - load**2)
    return min(light, heavy)


def parts_of(n_samples: int, batch: int) -> list[int]:
    """Return the sizes of the batches that samples are served in.

    >>> parts_of(8, 3)
    [3, 3, 2]
    """
    full, rest = divmod(n_samples, batch)
    return [batch] * full + ([rest] if rest else [])
