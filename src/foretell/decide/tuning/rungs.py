"""Rules of schedulers, and after how many epochs asynchronous halving looks at a trial."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foretell.errors import Option, UsageError


@dataclass(frozen=True)
class Rules:
    """What all schedulers have in common.

    Attributes
    ----------
    max_epochs
        After so many epochs a trial is done.
    eta
        Of so many trials one goes on to the next rung, which has so many times the epochs.
    min_epochs
        No trial is stopped before it.
    bracket_epochs
        For how many epochs a scheduler with brackets lays them out, if a search ends trials before
        their last rung; by default for the most epochs.

    >>> Rules(max_epochs=9, eta=1)
    Traceback (most recent call last):
    foretell.errors.UsageError: eta=1: must be at least 2: one of so many trials goes on
    """

    max_epochs: int
    eta: float = 3
    min_epochs: int = 1
    bracket_epochs: int | None = None

    def __post_init__(self) -> None:
        if self.max_epochs < 1:
            raise UsageError(
                f"must be at least 1, not {self.max_epochs}", option=Option("max_epochs")
            )
        if not self.eta >= 2 or math.isinf(self.eta):
            raise UsageError(
                "must be at least 2: one of so many trials goes on",
                option=Option("eta", f"{self.eta:g}"),
            )
        if not 1 <= self.min_epochs <= self.max_epochs:
            raise UsageError(
                f"must be from 1 to {self.max_epochs}, the most epochs, not {self.min_epochs}",
                option=Option("min_epochs"),
            )
        if self.bracket_epochs is not None and self.bracket_epochs < self.max_epochs:
            raise UsageError(
                f"must be at least {self.max_epochs}, the most epochs, not {self.bracket_epochs}",
                option=Option("bracket_epochs"),
            )


def milestones(rules: Rules, first: int = 0) -> list[float]:
    """List after how many epochs asynchronous halving looks at a trial; as Ray Tune rounds.

    >>> milestones(Rules(max_epochs=27))
    [1, 3, 9, 27]
    """
    n = int(math.log(rules.max_epochs / rules.min_epochs) / math.log(rules.eta) - first + 1)
    return [rules.min_epochs * rules.eta ** (k + first) for k in range(max(n, 0))]
