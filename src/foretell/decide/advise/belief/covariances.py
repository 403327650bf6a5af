"""How alike the logs of results are: a common level, slopes along coordinates, and what is near."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: How far off the level of results may be, in logs: it is not known before the first run.
ANY_LEVEL = 5.0
#: Slopes have their origin here, in the middle of what was measured.
_MIDDLE = 0.5
#: Of the remainder of a law: its slopes and what a configuration has of its own, next to its size.
_SLOPE_LEFT, _OWN_LEFT = 1.5, 0.5
#: Of a process alone: the usual change of the log along a coordinate from end to end, the usual
#: size of what a slope does not explain, over which distance that changes, and what a configuration
#: has of its own; each with the deviation of its log.
_SLOPE, _SIZE, _LENGTH, _OWN = (0.8, 1.0), (0.4, 0.8), (1.0, 0.7), (0.05, 0.7)
#: So many coordinates have slopes of that size; those of more are smaller.
_MANY_SLOPES = 9
#: How likely a coordinate counts for what is near, and of how many at the most that is expected.
#: Along the others, nothing changes but slowly.
_COUNTS, _MOST_COUNTED, _SLOWLY = 0.5, 5, 0.1
#: Coordinates that agree to so many digits are the same.
_DIGITS = 9


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of a Gaussian process, in squared logs.

    Attributes
    ----------
    level
        The deviation of what all results have in common.
    slopes
        By coordinate, the deviation of the slope along it.
    size
        The deviation of what changes with distance, a Matern process of smoothness 3/2.
    rates
        By coordinate, how fast that changes along it: one over a length.
    own
        The deviation of what a configuration has of its own, which no neighbor tells.
    """

    level: float
    slopes: Array
    size: float
    rates: Array
    own: float

    @classmethod
    def of_nearness(cls, length: float, n_coordinates: int) -> Covariance:
        """Return that of results which are alike where they are near, with a deviation of 1."""
        return cls(0.0, np.zeros(n_coordinates), 1.0, np.full(n_coordinates, 1 / length), 0.0)

    @classmethod
    def of_remainder(cls, size: float, length: float, n_coordinates: int) -> Covariance:
        """Return that of what a law leaves unexplained."""
        slopes = np.full(n_coordinates, _SLOPE_LEFT * size / _shrink(n_coordinates))
        return cls(ANY_LEVEL, slopes, size, np.full(n_coordinates, 1 / length), _OWN_LEFT * size)

    @classmethod
    def draw(cls, n: int, n_coordinates: int, seed: int) -> Iterator[Covariance]:
        """Draw processes without regard to any run."""
        counts = min(_COUNTS, _MOST_COUNTED / max(n_coordinates, 1))
        for i in range(n):
            random = np.random.default_rng([seed, 7, i])
            lengths = _some(random, _LENGTH, n_coordinates)
            is_counted = random.random(n_coordinates) < counts
            yield cls(
                ANY_LEVEL,
                _some(random, _SLOPE, n_coordinates) / _shrink(n_coordinates),
                float(_some(random, _SIZE, 1)[0]),
                np.where(is_counted, 1 / lengths, _SLOWLY),
                float(_some(random, _OWN, 1)[0]),
            )

    def between(self, x: Array, others: Array, is_same: NDArray[np.bool_]) -> Array:
        """Return the covariance of each place (row) with each other place (column)."""
        found: Array = ((x - _MIDDLE) * self.slopes**2) @ (others - _MIDDLE).T
        found += self.level**2
        near, far = x * self.rates, others * self.rates
        squares = (near**2).sum(axis=1)[:, None] + (far**2).sum(axis=1) - 2 * near @ far.T
        distance = np.sqrt(3 * np.maximum(squares, 0.0))
        found += self.size**2 * (1 + distance) * np.exp(-distance)
        found += self.own**2 * is_same
        return found

    def at(self, x: Array) -> Array:
        """Return the variance at each place."""
        found: Array = ((x - _MIDDLE) ** 2) @ self.slopes**2
        return found + self.level**2 + self.size**2 + self.own**2


def same_places(x: Array, others: Array) -> NDArray[np.bool_]:
    """Say which places (rows) are the same as which others (columns)."""
    both = np.round(np.vstack([x, others]), _DIGITS)
    _, position = np.unique(both, axis=0, return_inverse=True)
    position = position.ravel()
    found: NDArray[np.bool_] = position[: len(x), None] == position[len(x) :]
    return found


def _shrink(n_coordinates: int) -> float:
    """Return by what slopes are divided, so that together they are no larger with many."""
    return float(np.sqrt(max(n_coordinates / _MANY_SLOPES, 1.0)))


def _some(random: np.random.Generator, usual: tuple[float, float], n: int) -> Array:
    """Draw positive numbers around a usual one."""
    middle, spread = usual
    return middle * np.exp(random.normal(0.0, spread, n))
