"""What was compared at the rungs of a search that runs, as scores that trials to come can have."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from foretell.decide.tuning.schedulers import Scheduler
from foretell.decide.tuning.search import Search

Array = NDArray[np.float64]


class RungLog:
    """Values at rungs, in the order in which they came, and the scheduler that has seen them.

    Values grow with epochs and have any scale. Trials to come have none yet, only a normal score.
    So each value counts by its rank among those of the same rung: the scores of a later rung are
    those that the same trials had before, in the order of their values there.
    """

    def __init__(self, search: Search) -> None:
        self._scheduler = search.make()
        self._entries: list[tuple[int, int, float | None]] = []
        self._n_trials = search.n_trials
        self._scores: tuple[dict[int, float], dict[tuple[int, int], float]] | None = None

    def add(self, number: int, before: int, epochs: int, value: float | None) -> str | None:
        """Take note of an epoch; return what the scheduler decides, None between rungs."""
        if number >= self._n_trials or epochs < self._scheduler.until(number, before):
            return None
        self._entries.append((number, epochs, value))
        self._scores = None
        if value is None and not self._scheduler.pauses:
            return None if epochs < self._scheduler.rules.max_epochs else "stop"
        return self._scheduler.reached(number, epochs, 0.0 if value is None else value)

    def scores(self) -> dict[int, float]:
        """Return the latest score of each trial that has a value at a rung."""
        return self._scored()[0]

    def _scored(self) -> tuple[dict[int, float], dict[tuple[int, int], float]]:
        if self._scores is None:
            self._scores = self._computed()
        return self._scores

    def _computed(self) -> tuple[dict[int, float], dict[tuple[int, int], float]]:
        by_rung: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for number, epochs, value in self._entries:
            if value is not None and not np.isnan(value):
                by_rung[epochs].append((value, number))
        latest: dict[int, float] = {}
        every: dict[tuple[int, int], float] = {}
        for epochs in sorted(by_rung):
            group = by_rung[epochs]
            n = len(group)
            ranks = np.argsort(np.argsort([value for value, _ in group]))
            fresh = ndtri((ranks + 0.5) / n)
            own = sorted(
                latest.get(number, float(score))
                for (_, number), score in zip(group, fresh, strict=True)
            )
            for (_, number), rank in zip(group, ranks, strict=True):
                latest[number] = every[number, epochs] = own[rank]
        return latest, every

    def replay(self, scheduler: Scheduler, values: Array) -> Scheduler:
        """Tell a new scheduler what was compared; trials without a value have drawn scores."""
        _, every = self._scored()
        for number, epochs, _ in self._entries:
            if number in scheduler.waiting:
                scheduler.waiting.remove(number)
            score = every.get((number, epochs), float(values[number]))
            scheduler.reached(number, epochs, score)
        return scheduler
