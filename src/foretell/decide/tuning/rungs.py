"""Rungs: how many trials go on to how many epochs, in Hyperband and in successive halving."""

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

    >>> Rules(max_epochs=9, eta=1)
    Traceback (most recent call last):
    foretell.errors.UsageError: eta=1: must be at least 2: one of so many trials goes on
    """

    max_epochs: int
    eta: float = 3
    min_epochs: int = 1

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


@dataclass(frozen=True)
class Rung:
    """So many trials train up to so many epochs."""

    n_trials: int
    epochs: int


def brackets(max_epochs: int, eta: float = 3) -> list[list[Rung]]:
    """List the brackets of Hyperband as published, the one with the most trials first.

    >>> for bracket in brackets(9):
    ...     print([(rung.n_trials, rung.epochs) for rung in bracket])
    [(9, 1), (3, 3), (1, 9)]
    [(5, 3), (1, 9)]
    [(3, 9)]
    """
    most = int(math.log(max_epochs) / math.log(eta) + 1e-9)
    return [_bracket(s, most, max_epochs, eta) for s in range(most, -1, -1)]


def _bracket(s: int, most: int, max_epochs: int, eta: float) -> list[Rung]:
    n = math.ceil((most + 1) * eta**s / (s + 1) - 1e-9)
    return [
        Rung(int(n * eta**-i + 1e-9), max(int(max_epochs * eta ** (i - s) + 1e-9), 1))
        for i in range(s + 1)
    ]


def milestones(rules: Rules, first: int = 0) -> list[float]:
    """List after how many epochs asynchronous halving looks at a trial; as Ray Tune rounds.

    >>> milestones(Rules(max_epochs=27))
    [1, 3, 9, 27]
    """
    n = int(math.log(rules.max_epochs / rules.min_epochs) / math.log(rules.eta) - first + 1)
    return [rules.min_epochs * rules.eta ** (k + first) for k in range(max(n, 0))]
