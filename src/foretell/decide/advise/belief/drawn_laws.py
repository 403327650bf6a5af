"""Laws of performance drawn from a prior, each a function of the log of a time.

A law is a sum: work that some columns divide and others multiply, a constant, overhead that grows
with a column, and what is divided by one column alone. Levels and options have factors. There may
be a best value of a column between its ends, and a cliff at a column, or at a product or ratio of
several. Laws are drawn without regard to any run; the runs say later which of them count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: What a column may do: divide the work, nothing, multiply it, or have a best value.
_DIVIDES, _NEUTRAL, _MULTIPLIES, _BEST = range(4)
_ROLES = (0.5, 0.25, 0.13, 0.12)
#: The probabilities that a law has a constant, overhead along a column, a part that is divided by
#: one column alone, and a cliff; and that a cliff is at a ratio, or speeds up what is below it.
_CONSTANT, _OVERHEAD, _ALONE, _CLIFF, _RATIO, _UPWARD = 0.8, 0.5, 0.3, 0.7, 0.12, 0.2
#: The width of a cliff, in logs: a step, or a slope.
_WIDTHS = (0.02, 0.3, 0.8)


@dataclass(frozen=True, eq=False)
class Places:
    """Where configurations are.

    ``logs``: the logs of positive columns, from the middle of the measured range. ``shares``:
    other columns, from 0 to 1 within the measured range. ``levels``: the position of each level in
    its category; after the last for an unknown one.
    """

    logs: Array
    shares: Array
    levels: NDArray[np.int64]

    def first(self, n: int) -> Places:
        """Return the first of the configurations."""
        return Places(self.logs[:n], self.shares[:n], self.levels[:n])


@dataclass(frozen=True, eq=False)
class DrawnLaws:
    """The numbers of each law, one row per law; columns are those of places.

    ``effects`` has an array per category: the log of the factor of each level, and of any other.
    """

    slope: Array
    constant: Array
    overhead: Array
    alone: Array
    best: Array
    bend: Array
    options: Array
    cliff_along: Array
    cliff_at: Array
    cliff_log: Array
    cliff_width: Array
    effects: tuple[Array, ...]

    @classmethod
    def draw(
        cls, n_laws: int, halves: Array, n_shares: int, n_levels: Sequence[int], seed: int
    ) -> DrawnLaws:
        """Draw laws; ``halves`` are half the measured ranges of the logs."""
        random = np.random.default_rng([seed, 5])
        shape = n_laws, len(halves)

        def some(probability: float) -> Array:
            return (random.random(shape) < probability).astype(np.float64)

        role = random.choice(len(_ROLES), shape, p=_ROLES)
        slope = np.where(role == _DIVIDES, -random.uniform(0.4, 1.0, shape), 0.0)
        slope = np.where(role == _MULTIPLIES, random.uniform(0.3, 1.2, shape), slope)
        overhead = 10 ** random.uniform(-2.5, -0.3, shape) * np.exp(-halves / 2)
        along = some(min(0.6, 1.5 / max(len(halves), 1))) * np.where(some(_RATIO), -1.0, 1.0)
        cliff = random.uniform(np.log(1.3), np.log(7.0), n_laws)
        cliff *= np.where(random.random(n_laws) < _UPWARD, -1.0, 1.0)
        cliff *= random.random(n_laws) < _CLIFF
        return cls(
            slope,
            random.exponential(0.3, n_laws) * (random.random(n_laws) < _CONSTANT),
            overhead * some(_OVERHEAD) * (role == _DIVIDES),
            random.exponential(0.4, shape) * some(_ALONE),
            random.uniform(-1.0, 1.0, shape) * halves,
            random.exponential(0.15, shape) * (role == _BEST),
            random.normal(0.0, 1.0, (n_laws, n_shares)) * _sizes(random, 0.15, (n_laws, n_shares)),
            along,
            random.uniform(-0.8, 0.6, n_laws) * (np.abs(along) @ halves),
            cliff * np.abs(along).any(axis=1),
            random.choice(_WIDTHS, n_laws),
            tuple(
                random.normal(0.0, 1.0, (n_laws, n + 1)) * _sizes(random, 0.2, (n_laws, 1))
                for n in n_levels
            ),
        )

    def take(self, laws: NDArray[np.int64]) -> DrawnLaws:
        """Return some of the laws."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "effects"}
        effects = tuple(effect[laws] for effect in self.effects)
        return DrawnLaws(**{name: array[laws] for name, array in arrays.items()}, effects=effects)

    def at(self, places: Places) -> Array:
        """Return the log of the time of each law (row) at each place (column)."""
        total = np.exp(self.slope @ places.logs.T) + self.constant[:, None]
        total += self.overhead @ np.exp(places.logs.T) + self.alone @ np.exp(-places.logs.T)
        found: Array = np.log(total) + self.options @ places.shares.T
        # bend · (x - best)², multiplied out so that no array has an axis per column
        found += self.bend @ places.logs.T**2 - 2 * (self.bend * self.best) @ places.logs.T
        found += (self.bend * self.best**2).sum(axis=1, keepdims=True)
        below = self.cliff_at[:, None] - self.cliff_along @ places.logs.T
        found += self.cliff_log[:, None] * np.clip(below / self.cliff_width[:, None], 0.0, 1.0)
        for effect, level in zip(self.effects, places.levels.T, strict=True):
            found += effect[:, level]
        return found


def _sizes(random: np.random.Generator, usual: float, shape: tuple[int, ...]) -> Array:
    """Draw how much levels or options matter."""
    return usual * np.exp(random.normal(0.0, 0.7, shape))
