"""What a scheduler of a search is: it orders trials, and decides at its rungs who goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import numpy as np

from foretell.decide.tuning.rungs import Rules

GO_ON, PAUSE, STOP = "go on", "pause", "stop"


class Scheduler(ABC):
    """Trials are numbers from 0, in the order in which they are drawn; larger values are better.

    Parameters
    ----------
    n_trials
        How many trials there will be.
    seed
        Decides what a scheduler does at random.
    study
        The name of the study, by which some schedulers of Optuna decide.
    """

    #: Whether trials wait at a rung for others, and start again after it.
    pauses = False
    #: Whether it has a least number of epochs, a share of trials that goes on, any such share.
    has_min_epochs = has_eta = has_any_eta = True
    #: Whether its brackets may be laid out for more epochs than trials have.
    has_bracket_epochs = False
    #: Whether the name of the study decides anything.
    has_study = False

    def __init__(
        self, n_trials: int, rules: Rules, seed: int = 0, study: str | None = None
    ) -> None:
        self.n_trials = n_trials
        self.rules = rules
        self.random = np.random.default_rng(seed)
        self.waiting: deque[int] = deque(range(n_trials))

    def next_trial(self) -> int | None:
        """Return the trial that starts or starts again now; None if none waits."""
        return self.waiting.popleft() if self.waiting else None

    @abstractmethod
    def until(self, trial: int, epochs: int) -> int:
        """Return after how many epochs a trial that has some next meets a decision."""

    @abstractmethod
    def reached(self, trial: int, epochs: int, value: float) -> str:
        """Decide whether a trial goes on, waits for others, or ends."""

    def left(self, trial: int) -> None:
        """Take note that a trial has ended by itself, by an error for instance."""
        if trial in self.waiting:
            self.waiting.remove(trial)
