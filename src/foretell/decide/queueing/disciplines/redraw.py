"""Preemptive repeat with a new job: one that is interrupted starts again with another time."""

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


class Redraw(Preemptive):
    """What happens if times are luck: each attempt is a new draw, and short ones get through."""

    def attempts_s(self, k: int) -> float:
        """Return how long a job runs, with all attempts."""
        own, rate = self.streams[k], total_rate(self.above(k))
        if not rate:
            return own.service.mean
        failed = _failed(own.service, rate)
        return failed / (1 - failed) / rate if failed < 1 else math.inf

    def useful_s(self, k: int) -> float:
        """Return how long the attempt takes that gets through."""
        own, rate = self.streams[k], total_rate(self.above(k))
        if not rate:
            return own.service.mean
        done, tilted, _ = own.service.tilted(rate)
        return tilted / done

    def sprint_s(self, k: int) -> float:
        """Return how long the engine sprints for a job, in all attempts."""
        service, rate = self.streams[k].service, total_rate(self.above(k))
        if not isinstance(service, Sprinted) or rate * service.mean < NEVER:
            return super().sprint_s(k)
        z = np.array([rate / service.speedup], dtype=complex)
        ended = service.left.share - float(service.left.transform(z)[0].real)
        return math.exp(-rate * service.after_s) * ended / rate / service.tilted(rate)[0]

    def _completion_moments(self, own: Stream, rate_above: float, away: Two) -> Two:
        b1, b2 = away
        done, tilted, tilted_square = own.service.tilted(rate_above)
        if done <= 0:
            return math.inf, math.inf
        # All of these are times the probability that an attempt fails, or gets through.
        failed = _failed(own.service, rate_above)
        lost, lost_square = _lost(own.service, rate_above)
        turn = lost + failed * b1
        turn_square = lost_square + 2 * lost * b1 + failed * b2
        first = (turn + tilted) / done
        second = (
            turn_square / done + 2 * (turn / done) ** 2
            + 2 * turn * tilted / done**2 + tilted_square / done
        )  # fmt: skip
        return first, second

    def _completion(self, own: Stream, s: Complex, rate_above: float, away: Complex) -> Complex:
        done = own.service.transform(s + rate_above)
        found: Complex = done / (1 - rate_above * away / (s + rate_above) * (1 - done))
        return found


def _failed(service: ServiceTime, rate: float) -> float:
    """Return the probability that an attempt is interrupted."""
    if service.is_small(rate):
        return -service.small_mean(-rate, of_exp)
    return 1 - service.tilted(rate)[0]


def _lost(service: ServiceTime, rate: float) -> Two:
    """Return the means of what an attempt loses and of its square; nothing if it gets through."""
    if service.is_small(rate):
        first = service.small_mean(-rate, lambda n: of_exp(n, 1) - of_exp(n))
        second = service.small_mean(
            -rate, lambda n: 2 * of_exp(n, 1) - 2 * of_exp(n) - of_exp(n, 2)
        )
        return first / rate, second / rate**2
    done, tilted, tilted_square = service.tilted(rate)
    failed = 1 - done
    second = 2 * failed / rate**2 - 2 * tilted / rate - tilted_square
    return failed / rate - tilted, second
