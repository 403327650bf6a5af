"""Hyperband whose trials wait for one another, as Ray Tune's HyperBandScheduler does it."""

from __future__ import annotations

import math

import numpy as np

from foretell.decide.tuning.rungs import Rules
from foretell.decide.tuning.schedulers._base import GO_ON, PAUSE, STOP, Scheduler


class _Bracket:
    """Trials that are compared with one another at each rung."""

    def __init__(self, s: int, size: int, epochs: int) -> None:
        self.size, self.epochs, self.n_halvings = size, epochs, s
        self.trials: dict[int, tuple[int, float]] = {}  # its epochs and value, while it lives

    def is_done(self) -> bool:
        return all(epochs >= self.epochs for epochs, _ in self.trials.values())

    def halve(self, eta: float, most_epochs: int) -> list[int]:
        """Keep the best; return those that end."""
        self.n_halvings -= 1
        self.size = math.ceil(self.size / eta)
        self.epochs = int(min(self.epochs * eta, most_epochs))
        by_value = sorted(self.trials, key=lambda t: self.trials[t][1])
        bad = by_value[: -self.size]
        for trial in bad:
            del self.trials[trial]
        return bad


class Hyperband(Scheduler):
    """Brackets are filled in the order of trials, the one that trains longest first.

    A trial that reaches its rung waits until all others of its bracket did. The best go on: the
    one that came last at once, and the others start again as new processes, after the trials that
    wait for their first start.
    """

    pauses = True
    has_min_epochs = False  # its brackets say after how many epochs trials are first compared
    has_bracket_epochs = True

    def __init__(
        self, n_trials: int, rules: Rules, seed: int = 0, study: str | None = None
    ) -> None:
        super().__init__(n_trials, rules, seed, study)
        self._most_epochs = rules.bracket_epochs or rules.max_epochs
        self._bracket_of: list[_Bracket] = []
        most = int(np.round(np.log(self._most_epochs) / np.log(rules.eta))) + 1
        while len(self._bracket_of) < n_trials:
            for s in range(most):
                self._fill(s, most)
        del self._bracket_of[n_trials:]
        for trial, bracket in enumerate(self._bracket_of):
            bracket.trials[trial] = (0, math.nan)

    def _fill(self, s: int, most: int) -> None:
        epochs = int(self._most_epochs * self.rules.eta**-s)
        if epochs:
            size = math.ceil(most / (s + 1) * self.rules.eta**s)
            self._bracket_of += [_Bracket(s, size, epochs)] * size

    def until(self, trial: int, epochs: int) -> int:
        """Return the epochs of the rung of its bracket, unless the search ends it before."""
        return min(self._bracket_of[trial].epochs, self.rules.max_epochs)

    def reached(self, trial: int, epochs: int, value: float) -> str:
        """Let a trial wait for its bracket, or halve it if all are there."""
        bracket = self._bracket_of[trial]
        if self.rules.max_epochs < self._most_epochs and epochs >= self.rules.max_epochs:
            self.left(trial)
            return STOP
        bracket.trials[trial] = (epochs, value)
        if epochs < bracket.epochs:
            return GO_ON
        return self._halved(bracket, trial)

    def _halved(self, bracket: _Bracket, last: int | None) -> str:
        """Halve a bracket if all its trials are there; decide about the one that came last."""
        if not bracket.is_done():
            return PAUSE
        if not bracket.n_halvings:
            return STOP
        bad = bracket.halve(self.rules.eta, self._most_epochs)
        self.waiting += [t for t in bracket.trials if t != last]
        return STOP if last in bad else GO_ON

    def left(self, trial: int) -> None:
        """Go on without a trial; its bracket may have waited for it."""
        super().left(trial)
        bracket = self._bracket_of[trial]
        if bracket.trials.pop(trial, None) is not None and bracket.trials and bracket.n_halvings:
            self._halved(bracket, None)
