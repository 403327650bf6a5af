"""Preemptive repeat: a job that is interrupted starts again from the beginning, the same job."""

from __future__ import annotations

import math

import numpy as np

from foretell.decide.queueing.disciplines._preemptive import (
    NEVER,
    Preemptive,
    Two,
    of_exp,
)
from foretell.decide.queueing.service._base import Complex, ServiceTime
from foretell.decide.queueing.service.sprinted import Sprinted
from foretell.decide.queueing.streams import Stream, total_rate


class Repeat(Preemptive):
    """What an engine does that evicts: long jobs are interrupted most, and lose most."""

    def attempts_s(self, k: int) -> float:
        """Return how long a job runs; infinite where repeating diverges."""
        own, rate = self.streams[k], total_rate(self.above(k))
        if not rate:
            return own.service.mean
        if rate >= own.service.decay_rate:
            return math.inf
        if own.service.is_small(rate):
            return own.service.small_mean(rate, of_exp) / rate
        with np.errstate(over="ignore", invalid="ignore"):  # then it is infinite
            repeated = own.service.tilted(-rate)[0]
        return (repeated - 1) / rate if math.isfinite(repeated) else math.inf

    def sprint_s(self, k: int) -> float:
        """Return how long the engine sprints for a job: each attempt anew, if it gets so far."""
        service, rate = self.streams[k].service, total_rate(self.above(k))
        if not isinstance(service, Sprinted) or rate * service.mean < NEVER:
            return super().sprint_s(k)
        z = np.array([-rate / service.speedup], dtype=complex)
        return (float(service.left.transform(z)[0].real) - service.left.share) / rate

    def _completion_moments(self, own: Stream, rate_above: float, away: Two) -> Two:
        if rate_above >= own.service.decay_rate:
            return math.inf, math.inf
        b1, b2 = away
        if own.service.is_small(rate_above):
            return _rare_moments(own.service, rate_above, away)
        once, tilted, _ = own.service.tilted(-rate_above)
        gap = 1 / rate_above + b1
        first = (once - 1) * gap
        if 2 * rate_above >= own.service.decay_rate or math.isinf(b2):
            return first, math.inf
        twice = own.service.tilted(-2 * rate_above)[0]
        second = (
            (once - 1) * (2 * gap / rate_above + b2)
            + 2 * gap**2 * (twice - 2 * once + 1)
            - 2 * gap * tilted
        )
        return first, second

    def _completion(self, own: Stream, s: Complex, rate_above: float, away: Complex) -> Complex:
        """Return the mean over the time of the job, of what is known for each time."""
        times, weights = own.service.quadrature()
        again = rate_above * away / (s + rate_above)
        survived = np.exp(-(s[..., None] + rate_above) * times)
        found: Complex = (survived / (1 - again[..., None] * (1 - survived))) @ weights
        return found


def _rare_moments(service: ServiceTime, rate: float, away: Two) -> Two:
    """Return the moments of completions, without differences of numbers near 1."""
    b1, b2 = away
    gap = 1 / rate + b1
    lost = service.small_mean(rate, of_exp)
    lost_square = service.small_mean(rate, lambda n: (2**n - 2) * of_exp(n))
    ahead = service.small_mean(rate, lambda n: of_exp(n) - of_exp(n, 1)) / rate
    return lost * gap, 2 * gap * ahead + lost * b2 + 2 * gap**2 * lost_square
