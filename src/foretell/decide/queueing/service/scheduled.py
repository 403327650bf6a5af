"""The time of a stage whose tasks take the next free slot: its mean and variation, played.

There is no barrier between waves of tasks: a slot that is free takes the next task. No formula is
known for that, unless all tasks start at once. The sum of the longest tasks of each wave is a third
too long for 50 tasks on 20 slots that vary by 22 %. So a stage is played a few thousand times with
tasks of mean 1, always the same ones, and the result is kept.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import integrate, special

from foretell.decide.queueing.service._base import Reals

#: Waves after which the start no longer matters: each further task adds its mean and variance.
_MOST_WAVES = 16
_N_STARTS, _LEAST_PLAYS, _MOST_PLAYS = 40_000, 400, 8_000
#: Beyond so many slots, chance evens out within one play, and fewer are enough.
_MANY_SLOTS, _FEW_PLAYS = 1_000, 40
_SEED = 14
_N_TIMES = 4_001


def stage_moments(n_tasks: int, n_slots: int, scv: float) -> tuple[float, float]:
    """Return the mean and the squared coefficient of variation of a stage with tasks of mean 1.

    >>> stage_moments(50, 20, 0.0)
    (3.0, 0.0)
    """
    n_waves = -(-n_tasks // n_slots)
    if scv == 0:
        return float(n_waves), 0.0
    if n_tasks == 1:
        return 1.0, scv
    if n_tasks < n_slots:
        return _longest(n_tasks, scv)
    n_more = max(0, n_waves - _MOST_WAVES) * n_slots
    up_to = 1 << (min(n_waves, _MOST_WAVES) - 1).bit_length()
    means, variances = _played(n_slots, scv, up_to)
    mean = float(means[n_tasks - n_more - 1]) + n_more / n_slots
    variance = float(variances[n_tasks - n_more - 1]) + n_more * scv / n_slots**2
    return mean, variance / mean**2


@lru_cache(maxsize=1024)
def _longest(n_tasks: int, scv: float) -> tuple[float, float]:
    """Return the mean and the variation of the longest of some tasks, which all start at once."""
    shape = 1 / scv
    most = float(special.gammainccinv(shape, 1e-14 / n_tasks)) * scv

    def beyond(t: Reals) -> Reals:
        return np.asarray(-np.expm1(n_tasks * np.log1p(-special.gammaincc(shape, t * shape))))

    times = most * np.linspace(0.0, 1.0, _N_TIMES) ** 3  # most of them where the tail bends
    with np.errstate(divide="ignore"):  # at 0, where all take longer
        tails = beyond(times)
    mean = float(integrate.simpson(tails, x=times))
    square = float(integrate.simpson(2 * times * tails, x=times))
    return mean, square / mean**2 - 1


@lru_cache(maxsize=256)
def _played(n_slots: int, scv: float, n_waves: int) -> tuple[Reals, Reals]:
    """Return the mean and the variance of when all of the first 1, 2, 3, … tasks have ended.

    All numbers of tasks are played at once, so that a stage is never longer with fewer tasks.
    """
    least = _FEW_PLAYS if n_slots > _MANY_SLOTS else _LEAST_PLAYS
    n_plays = min(_MOST_PLAYS, max(least, _N_STARTS // n_slots))
    plays = np.arange(n_plays)
    random = np.random.default_rng(_SEED)
    free, end = np.zeros((n_plays, n_slots)), np.zeros(n_plays)
    means, variances = [], []
    for _ in range(n_slots * n_waves):
        first = free.argmin(axis=1)
        free[plays, first] += random.gamma(1 / scv, scv, n_plays)
        end = np.maximum(end, free[plays, first])
        means.append(end.mean())
        variances.append(end.var())
    return np.array(means), np.array(variances)
