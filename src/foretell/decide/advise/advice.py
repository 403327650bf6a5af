"""The answer of advising: the proposed runs, what they may bring, and what is left after them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from foretell.decide.advise.options import Budget
from foretell.decide.plan.answer import Candidate, Plan
from foretell.decide.plan.text import Write, candidate_text, finite, settings_text
from foretell.spaces.quantities import TIME, write_quantity
from foretell.wording import rough_percent

#: Why a run is made if not for its worth.
PLAN, CHANGE, OPEN = "plan", "change", "open"


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
        Why it is made if not for its worth: OPEN, its interval allows a much better plan; or, if no
        run is worth its cost, PLAN, which was never run, or CHANGE, a configuration that differs
        from the plan in a column that was never changed there.
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
    far_chance
        How likely some configuration is more than 10 % better than the plan.
    left_gain
        What the best run after the proposals would bring.
    noise
        How much repeated runs differ, as a share; NaN if none was repeated.
    n_runs, n_unaffordable, n_too_long, n_repeats
        How many runs were considered; how many of them exceed the budget, would hit the time limit,
        or were made before and are not proposed again.
    is_target
        Whether there is nothing to choose: a single configuration is predicted.
    precise_to
        The precision that was asked for and is reached, so that nothing is proposed; or None.
    """

    plan: Plan
    proposals: list[Proposal]
    budget: Budget
    least_chance: float
    best_chance: float
    far_chance: float
    left_chance: float
    left_gain: float
    noise: float
    n_runs: int
    n_unaffordable: int
    n_too_long: int
    n_repeats: int
    n_past: int
    is_target: bool
    precise_to: float | None = None

    @property
    def cost(self) -> float:
        """What all proposed runs cost together."""
        return sum(p.cost for p in self.proposals)

    def __repr__(self) -> str:
        return _advice_text(self)

    def to_json(self, write: Write = str) -> dict[str, Any]:
        """Return plain values, in base units; ``write`` writes the names of options in texts."""
        names = (
            "least_chance", "best_chance", "far_chance", "left_chance", "n_runs", "n_unaffordable",
            "n_too_long", "n_repeats", "is_target", "precise_to",
        )  # fmt: skip
        values: dict[str, Any] = finite(
            {
                "runs": [{**asdict(p), "checks": p.checks or None} for p in self.proposals],
                "is_done": not self.proposals,
                "budget": asdict(self.budget),
                **{name: getattr(self, name) for name in names},
                "plan": self.plan.to_json(write),
                "text": _advice_text(self),
            }
        )
        return values


def _advice_text(advice: Advice) -> str:
    """Write advice: the run first, then what it decides, and what is left."""
    lines = [_run(advice, proposal) for proposal in advice.proposals]
    if not lines:
        lines = [_no_run(advice)]
    lines.append(f"  {_planned(advice)}")
    if advice.proposals:
        lines.append(f"  {_left(advice)}")
    if advice.n_too_long:
        lines.append(
            f"  {_n_runs(advice.n_too_long)} not proposed: stopped at the time limit before, or "
            "predicted to be."
        )
    if advice.n_repeats:
        lines.append(f"  {_n_runs(advice.n_repeats)} not proposed: made before.")
    return "\n".join(lines)


def _n_runs(n: int) -> str:
    return "1 run is" if n == 1 else f"{n} runs are"


def _run(advice: Advice, proposal: Proposal) -> str:
    first = proposal is advice.proposals[0]
    settings = _settings(advice, proposal.configuration)
    text = f"Run {settings} next" if first else f"Then {settings}"
    text += f" (about {write_quantity(proposal.cost, advice.budget.kind, advice.plan.currency)}"
    if advice.budget.kind != TIME and math.isfinite(proposal.time_s):
        text += f", {write_quantity(proposal.time_s, TIME)}"
    if proposal.n_before:
        times = "once" if proposal.n_before == 1 else f"{proposal.n_before} times"
        text += f"; measured {times} before"
        if math.isfinite(advice.noise):
            text += f", repeats differ by about {rough_percent(advice.noise)}"
    text += "): "
    if advice.is_target:
        gain = rough_percent(proposal.gain)
        return f"{text}it narrows the interval of the prediction by about {gain}."
    if proposal.checks == OPEN:
        chance = rough_percent(advice.far_chance)
        return (
            f"{text}it may be more than 10 % better than the plan. The chance that any "
            f"configuration is that much better is {chance}."
        )
    if proposal.checks:
        plan = "the plan" if advice.plan.chosen else "the closest configuration"
        what = {PLAN: f"{plan} itself", CHANGE: f"one change of {plan}"}
        return f"{text}{what[proposal.checks]}, never run so far. No other run is worth its cost."
    if proposal.instead is not None and advice.plan.chosen is not None:
        one, other = advice.plan.chosen.configuration, proposal.instead
        names = [name for name in one if one[name] != other.get(name)]
        between = " and ".join(settings_text(c, names) for c in (one, other))
        text += f"it decides between {between}, and "
    else:
        text += "it "
    return (
        f"{text}has a {rough_percent(proposal.chance)} chance of changing the plan, which gets "
        f"{rough_percent(proposal.gain)} better on average."
    )


def _settings(advice: Advice, configuration: Mapping[str, Any]) -> str:
    """Write the settings that are chosen, and those that differ from the planned job."""
    planned = advice.plan.chosen or advice.plan.closest
    base = {} if planned is None else planned.configuration
    names = [n for n, v in configuration.items() if n in advice.plan.varied or base.get(n) != v]
    return settings_text(configuration, names)


def _no_run(advice: Advice) -> str:
    if advice.precise_to is not None:
        what = "the prediction" if advice.is_target else "the plan"
        share = rough_percent(advice.precise_to)
        return f"No more runs: both ends of the interval of {what} are within {share} of it."
    share = rough_percent(advice.least_chance)
    runs = f"Of {advice.n_runs} runs looked at"
    if advice.n_unaffordable:
        runs += f", {advice.n_runs - advice.n_unaffordable} of them within the budget"
    if advice.is_target:
        return f"{runs}, none narrows the interval of the prediction by more than {share}."
    can = "of changing the plan"
    if advice.plan.chosen is None:
        can = "of leading to a plan that meets the limits"
    return f"No more runs: no affordable run has a chance above {share} {can}. {runs}."


def _planned(advice: Advice) -> str:
    found = advice.plan.chosen or advice.plan.closest
    if found is None:
        return "There is no plan yet."
    if advice.is_target:
        return f"Predicted now: {candidate_text(advice.plan, found)}.{_passport(found)}"
    word = "Planned now" if advice.plan.chosen is not None else "No plan meets the limits; closest"
    return f"{word}: {candidate_text(advice.plan, found)}."


def _passport(found: Candidate) -> str:
    """Say how far outside the data a prediction is, and how far off others were there."""
    text = "" if not found.outside else f" {found.trust.capitalize()}: {found.outside}."
    if math.isfinite(found.expected_error):
        text += f" Such predictions were about {rough_percent(found.expected_error)} off."
    return text


def _left(advice: Advice) -> str:
    after = "After it" if len(advice.proposals) == 1 else "After them"
    left = advice.budget.most - advice.cost
    within = ""
    if math.isfinite(left):
        amount = write_quantity(max(left, 0.0), advice.budget.kind, advice.plan.currency)
        within = f" within the {amount} that are left"
    share = rough_percent(advice.least_chance)
    if advice.left_gain <= 0:
        if advice.is_target:
            return f"{after}, no run{within} would narrow the interval by more than {share}."
        return f"{after}, no single run{within} has a chance above {share} of changing the plan."
    if advice.is_target:
        share = rough_percent(advice.left_gain)
        return f"{after}, another run{within} could narrow the interval by {share}."
    chance = rough_percent(advice.left_chance)
    return f"{after}, another run{within} has a {chance} chance of changing the plan."
