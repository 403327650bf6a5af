"""Phase types: phases of exponential length, one after another, with several ways to go.

A time is a sum of independent parts; a part takes one of several paths at random; a path is a
sequence of phases. Jobs of tasks are of this shape, and so is what is fitted to a mean and a
variation. The generator is never built and never inverted: transforms are products, cumulants add.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foretell.decide.queueing.service._base import Complex, Moments, Reals, ServiceTime
from foretell.decide.queueing.service.density import density_grid, usual_bounds
from foretell.decide.queueing.service.paths import (
    Part,
    cumulants,
    part_moments,
    part_transform,
    raw,
)  # fmt: skip
from foretell.decide.queueing.service.phases_left import PhasesLeft, left_after


@dataclass(frozen=True, eq=False)
class PhaseTime(ServiceTime):
    """A sum of independent parts, each of which takes one of its paths.

    >>> from foretell.decide.queueing.service.paths import Path
    >>> two_phases = PhaseTime(((Path.of((2.0, 2)),),))
    >>> two_phases.mean, round(two_phases.scv, 3)
    (1.0, 0.5)
    """

    parts: tuple[Part, ...]

    @property
    def n_phases(self) -> int:
        """How many phases there are."""
        return sum(path.n_phases for part in self.parts for path in part)

    @cached_property
    def moments(self) -> Moments:
        """The means of S, S² and S³, by the cumulants of parts, which add."""
        return raw(np.sum([cumulants(part_moments(part)) for part in self.parts], axis=0))

    @cached_property
    def decay_rate(self) -> float:
        """The rate of the slowest phase."""
        return float(min(path.rates.min() for part in self.parts for path in part if path.share))

    def transform(self, z: Complex) -> Complex:
        """Return the product of the transforms of parts."""
        z = np.asarray(z, dtype=complex)
        result = np.ones_like(z)
        for part in self.parts:
            result = result * part_transform(part, z)
        return result

    def draw(self, random: np.random.Generator, n: int) -> Reals:
        """Draw a path in each part, and the length of its phases."""
        total = np.zeros(n)
        for part in self.parts:
            shares = np.array([path.share for path in part])
            taken = random.choice(len(part), size=n, p=shares / shares.sum())
            for i, path in enumerate(part):
                is_here = taken == i
                for rate, count in zip(path.rates, path.counts, strict=True):
                    total[is_here] += random.gamma(count, 1 / rate, int(is_here.sum()))
        return total

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        return usual_bounds(self.transform, self.mean, self.decay_rate)

    @cached_property
    def _grid(self) -> tuple[Reals, Reals]:
        return density_grid(self.transform, self.mean, *self._bounds)

    def quadrature(self) -> tuple[Reals, Reals]:
        """Return the middles of small intervals and their probabilities."""
        return self._grid

    def after(self, time_s: float) -> PhasesLeft:
        """Return what is left, by the probabilities of being in each phase at that time."""
        return left_after(self.parts, time_s if time_s < 2 * self._bounds[1] else math.inf)
