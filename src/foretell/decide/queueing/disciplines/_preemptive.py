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
    def _completion_moments(self, own: Stream, rate_above: float, away: Two) -> Two:
        """Return the moments of C; higher jobs come with a rate, and keep it ``away`` each time."""

    @abc.abstractmethod
    def _completion(self, own: Stream, s: Complex, rate_above: float, away: Complex) -> Complex:
        """Return the transform of C; ``away`` is that of an interruption at s."""

    def attempts_s(self, k: int) -> float:
        """Return how long a job of class k runs, with what is thrown away."""
        return self.streams[k].service.mean

    def gross_s(self, k: int) -> float:
        """Return how long the engine works for a job, and to make way when it is interrupted."""
        return self.attempts_s(k) * (1 + total_rate(self.above(k)) * self.streams[k].evict_s)

    @cached_property
    def _moments(self) -> tuple[list[Two], list[Two]]:
        """The moments of C of each class, and of the busy periods of the classes above each."""
        n = len(self.streams)
        completions, busy = [(0.0, 0.0)] * n, [(0.0, 0.0)] * n
        for k in reversed(range(n)):
            own, above = self.streams[k], total_rate(self.above(k))
            c1, c2 = completions[k] = (
                self._completion_moments(own, above, _away(own, above, busy[k]))
                if above
                else own.service.moments[:2]
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
        d1, d2 = self._way_moments(k)
        first = 1 + own.rate_per_s * d1 + above * (b1 + d1)
        second = 2 * d1 + own.rate_per_s * d2 + above * (b2 + 2 * b1 * d1 + d2)
        return own.rate_per_s * c2 / (2 * (1 - load)) + second / (2 * first)

    def _way_moments(self, k: int) -> Two:
        """Return the moments of the time that a lower job takes to make way, if one runs."""
        above, busy = total_rate(self.above(k)), self._moments[1][k]
        ways = [_way(s.evict_s, above, busy) for s in self.streams[:k]]
        shares = self._lower_shares(k)
        d1, d2 = (sum(p * way[i] for p, way in zip(shares, ways, strict=True)) for i in (0, 1))
        return d1, d2

    def _lower_shares(self, k: int) -> list[float]:
        """Return how likely each lower class is in the engine when class k and above are not there.

        A job that comes then has to wait until that one has made way.
        """
        own, above, busy = self.streams[k], total_rate(self.above(k)), self._moments[1][k]
        lower = self.streams[:k]
        if not any(s.evict_s for s in lower):
            return [0.0] * k
        loads = [s.rate_per_s * self.attempts_s(j) for j, s in enumerate(lower)]
        making_way = sum(
            load * _way(s.evict_s, above, busy)[0] for load, s in zip(loads, lower, strict=True)
        )
        free = 1 - own.rate_per_s * self._moments[0][k][0]
        absent = (free - (own.rate_per_s + above) * making_way) / (1 + above * busy[0])
        return [load / absent for load in loads]

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
        completion = (
            self._completion(own, s, above, _away_transform(own, y, busy))
            if above
            else own.service.transform(s)
        )
        way = 1 + sum(
            p * (np.exp(-stream.evict_s * y) - 1)
            for p, stream in zip(self._lower_shares(k), self.streams[:k], strict=True)
        )
        rate, d1 = own.rate_per_s, self._way_moments(k)[0]
        c1, b1 = self._moments[0][k][0], self._moments[1][k][0]
        idle = (1 - rate * c1) / (1 + rate * d1 + above * (b1 + d1))
        begun = s * way + rate * (1 - way) + above * (1 - busy * way)
        found: Complex = idle * begun / (s - rate + rate * completion) * completion
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
                away = _away_transform(own, place + rate * (1 - busy), busy)
                found.append(
                    self._completion(own, place, rate, away) if rate
                    else own.service.transform(place)
                )  # fmt: skip
                busy = (own.rate_per_s * beta + rate * busy) / (own.rate_per_s + rate)
                rate += own.rate_per_s
            return np.array(found[::-1])

        betas = fixed_point(step, np.zeros((len(above), *s.shape), dtype=complex))
        found: Complex = np.tensordot(rates, betas, axes=1) / rates.sum()
        return found


def _way(evict_s: float, rate_above: float, busy: Two) -> Two:
    """Return the moments of the time to make way, with the higher jobs that come meanwhile."""
    if not evict_s:  # which would not end busy periods without a mean
        return 0.0, 0.0
    first = evict_s * (1 + rate_above * busy[0])
    return first, first**2 + evict_s * rate_above * busy[1]


def _away(own: Stream, rate_above: float, busy: Two) -> Two:
    """Return the moments of an interruption: the engine makes way, and higher classes are busy."""
    (b1, b2), (d1, d2) = busy, _way(own.evict_s, rate_above, busy)
    return b1 + d1, b2 + d2 + (2 * b1 * d1 if d1 else 0.0)


def _away_transform(own: Stream, y: Complex, busy: Complex) -> Complex:
    """Return the transform of an interruption."""
    return busy * np.exp(-own.evict_s * y) if own.evict_s else busy


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
