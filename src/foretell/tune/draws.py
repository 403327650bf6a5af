"""Draws of whole searches before the first trial: epoch times with errors, values, the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foretell.decide.tuning.draws import Along
from foretell.decide.tuning.epoch_law import EpochLaw, Features, Prior
from foretell.decide.tuning.epoch_times import EpochTimes, spread_of
from foretell.decide.tuning.search import Search
from foretell.decide.tuning.space import Space
from foretell.decide.tuning.start_ups import StartUps
from foretell.simulate.search import DrawnTrials, play_search

Array = NDArray[np.float64]
N_DRAWS = 200
_POOL = 2_000  # configurations that are predicted; trials are drawn from them


@dataclass(frozen=True)
class Range90:
    """A time with the ends of its 90 % interval, in seconds."""

    median_s: float
    lower_s: float
    upper_s: float

    @classmethod
    def of(cls, times: Array) -> Range90:
        """Return the quantiles of drawn times."""
        lower, median, upper = np.quantile(times, (0.05, 0.5, 0.95))
        return cls(float(median), float(lower), float(upper))


@dataclass(frozen=True, eq=False)
class Pool:
    """Configurations of a space with their predicted epoch times, to draw trials from."""

    epoch_s: Array
    features: Array

    @classmethod
    def of(cls, space: Space, times: EpochTimes, seed: int) -> Pool:
        """Draw configurations; the same seed draws the same, as far as spaces agree."""
        frame = space.draw(_POOL, np.random.default_rng(seed))
        return cls(np.asarray(times.mean_s(frame)), Features(frame).matrix(frame))


@dataclass(frozen=True, eq=False)
class PlayedDraws:
    """The ends and the epochs of all draws of a search."""

    end_s: Array
    n_epochs: Array


def play_draws(search: Search, pool: Pool, spread: float, n_draws: int, seed: int) -> PlayedDraws:
    """Simulate a search many times, each with another error of the model, trials and values."""
    law = EpochLaw.learn(Prior.of_model(spread), pool.features.shape[1])
    ends, epochs = np.empty(n_draws), np.empty(n_draws)
    drawn = law.draw(n_draws, np.random.default_rng(seed))
    log_s = np.log(pool.epoch_s)
    for d in range(n_draws):
        random = np.random.default_rng([seed, d])
        start_up_s = StartUps(search.start_up_s).draw(random)
        rows = random.integers(len(log_s), size=search.n_trials)
        own = law.trial * random.standard_normal(search.n_trials)
        logs = log_s[rows] + drawn[d, 0] + pool.features[rows] @ drawn[d, 1:] + own
        values = Along().draw(logs, random)
        trials = DrawnTrials(np.exp(logs).tolist(), values.tolist())
        played = play_search(
            search.make(seed=seed + d), trials, n_slots=search.n_slots, start_up_s=start_up_s
        )
        ends[d], epochs[d] = played.end_s, sum(played.epochs)
    return PlayedDraws(ends, epochs)


def spread_over(space: Space, times: EpochTimes, seed: int) -> float:
    """Return how far off predictions are in a space, as the deviation of a logarithm."""
    return spread_of(times, space.draw(200, np.random.default_rng(seed)))


def with_epochs(search: Search, max_epochs: int) -> Search:
    """Return a search that ends its trials earlier."""
    return replace(search, rules=replace(search.rules, max_epochs=max_epochs))
