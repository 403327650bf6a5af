"""A hyperparameter search, simulated: trials in slots, rungs, pauses and starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from foretell.simulate.events import Events


class Scheduler(Protocol):
    """What a simulation needs to know of a scheduler; trials are numbers from 0."""

    def next_trial(self) -> int | None:
        """Return the trial that starts or starts again now; None if none waits."""

    def until(self, trial: int, epochs: int) -> int:
        """Return after how many epochs a trial that has some next meets a decision."""

    def reached(self, trial: int, epochs: int, value: float) -> str:
        """Decide: ``go on``, ``pause`` or ``stop``."""


@dataclass(frozen=True)
class DrawnTrials:
    """What trials will be like: seconds per epoch, and how good each is (larger is better)."""

    epoch_s: Sequence[float]
    value: Sequence[float]


@dataclass(frozen=True)
class Underway:
    """A trial that runs when a simulation begins.

    Attributes
    ----------
    epochs
        How many epochs it has behind it.
    epoch_left_s
        How much is left of the epoch that it is in.
    """

    trial: int
    epochs: int
    epoch_left_s: float


@dataclass(frozen=True)
class PlayedSearch:
    """What a simulated search came to.

    Attributes
    ----------
    epochs
        The epochs of each trial.
    n_starts
        How often a trial started, or started again after a pause.
    """

    end_s: float
    epochs: list[int]
    n_starts: int


class _Play:
    def __init__(
        self, scheduler: Scheduler, trials: DrawnTrials, n_slots: int, start_up_s: float
    ) -> None:
        self.events = Events()
        self.scheduler, self.trials, self.start_up_s = scheduler, trials, start_up_s
        self.n_free = n_slots
        self.epochs = [0] * len(trials.epoch_s)
        self.n_starts = 0

    def fill(self) -> None:
        while self.n_free > 0:
            trial = self.scheduler.next_trial()
            if trial is None:
                return
            self.n_free -= 1
            self.n_starts += 1
            self.go_on(trial, self.start_up_s)

    def go_on(self, trial: int, delay_s: float = 0.0) -> None:
        """Train a trial up to its next rung."""
        done = self.epochs[trial]
        until = max(self.scheduler.until(trial, done), done)
        train_s = (until - done) * self.trials.epoch_s[trial]
        self.events.after(delay_s + train_s, self.arrive, trial, until)

    def arrive(self, trial: int, epochs: int) -> None:
        self.epochs[trial] = epochs
        if self.scheduler.reached(trial, epochs, self.trials.value[trial]) == "go on":
            self.go_on(trial)
        else:
            self.n_free += 1
        self.fill()


def play_search(
    scheduler: Scheduler,
    trials: DrawnTrials,
    *,
    n_slots: int,
    start_up_s: float = 0.0,
    underway: Sequence[Underway] = (),
    behind: Mapping[int, int] | None = None,
) -> PlayedSearch:
    """Let a scheduler run trials, as many at the same time as there are slots.

    Parameters
    ----------
    start_up_s
        What passes between a free slot and the first epoch of a trial in it.
    underway
        Trials that run already; the scheduler knows what they and others did before.
    behind
        The epochs that trials have behind them which wait at a rung.
    """
    play = _Play(scheduler, trials, n_slots, start_up_s)
    for trial, epochs in (behind or {}).items():
        play.epochs[trial] = epochs
    for running in underway:
        play.n_free -= 1
        play.epochs[running.trial] = running.epochs
        in_epoch = running.epoch_left_s - trials.epoch_s[running.trial]
        until = max(scheduler.until(running.trial, running.epochs), running.epochs + 1)
        left_s = (until - running.epochs) * trials.epoch_s[running.trial] + in_epoch
        play.events.after(max(left_s, 0.0), play.arrive, running.trial, until)
    play.fill()
    play.events.run()
    return PlayedSearch(play.events.now_s, play.epochs, play.n_starts)
