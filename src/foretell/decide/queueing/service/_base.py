"""The interface of a service time: its moments, its transform, its tail, and draws from it."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Complex = NDArray[np.complexfloating[Any, Any]]
Reals = NDArray[np.float64]
Moments = tuple[float, float, float]

_N_CIRCLE = 16
_RADIUS = 0.02  # over the mean: small against singularities, large against rounding
_SMALL = 0.05  # of that radius


class Remainder(abc.ABC):
    """What is left of jobs that are not done by some time; those that are count as nothing."""

    @property
    @abc.abstractmethod
    def share(self) -> float:
        """The probability that something is left."""

    @property
    @abc.abstractmethod
    def moments(self) -> Moments:
        """The means of the rest, of its square and of its cube, over all jobs."""

    @abc.abstractmethod
    def transform(self, z: Complex) -> Complex:
        """Return the mean of exp(−z·rest) over the jobs that are not done, times their share."""


class ServiceTime(abc.ABC):
    """How long one job takes when nothing interrupts it, in seconds."""

    @property
    @abc.abstractmethod
    def moments(self) -> Moments:
        """The means of S, S² and S³."""

    @property
    @abc.abstractmethod
    def decay_rate(self) -> float:
        """The mean of exp(s·S) is finite for s below it; infinite where S has a largest value."""

    @abc.abstractmethod
    def transform(self, z: Complex) -> Complex:
        """Return the mean of exp(−z·S) for each z."""

    @abc.abstractmethod
    def draw(self, random: np.random.Generator, n: int) -> Reals:
        """Draw the times of n jobs."""

    @abc.abstractmethod
    def quadrature(self) -> tuple[Reals, Reals]:
        """Return times and weights: the mean of f(S) is about the weighted sum of f(times)."""

    @abc.abstractmethod
    def after(self, time_s: float) -> Remainder:
        """Return what is left of a job after some time."""

    @property
    def least(self) -> float:
        """A time that no job goes below."""
        return 0.0

    @property
    def mean(self) -> float:
        """The mean of S."""
        return self.moments[0]

    @property
    def scv(self) -> float:
        """The squared coefficient of variation of S."""
        first, second, _ = self.moments
        return max(0.0, second / first**2 - 1)

    def tilted(self, s: float) -> Moments:
        """Return the means of exp(−s·S), S·exp(−s·S) and S²·exp(−s·S), for s > −decay_rate.

        They are derivatives of the transform, by Cauchy's formula on a small circle.
        """
        radius, terms = self._series(s)
        zeroth, first, second = (terms[n] / radius**n for n in range(3))
        return zeroth, -first, 2 * second

    def is_small(self, s: float) -> bool:
        """Whether exp(s·S) is so near 1 that differences lose digits, and `small_mean` is right."""
        return abs(s) < _SMALL * self._radius(0.0)

    def small_mean(self, s: float, term: Callable[[int], float]) -> float:
        """Return the mean of Σ term(n)·(s·S)ⁿ from n = 1 on, for small s and terms such as 1/n!."""
        radius, terms = self._series(0.0)
        known = (term(n) * s**n * self.moments[n - 1] for n in (1, 2, 3))
        further = (
            term(n) * math.factorial(n) * (-s / radius) ** n * terms[n]
            for n in range(4, _N_CIRCLE // 2)
        )
        return sum(known) + sum(further)

    def _radius(self, s: float) -> float:
        return min(_RADIUS / self.mean, 0.25 * (self.decay_rate + s))

    def _series(self, s: float) -> tuple[float, list[float]]:
        """Return the terms of the series of the transform around s, at the radius of a circle."""
        radius = self._radius(s)
        turns = np.exp(2j * math.pi * np.arange(_N_CIRCLE) / _N_CIRCLE)
        values = self.transform(s + radius * turns)
        return radius, [float(np.mean(values * turns**-n).real) for n in range(_N_CIRCLE)]
