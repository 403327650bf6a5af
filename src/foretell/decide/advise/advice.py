"""The answer of advising: the proposed runs, what they may bring, and what is left after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from foretell.decide.advise.options import Budget
from foretell.decide.advise.text import advice_json, advice_text
from foretell.decide.plan.answer import Plan
from foretell.decide.plan.text import Write

#: What a run may confirm.
PLAN, CHANGE = "plan", "change"


@dataclass(frozen=True)
class Proposal:
    """One run to make.

    Attributes
    ----------
    cost
        The predicted cost of the run, in the unit of the budget.
    time_s
        Its predicted time; NaN if no model predicts one.
    chance, gain
        How likely it changes the plan, and the expected improvement of the plan as a share; if
        there is nothing to choose, the share by which the interval of the prediction narrows.
    instead
        The configuration that would be planned most often if the plan changed.
    checks
        What it confirms, if no run is worth its cost otherwise: PLAN, which was never run; or
        CHANGE, a configuration that differs from the plan in a column that was never changed there.
    n_before
        How often the same configuration was measured before.
    """

    configuration: dict[str, Any]
    cost: float
    time_s: float
    chance: float
    gain: float
    instead: dict[str, Any] | None
    checks: str = ""
    n_before: int = 0


@dataclass(frozen=True)
class Advice:
    """The answer.

    Attributes
    ----------
    plan
        What would be planned without any further run.
    proposals
        The runs to make, the most valuable for its cost first; none if the stop rule says so.
    best_chance, left_chance
        How likely the most informative affordable run changes the plan: now, and after the
        proposals.
    left_gain
        What the best run after the proposals would bring.
    noise
        How much repeated runs differ, as a share; NaN if none was repeated.
    n_runs, n_unaffordable, n_too_long, n_repeats
        How many runs were considered; how many of them exceed the budget, would hit the time limit,
        or were made before and are not proposed again.
    n_past
        How many runs were made before.
    is_target
        Whether there is nothing to choose: a single configuration is predicted.
    """

    plan: Plan
    proposals: list[Proposal]
    budget: Budget
    least_chance: float
    best_chance: float
    left_chance: float
    left_gain: float
    noise: float
    n_runs: int
    n_unaffordable: int
    n_too_long: int
    n_repeats: int
    n_past: int
    is_target: bool

    @property
    def cost(self) -> float:
        """What all proposed runs cost together."""
        return sum(p.cost for p in self.proposals)

    def __repr__(self) -> str:
        return advice_text(self)

    def to_json(self, write: Write = str) -> dict[str, Any]:
        """Return plain values; ``write`` writes the names of options in texts."""
        return advice_json(self, write)
