"""Random search: every trial trains to the end."""

from __future__ import annotations

from foretell.decide.tuning.schedulers._base import STOP, Scheduler


class AllEpochs(Scheduler):
    """No trial ends early."""

    has_min_epochs = has_eta = False

    def until(self, trial: int, epochs: int) -> int:
        """Return the most epochs."""
        return self.rules.max_epochs

    def reached(self, trial: int, epochs: int, value: float) -> str:
        """End the trial, which is done."""
        return STOP
