"""Hyperband without waiting, as the HyperbandPruner of Optuna does it: brackets by chance."""

from __future__ import annotations

import math
import zlib

import numpy as np

from foretell.decide.tuning.rungs import Rules
from foretell.decide.tuning.schedulers._base import Scheduler
from foretell.decide.tuning.schedulers.optuna_halving import Halving


class OptunaHyperband(Scheduler):
    """Each trial falls into a bracket by chance, and is compared with others of it.

    Optuna computes it from the name of the study and the number of the trial; without a name it is
    drawn.
    """

    has_any_eta = False  # Optuna counts trials by whole numbers
    has_study = True

    def __init__(
        self, n_trials: int, rules: Rules, seed: int = 0, study: str | None = None
    ) -> None:
        super().__init__(n_trials, rules, seed, study)
        n = math.floor(math.log(rules.max_epochs / rules.min_epochs, rules.eta)) + 1
        sizes = [math.ceil(n * rules.eta**s / (s + 1)) for s in range(n - 1, -1, -1)]
        brackets = np.repeat(np.arange(n), sizes)
        if study is None:
            places = self.random.integers(len(brackets), size=n_trials)
        else:
            codes = [zlib.crc32(f"{study}_{trial}".encode()) for trial in range(n_trials)]
            places = np.array(codes, dtype=np.int64) % len(brackets)
        halvings = [Halving(rules, first) for first in range(n)]
        self._bracket_of = [halvings[int(bracket)] for bracket in brackets[places]]

    def until(self, trial: int, epochs: int) -> int:
        """Return the epochs of the next rung of its bracket."""
        return self._bracket_of[trial].until(epochs)

    def reached(self, trial: int, epochs: int, value: float) -> str:
        """Compare a trial with all of its bracket that were at this rung."""
        return self._bracket_of[trial].reached(epochs, value)
