"""Paths of phases: exponential lengths one after another; their transforms and moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretell.decide.queueing.service._base import Complex, Moments, Reals


@dataclass(frozen=True, eq=False)
class Path:
    """Phases one after another: how probable this path is, and runs of phases of equal rates."""

    share: float
    rates: Reals
    counts: Reals

    @classmethod
    def of(cls, *runs: tuple[float, int], share: float = 1.0) -> Path:
        """Make a path of runs: a rate, and how many phases have it."""
        kept = [(rate, n) for rate, n in runs if n > 0]
        rates, counts = zip(*kept, strict=True) if kept else ((), ())
        return cls(share, np.array(rates, dtype=float), np.array(counts, dtype=float))

    def transform(self, z: Complex) -> Complex:
        """Return the product of the transforms of phases; by logarithms where many are equal."""
        is_single = self.counts == 1
        product = np.prod(1 / (1 + z[..., None] / self.rates[is_single]), axis=-1)
        for rate, count in zip(self.rates[~is_single], self.counts[~is_single], strict=True):
            product = product * np.exp(-count * np.log1p(z / rate))
        return np.asarray(product, dtype=complex)

    @property
    def each_rate(self) -> Reals:
        """The rate of every phase."""
        return np.repeat(self.rates, self.counts.astype(int))

    @property
    def n_phases(self) -> int:
        """How many phases it has."""
        return int(self.counts.sum())

    @property
    def moments(self) -> Moments:
        """The raw moments of the time along it."""
        first, second, third = (float(self.counts @ self.rates**-n) for n in (1.0, 2.0, 3.0))
        return raw((first, second, 2 * third))


#: Paths of which one is taken.
Part = tuple[Path, ...]


def part_transform(part: Part, z: Complex) -> Complex:
    """Return the transform of the time that one part takes."""
    total = np.zeros_like(z)
    for path in part:
        total = total + path.share * path.transform(z)
    return total


def part_moments(part: Part) -> Moments:
    """Return the raw moments of the time that one part takes."""
    first, second, third = np.sum([np.multiply(p.share, p.moments) for p in part], axis=0)
    return float(first), float(second), float(third)


def cumulants(moments: Sequence[float]) -> Moments:
    """Turn raw moments into cumulants."""
    first, second, third = moments
    return first, second - first**2, third - 3 * second * first + 2 * first**3


def raw(cumulants: Sequence[float]) -> Moments:
    """Turn cumulants into raw moments."""
    first, second, third = (float(c) for c in cumulants)
    return first, second + first**2, third + 3 * second * first + first**3
