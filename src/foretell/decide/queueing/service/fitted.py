"""Times with a given mean and variation: a constant, phases in a row, or two exponentials."""

from __future__ import annotations

import math

from foretell.decide.queueing.service._base import ServiceTime
from foretell.decide.queueing.service.paths import Part, Path
from foretell.decide.queueing.service.phases import PhaseTime
from foretell.decide.queueing.service.sample import constant

#: How many phases in a row a time has at most: it then varies by 3 %.
MOST_PHASES = 1000


def fitted_time(mean: float, scv: float) -> ServiceTime:
    """Return a time with this mean and this squared coefficient of variation.

    >>> time = fitted_time(10.0, 0.3)
    >>> round(time.mean, 9), round(time.scv, 9)
    (10.0, 0.3)
    """
    return constant(mean) if scv == 0 else PhaseTime((fitted_part(mean, scv),))


def fitted_part(mean: float, scv: float, share: float = 1.0) -> Part:
    """Return the same as a part of a job; it varies by 3 % at least."""
    if scv > 1 + 1e-12:
        return _two_exponentials(mean, scv, share)
    return (in_a_row(mean, scv, share),)


def in_a_row(mean: float, scv: float, share: float = 1.0) -> Path:
    """Return k − 1 phases of one rate and one of another, with exactly this mean and variation.

    Erlang's distribution has only variations 1/k; the phase of another length fills the gaps.
    """
    scv = min(1.0, max(scv, 1 / MOST_PHASES))
    k = math.ceil(1 / scv - 1e-9)
    if k == 1:
        return Path.of((1 / mean, 1), share=share)
    spread = math.sqrt(max(0.0, (k * scv - 1) / (k - 1)))
    long = mean / k * (1 + spread)
    rest = mean - (k - 1) * long
    if rest <= 1e-9 * mean:
        return Path.of(((k - 1) / mean, k - 1), share=share)
    return Path.of((1 / long, k - 1), (1 / rest, 1), share=share)


def _two_exponentials(mean: float, scv: float, share: float) -> Part:
    """Return a fast and a slow exponential that contribute the same to the mean."""
    p = (1 + math.sqrt((scv - 1) / (scv + 1))) / 2
    return tuple(Path.of((2 * q / mean, 1), share=share * q) for q in (p, 1 - p))
