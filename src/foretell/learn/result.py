"""Learning: its options, its rounds, and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretell.decide.advise.options import LEAST_CHANCE, Budget
from foretell.decide.plan.answer import Plan

#: Why learning ended: no affordable run would change the plan; the budget is used up.
SURE, SPENT = "sure", "spent"


@dataclass(frozen=True)
class LearnOptions:
    """How to learn.

    Attributes
    ----------
    targets
        The columns to model: a time, and others that the plan needs.
    budget
        What all runs may cost together: a time such as "30m", an energy, or money with prices. A
        run that was started is finished, so the last one may exceed it.
    n_runs
        How many runs to make between two fits.
    progress
        Called with a Round before its runs are made.
    """

    targets: Sequence[str] = ("wall_time_s",)
    budget: str | float | None = None
    least_chance: float = LEAST_CHANCE
    n_runs: int = 1
    n_jobs: int | None = None
    on: str | None = None
    progress: Callable[[Round], None] | None = None


@dataclass(frozen=True)
class Round:
    """What is known before the next runs.

    Attributes
    ----------
    runs
        The runs that are made next; none at the end.
    n_runs, spent
        How many runs were made so far, and what they have cost in the quantity of the budget.
    chance
        How likely the most informative run changes the plan.
    """

    n_runs: int
    runs: list[dict[str, Any]]
    spent: float
    kind: str
    chance: float
    plan: Plan


@dataclass(frozen=True)
class Learned:
    """The end of learning.

    ``reason``: SURE or SPENT.
    """

    plan: Plan
    rounds: list[Round]
    reason: str
    budget: Budget
    table: Path
    models: dict[str, Path]

    def __repr__(self) -> str:
        return repr(self.plan)
