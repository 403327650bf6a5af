"""Response times of many plans at once, from the first three moments of each service time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from foretell.decide.queueing.disciplines.non_preemptive import NonPreemptive
from foretell.decide.queueing.inversion import Distribution, roots_between
from foretell.decide.queueing.service._base import Reals
from foretell.decide.queueing.service.shifted_gamma import ShiftedGamma
from foretell.decide.queueing.streams import Stream

_LEVEL = 0.95
_TOLERANCE = 1e-5
_MOST_AT_ONCE = 2_000


def responses_of_many(rates_per_s: Reals, moments: Reals) -> tuple[Reals, Reals]:
    """Return the mean and the p95 of the response times, without evictions.

    Parameters
    ----------
    rates_per_s
        The rate of each class, the lowest priority first.
    moments
        The means of S, S² and S³ by plan and class: plans × classes × 3. Loads must be below 1.
    """
    parts = np.array_split(moments, max(1, math.ceil(len(moments) / _MOST_AT_ONCE)))
    found = [_some(rates_per_s, part) for part in parts]
    means, p95s = (np.concatenate(of_parts) for of_parts in zip(*found, strict=True))
    return means, p95s


def _some(rates_per_s: Reals, moments: Reals) -> tuple[Reals, Reals]:
    # The formulas of the discipline hold for arrays too, one row per plan.
    streams = [
        Stream(str(k), rate, ShiftedGamma.of(moments[:, k]))  # type: ignore[arg-type]
        for k, rate in enumerate(rates_per_s)
    ]
    queue = NonPreemptive(streams)
    means, p95s = [], []
    for k in range(len(streams)):
        mean = np.asarray(queue.mean_response(k))[:, 0]
        means.append(mean)
        p95s.append(_quantiles(queue, k, mean))
    return np.stack(means, axis=1), np.stack(p95s, axis=1)


def _quantiles(queue: NonPreemptive, k: int, means: Reals) -> Reals:
    """Find the p95 of each plan, by false position in logarithms of the tail."""
    wanted = math.log(1 - _LEVEL)
    times = Distribution(lambda s: queue.response_transform(k, s), 1.0)

    def beyond(t: Reals) -> Reals:
        return np.log(np.clip(times.tail(t), 1e-12, 1.0)) - wanted

    low, high = 1e-9 * means, 3.0 * means  # inversion is for times beyond 0, where all are left
    f_high = beyond(high)
    for _ in range(20):
        if (f_high < 0).all():
            break
        high = np.where(f_high < 0, high, 1.5 * high)
        f_high = beyond(high)
    return roots_between(beyond, (low, np.full_like(low, -wanted)), (high, f_high), _TOLERANCE)


def moments_of(services: Sequence[Sequence[tuple[float, float, float]]]) -> Reals:
    """Return moments by plan and class as an array."""
    return np.array(services, dtype=float)
