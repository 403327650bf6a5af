"""Times that are longer or shorter by a factor, to ask what happens if jobs take more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretell.decide.queueing.service._base import Complex, Moments, Reals, Remainder, ServiceTime


@dataclass(frozen=True, eq=False)
class Scaled(ServiceTime):
    """A service time multiplied by a factor.

    >>> from foretell.decide.queueing.service.sample import constant
    >>> Scaled(constant(10.0), 1.5).mean
    15.0
    """

    service: ServiceTime
    factor: float

    @property
    def moments(self) -> Moments:
        """Those of the service time, by powers of the factor."""
        first, second, third = self.service.moments
        return first * self.factor, second * self.factor**2, third * self.factor**3

    @property
    def decay_rate(self) -> float:
        """That of the service time, slower."""
        return self.service.decay_rate / self.factor

    @property
    def least(self) -> float:
        """The least time, multiplied."""
        return self.service.least * self.factor

    def transform(self, z: Complex) -> Complex:
        """Return the transform at other places."""
        return self.service.transform(np.asarray(z) * self.factor)

    def draw(self, random: np.random.Generator, n: int) -> Reals:
        """Draw times, and multiply them."""
        return self.service.draw(random, n) * self.factor

    def quadrature(self) -> tuple[Reals, Reals]:
        """Return the times, multiplied."""
        times, weights = self.service.quadrature()
        return times * self.factor, weights

    def after(self, time_s: float) -> Remainder:
        """Return what is left of the longer job."""
        return _ScaledLeft(self.service.after(time_s / self.factor), self.factor)


@dataclass(frozen=True, eq=False)
class _ScaledLeft(Remainder):
    left: Remainder
    factor: float

    @property
    def share(self) -> float:
        return self.left.share

    @property
    def moments(self) -> Moments:
        first, second, third = self.left.moments
        return first * self.factor, second * self.factor**2, third * self.factor**3

    def transform(self, z: Complex) -> Complex:
        return self.left.transform(np.asarray(z) * self.factor)
