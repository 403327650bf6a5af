"""Asynchronous successive halving, as the ASHAScheduler of Ray Tune does it with one bracket."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence

from foretell.decide.tuning.rungs import Rules, milestones
from foretell.decide.tuning.schedulers._base import GO_ON, STOP, Scheduler


class Asha(Scheduler):
    """A trial ends at a rung where it is below the best 1/eta of those that were there before.

    >>> asha = Asha(3, Rules(max_epochs=9))
    >>> [asha.reached(trial, 1, value) for trial, value in enumerate([0.5, 0.4, 0.6])]
    ['go on', 'stop', 'go on']
    """

    def __init__(
        self, n_trials: int, rules: Rules, seed: int = 0, study: str | None = None
    ) -> None:
        super().__init__(n_trials, rules, seed, study)
        self._at = [m for m in milestones(rules) if m < rules.max_epochs]
        self._recorded: list[list[float]] = [[] for _ in self._at]

    def until(self, trial: int, epochs: int) -> int:
        """Return the epochs of the next rung."""
        return next((math.ceil(m) for m in self._at if m > epochs), self.rules.max_epochs)

    def reached(self, trial: int, epochs: int, value: float) -> str:
        """Compare a trial with those that were at this rung before."""
        if epochs >= self.rules.max_epochs:
            return STOP
        passed = [k for k, m in enumerate(self._at) if m <= epochs]
        if not passed:
            return GO_ON
        recorded = self._recorded[passed[-1]]
        is_below = bool(recorded) and value < _quantile(recorded, 1 - 1 / self.rules.eta)
        insort(recorded, value)
        return STOP if is_below else GO_ON


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Interpolate between the two nearest of the ordered values, as numpy does."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
