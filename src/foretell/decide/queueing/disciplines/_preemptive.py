"""What preemptive disciplines share: a job is completed with interruptions by higher classes.

The completion time C of a job is the time from its first start to its end. With it, a class is a
queue of its own, in which the first job of a busy period may have to wait for higher classes.
"""

from __future__ import annotations

import abc
import math
from functools import cached_property

import numpy as np

from foretell.decide.queueing.disciplines._base import Discipline
from foretell.decide.queueing.fixed_point import fixed_point
from foretell.decide.queueing.service._base import Complex
from foretell.decide.queueing.streams import Stream, total_rate

#: Means of a time and of its square.
Two = tuple[float, float]

#: Up to this many interruptions per job, sprints are those of jobs that nothing interrupts.
NEVER = 1e-7


class Preemptive(Discipline):
    """A job of a higher class starts at once; members say what becomes of the one that ran."""

    @abc.abstractmethod
    def _completion_moments(self, own: Stream, rate_above: float, busy: Two) -> Two:
        """Return the moments of C; higher jobs come with a rate, and each starts a busy period."""

    @abc.abstractmethod
    def _completion(self, own: Stream, s: Complex, rate_above: float, busy: Complex) -> Complex:
        """Return the transform of C; ``busy`` is that of a busy period of higher classes at s."""

    @cached_property
    def _moments(self) -> tuple[list[Two], list[Two]]:
        """The moments of C of each class, and of the busy periods of the classes above each."""
        n = len(self.streams)
        completions, busy = [(0.0, 0.0)] * n, [(0.0, 0.0)] * n
        for k in reversed(range(n)):
            own, above = self.streams[k], total_rate(self.above(k))
            c1, c2 = completions[k] = (
                self._completion_moments(own, above, busy[k]) if above else own.service.moments[:2]
            )
            if k:
                busy[k - 1] = _extended(own.rate_per_s, (c1, c2), above, busy[k])
        return completions, busy

    def mean_wait(self, k: int) -> float:
        """Return the mean time until a job of class k first runs."""
        own, above = self.streams[k], total_rate(self.above(k))
        c1, c2 = self._moments[0][k]
        b1, b2 = self._moments[1][k]
        load = own.rate_per_s * c1
        if load >= 1 or math.isinf(b1):
            return math.inf
        return own.rate_per_s * c2 / (2 * (1 - load)) + above * b2 / (2 * (1 + above * b1))

    def mean_response(self, k: int) -> float:
        """Return the mean wait and the mean completion time."""
        return self.mean_wait(k) + self._moments[0][k][0]

    def typical_s(self, k: int) -> float:
        """Return the mean response, or a multiple of the completion time where that is infinite."""
        mean = self.mean_response(k)
        return mean if math.isfinite(mean) else 4 * self._moments[0][k][0]

    def response_transform(self, k: int, s: Complex) -> Complex:
        """Return the transform of the response time."""
        own, above = self.streams[k], total_rate(self.above(k))
        busy = self._busy(k, s)
        y = s + above * (1 - busy)
        completion = self._completion(own, s, above, busy) if above else own.service.transform(s)
        c1, b1 = self._moments[0][k][0], self._moments[1][k][0]
        idle = (1 - own.rate_per_s * c1) / (1 + above * b1)
        entered = s - own.rate_per_s + own.rate_per_s * completion
        found: Complex = idle * y / entered * completion
        return found

    def _busy(self, k: int, s: Complex) -> Complex:
        """Return the transform at s of the busy period of the classes above k.

        Let β be the busy period of class j alone that one of its jobs starts, at the place that
        classes below shift s to. One sweep from the lowest class up gives all places, and one down
        gives all β again; the fixed point of both is sought for all classes at once.
        """
        above = self.above(k)
        if not above:
            return np.zeros_like(s)
        rates = np.array([own.rate_per_s for own in above])

        def step(betas: Complex) -> Complex:
            places = s + np.cumsum(rates.reshape(-1, *[1] * s.ndim) * (1 - betas), axis=0)
            found, busy, rate = [], np.zeros_like(s), 0.0
            for own, place, beta in zip(above[::-1], places[::-1], betas[::-1], strict=True):
                found.append(
                    self._completion(own, place, rate, busy) if rate
                    else own.service.transform(place)
                )  # fmt: skip
                busy = (own.rate_per_s * beta + rate * busy) / (own.rate_per_s + rate)
                rate += own.rate_per_s
            return np.array(found[::-1])

        betas = fixed_point(step, np.zeros((len(above), *s.shape), dtype=complex))
        found: Complex = np.tensordot(rates, betas, axes=1) / rates.sum()
        return found


def of_exp(n: int, shift: int = 0) -> float:
    """Return the n-th coefficient of the series of x^shift·exp(x)."""
    return 1 / math.factorial(n - shift) if n >= shift else 0.0


def _extended(rate: float, completion: Two, above: float, busy: Two) -> Two:
    """Return the moments of busy periods when one more class below joins."""
    (c1, c2), (b1, b2) = completion, busy
    free = 1 - rate * c1
    if free <= 0 or math.isinf(c1):
        return math.inf, math.inf
    own = (c1 / free, c2 / free**3)
    higher = (b1 / free, b2 / free**2 + b1 * rate * c2 / free**3)
    total = rate + above
    first, second = ((rate * o + above * h) / total for o, h in zip(own, higher, strict=True))
    return first, second
