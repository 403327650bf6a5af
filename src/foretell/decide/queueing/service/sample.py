"""Times that were measured or are known: a constant, a table of runs, quantiles of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foretell.decide.queueing.service._base import Complex, Moments, Reals, Remainder, ServiceTime


@dataclass(frozen=True, eq=False)
class SampleTime(ServiceTime):
    """One of several times at random.

    >>> SampleTime(np.array([1.0, 3.0]), np.array([0.5, 0.5])).moments
    (2.0, 5.0, 14.0)
    """

    times: Reals
    shares: Reals

    @cached_property
    def moments(self) -> Moments:
        """The means of S, S² and S³."""
        first, second, third = (float(self.shares @ self.times**n) for n in (1, 2, 3))
        return first, second, third

    @property
    def decay_rate(self) -> float:
        """Infinite: there is a largest time."""
        return math.inf

    @property
    def least(self) -> float:
        """The smallest of the times."""
        return float(self.times.min())

    def transform(self, z: Complex) -> Complex:
        """Return the mean of exp(−z·S)."""
        return _transform(self.times, self.shares, z)

    def draw(self, random: np.random.Generator, n: int) -> Reals:
        """Draw n of the times."""
        return random.choice(self.times, size=n, p=self.shares)

    def quadrature(self) -> tuple[Reals, Reals]:
        """Return the times and their shares."""
        return self.times, self.shares

    def after(self, time_s: float) -> Remainder:
        """Return what is left of the longer ones."""
        is_left = self.times > time_s
        return _SampleLeft(self.times[is_left] - time_s, self.shares[is_left])


@dataclass(frozen=True, eq=False)
class _SampleLeft(Remainder):
    times: Reals
    shares: Reals

    @property
    def share(self) -> float:
        return float(self.shares.sum())

    @property
    def moments(self) -> Moments:
        first, second, third = (float(self.shares @ self.times**n) for n in (1, 2, 3))
        return first, second, third

    def transform(self, z: Complex) -> Complex:
        return _transform(self.times, self.shares, z)


def _transform(times: Reals, shares: Reals, z: Complex) -> Complex:
    powers = np.asarray(z, dtype=complex)[..., None] * times
    return np.asarray(np.exp(-powers) @ shares, dtype=complex)


def constant(time_s: float) -> SampleTime:
    """Return a time that is always the same."""
    return SampleTime(np.array([float(time_s)]), np.ones(1))


def sample_of(times: Reals) -> SampleTime:
    """Return measured times, each as probable as the others."""
    values, counts = np.unique(np.asarray(times, dtype=float), return_counts=True)
    return SampleTime(values, counts / counts.sum())


def between_quantiles(probabilities: Reals, values: Reals, n: int = 200) -> SampleTime:
    """Return times with these quantiles, by straight lines between them."""
    middles = (np.arange(n) + 0.5) / n
    return sample_of(np.interp(middles, probabilities, values))
