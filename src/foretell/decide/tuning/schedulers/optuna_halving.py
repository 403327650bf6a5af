"""Asynchronous successive halving, as the SuccessiveHalvingPruner of Optuna does it."""

from __future__ import annotations

import math
from bisect import insort

from foretell.decide.tuning.rungs import Rules
from foretell.decide.tuning.schedulers._base import GO_ON, STOP, Scheduler


class Halving:
    """One bracket: a trial goes on if it is among the best 1/eta at a rung, itself included.

    Optuna counts steps. The first epoch is step 0, so that a rung at step 1 is met after 2 epochs.
    """

    def __init__(self, rules: Rules, first: int = 0) -> None:
        steps = [rules.min_epochs * rules.eta ** (first + k) for k in range(64)]
        self._at = [math.ceil(s) + 1 for s in steps if math.ceil(s) + 1 < rules.max_epochs]
        self._recorded: list[list[float]] = [[] for _ in self._at]
        self._max_epochs, self._eta = rules.max_epochs, int(rules.eta)

    def until(self, epochs: int) -> int:
        """Return the epochs of the next rung."""
        return next((m for m in self._at if m > epochs), self._max_epochs)

    def reached(self, epochs: int, value: float) -> str:
        """Compare a trial with all that were at this rung."""
        if epochs >= self._max_epochs:
            return STOP
        if epochs not in self._at:
            return GO_ON
        recorded = self._recorded[self._at.index(epochs)]
        insort(recorded, value)
        n_best = max(len(recorded) // self._eta, 1)
        return GO_ON if value >= recorded[-n_best] else STOP


class OptunaHalving(Scheduler):
    """All trials in one bracket."""

    has_any_eta = False  # Optuna counts trials by whole numbers

    def __init__(
        self, n_trials: int, rules: Rules, seed: int = 0, study: str | None = None
    ) -> None:
        super().__init__(n_trials, rules, seed, study)
        self._bracket = Halving(rules)

    def until(self, trial: int, epochs: int) -> int:
        """Return the epochs of the next rung."""
        return self._bracket.until(epochs)

    def reached(self, trial: int, epochs: int, value: float) -> str:
        """Compare a trial with all that were at this rung."""
        return self._bracket.reached(epochs, value)


class OptunaHalvingAuto(OptunaHalving):
    """The same by Optuna's default: no trial is compared before a first one is complete.

    Only then does Optuna know the first rung, one of a hundred parts of the steps: step 1, unless
    trials have more than 200.
    """

    def __init__(
        self, n_trials: int, rules: Rules, seed: int = 0, study: str | None = None
    ) -> None:
        super().__init__(n_trials, rules, seed, study)
        self._is_ready = False

    def reached(self, trial: int, epochs: int, value: float) -> str:
        """Compare a trial with those that were at this rung since a first one was complete."""
        if epochs >= self.rules.max_epochs:
            self._is_ready = True
        elif not self._is_ready:
            return GO_ON
        return super().reached(trial, epochs, value)
