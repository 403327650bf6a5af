"""Jobs that sprint: after some time, what is left of them runs faster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foretell.decide.queueing.service._base import Complex, Moments, Reals, Remainder, ServiceTime

_MOST_TILT = 0.6  # of the decay rate without a sprint


@dataclass(frozen=True, eq=False)
class Sprinted(ServiceTime):
    """A service time of which what is left after ``after_s`` runs ``speedup`` times faster.

    It is exact for any service time, and assumes that no sprint ends because a budget is used up.

    >>> from foretell.decide.queueing.service.sample import constant
    >>> Sprinted(constant(100.0), after_s=60.0, speedup=2.0).mean
    80.0
    """

    service: ServiceTime
    after_s: float
    speedup: float

    @cached_property
    def left(self) -> Remainder:
        """What is left when the sprint begins, in unsprinted seconds."""
        return self.service.after(self.after_s)

    @property
    def sprint_s(self) -> float:
        """How long a job sprints on average."""
        return self.left.moments[0] / self.speedup

    @cached_property
    def moments(self) -> Moments:
        """The means of S, S² and S³: those without a sprint, less what it saves."""
        t, v = self.after_s, self.speedup
        first, second, third = self.service.moments
        a, b, c = self.left.moments
        saved_a, saved_b, saved_c = a * (1 - 1 / v), b * (1 - v**-2), c * (1 - v**-3)
        return (
            first - saved_a,
            second - 2 * t * saved_a - saved_b,
            third - 3 * t**2 * saved_a - 3 * t * saved_b - saved_c,
        )

    @property
    def decay_rate(self) -> float:
        """That of the service time, faster."""
        return self.service.decay_rate * self.speedup

    @property
    def least(self) -> float:
        """The least time, sprinted."""
        return float(self._sped(np.array([self.service.least]))[0])

    def transform(self, z: Complex) -> Complex:
        """Return the transform without a sprint, with what is left exchanged."""
        z = np.asarray(z, dtype=complex)
        change = self.left.transform(z / self.speedup) - self.left.transform(z)
        found: Complex = self.service.transform(z) + np.exp(-z * self.after_s) * change
        return found

    def draw(self, random: np.random.Generator, n: int) -> Reals:
        """Draw times without a sprint, and speed them up."""
        return self._sped(self.service.draw(random, n))

    def quadrature(self) -> tuple[Reals, Reals]:
        """Return the times without a sprint, sped up."""
        times, weights = self.service.quadrature()
        return self._sped(times), weights

    def tilted(self, s: float) -> Moments:
        """Return means of exp(−s·S); by sums where the transform is a difference of large numbers.

        That is so near the decay rate without a sprint, where both of its terms have no end.
        """
        if s > -_MOST_TILT * self.service.decay_rate:
            return super().tilted(s)
        times, weights = self.quadrature()
        with np.errstate(over="ignore"):
            grown = weights * np.exp(-s * times)
        return float(grown.sum()), float(grown @ times), float(grown @ times**2)

    def after(self, time_s: float) -> Remainder:
        """Not known: a job sprints once."""
        raise NotImplementedError("a job that sprints does not sprint again")

    def _sped(self, times: Reals) -> Reals:
        slow = np.minimum(times, self.after_s)
        return slow + (times - slow) / self.speedup
