"""A search before it runs: its scheduler, its trials, and how many run at the same time."""

from __future__ import annotations

from dataclasses import dataclass

from foretell.decide.tuning.rungs import Rules
from foretell.decide.tuning.schedulers import SCHEDULERS, Scheduler
from foretell.errors import Option, UsageError

_MOST_TRIALS = 100_000


@dataclass(frozen=True)
class Search:
    """What is known of a search besides its space.

    Attributes
    ----------
    n_slots
        How many trials run at the same time.
    start_up_s
        What passes between a free slot and the first epoch of a trial in it.
    study
        The name of the Optuna study, if it is known: it decides the brackets of trials.
    """

    scheduler: str
    n_trials: int
    rules: Rules
    n_slots: int = 1
    start_up_s: float = 0.0
    study: str | None = None

    def __post_init__(self) -> None:
        try:
            kind = SCHEDULERS.get(self.scheduler)
        except UsageError as error:
            raise UsageError(error.text, option=Option("scheduler")) from None
        self._check_rules(kind)
        if not 1 <= self.n_trials <= _MOST_TRIALS:
            raise UsageError(
                f"must be from 1 to {_MOST_TRIALS:,}, not {self.n_trials}", option=Option("trials")
            )
        if self.n_slots < 1:
            raise UsageError(f"must be at least 1, not {self.n_slots}", option=Option("n_slots"))

    def _check_rules(self, kind: type[Scheduler]) -> None:
        """Refuse rules that the scheduler does not have, and would pass over."""
        rules, usual = self.rules, Rules(self.rules.max_epochs)
        remedy = ("leave it out, or set ", Option("scheduler", "asha"))
        if not kind.has_min_epochs and rules.min_epochs != usual.min_epochs:
            raise UsageError(
                f"{self.scheduler} has no least number of epochs",
                option=Option("min_epochs", str(rules.min_epochs)),
                remedy=remedy,
            )
        if not kind.has_eta and rules.eta != usual.eta:
            raise UsageError(
                f"{self.scheduler} has no rungs",
                option=Option("eta", f"{rules.eta:g}"),
                remedy=remedy,
            )
        if not kind.has_any_eta and rules.eta != int(rules.eta):
            raise UsageError(
                f"must be a whole number, as Optuna has it, with {self.scheduler}",
                option=Option("eta", f"{rules.eta:g}"),
            )
        if not kind.has_bracket_epochs and rules.bracket_epochs is not None:
            raise UsageError(f"{self.scheduler} has none", option=Option("bracket_epochs"))

    def make(self, seed: int = 0) -> Scheduler:
        """Make a scheduler that knows all trials, none of which has run."""
        return SCHEDULERS.get(self.scheduler)(self.n_trials, self.rules, seed, self.study)


def slots_of(cores: int, threads: int) -> int:
    """Return how many trials run at the same time, each on cores of its own."""
    if cores < 1:
        raise UsageError(f"must be at least 1, not {cores}", option=Option("cores"))
    if cores < threads:
        has = "is 1 core" if cores == 1 else f"are {cores} cores"
        raise UsageError(
            f"a trial has {threads} threads, and there {has}: none could run; write "
            f"threads = {cores} or less under [system] of the space, or give more cores",
            option=Option("cores"),
        )
    return cores // threads
