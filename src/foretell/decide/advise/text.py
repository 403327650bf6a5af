"""Advice for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from foretell.decide.plan.text import number_text, option_text, percent
from foretell.spaces.quantities import TIME, write_quantity

if TYPE_CHECKING:
    from foretell.decide.advise.next_run import Advice, Proposal


def advice_text(advice: Advice) -> str:
    """Write advice: the run first, then what it decides, and what is left."""
    lines = [_run(advice, proposal) for proposal in advice.proposals]
    if not lines:
        lines = [_no_run(advice)]
    lines.append(f"  {_planned(advice)}")
    if advice.proposals:
        lines.append(f"  {_left(advice)}")
    if advice.n_too_long:
        many = "run is" if advice.n_too_long == 1 else "runs are"
        lines.append(
            f"  {advice.n_too_long} {many} not proposed: killed at the time limit before, or sure "
            "to be."
        )
    return "\n".join(lines)


def _run(advice: Advice, proposal: Proposal) -> str:
    first = proposal is advice.proposals[0]
    settings = settings_text(advice, proposal.configuration)
    text = f"Run {settings} next" if first else f"Then {settings}"
    text += f" (about {_cost(advice, proposal)}): "
    if advice.is_target:
        return f"{text}it narrows the interval of the prediction by about {percent(proposal.gain)}."
    if proposal.checks:
        plan = "the plan" if advice.plan.chosen else "the closest configuration"
        what = {"plan": f"{plan} itself", "change": f"one change of {plan}"}
        return f"{text}{what[proposal.checks]}, never run so far. No other run is worth its cost."
    if proposal.instead is not None and advice.plan.chosen is not None:
        one, other = _difference(advice.plan.chosen.configuration, proposal.instead)
        text += f"it decides between {one} and {other}, and "
    else:
        text += "it "
    return (
        f"{text}changes the plan with {percent(proposal.chance)}; the plan gets better by "
        f"{percent(proposal.gain)} on average."
    )


def _cost(advice: Advice, proposal: Proposal) -> str:
    figures = [write_quantity(proposal.cost, advice.budget.kind, advice.plan.currency)]
    if advice.budget.kind != TIME and math.isfinite(proposal.time_s):
        figures.append(write_quantity(proposal.time_s, TIME))
    return ", ".join(figures)


def settings_text(advice: Advice, configuration: Mapping[str, Any]) -> str:
    """Write what is chosen, and what differs from the job that is planned."""
    planned = advice.plan.chosen or advice.plan.closest
    base = {} if planned is None else planned.configuration
    names = [n for n, v in configuration.items() if n in advice.plan.varied or base.get(n) != v]
    return ", ".join(f"{name}={number_text(configuration[name])}" for name in names)


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, str]:
    names = [name for name in one if one[name] != other.get(name)]
    found = [", ".join(f"{n}={number_text(c[n])}" for n in names) for c in (one, other)]
    return found[0], found[1]


def _no_run(advice: Advice) -> str:
    share = percent(advice.least_chance)
    runs = f"Of {advice.n_runs} runs looked at"
    if advice.n_unaffordable:
        runs += f", {advice.n_runs - advice.n_unaffordable} of them within the budget"
    if advice.is_target:
        return f"{runs}, none narrows the interval of the prediction by more than {share}."
    can = "change the plan" if advice.plan.chosen else "lead to a plan that keeps the limits"
    return f"No more runs: no affordable run can {can} with more than {share}. {runs}."


def _planned(advice: Advice) -> str:
    found = advice.plan.chosen or advice.plan.closest
    if found is None:
        return "There is no plan yet."
    if advice.is_target:
        return f"Predicted now: {option_text(advice.plan, found)}."
    word = "Planned now" if advice.plan.chosen is not None else "No plan keeps the limits; closest"
    return f"{word}: {option_text(advice.plan, found)}."


def _left(advice: Advice) -> str:
    after = "After it" if len(advice.proposals) == 1 else "After them"
    left = advice.budget.most - advice.cost
    within = ""
    if math.isfinite(left):
        amount = write_quantity(max(left, 0.0), advice.budget.kind, advice.plan.currency)
        within = f" within the {amount} that are left"
    share = percent(advice.least_chance)
    if advice.left_gain <= 0:
        does = "narrow the interval by" if advice.is_target else "change the plan with"
        return f"{after}, no run{within} would {does} more than {share}."
    if advice.is_target:
        share = percent(advice.left_gain)
        return f"{after}, another run{within} could narrow the interval by {share}."
    return f"{after}, another run{within} could change the plan with {percent(advice.left_chance)}."


def advice_json(advice: Advice) -> dict[str, Any]:
    """Return advice as plain values, in base units."""
    return {
        "runs": [
            {
                "configuration": p.configuration,
                "cost": p.cost,
                "time_s": p.time_s if math.isfinite(p.time_s) else None,
                "chance": p.chance,
                "gain": p.gain,
                "instead": p.instead,
                "checks": p.checks or None,
            }
            for p in advice.proposals
        ],
        "is_done": not advice.proposals,
        "budget": {
            "kind": advice.budget.kind,
            "most": advice.budget.most if math.isfinite(advice.budget.most) else None,
        },
        "least_chance": advice.least_chance,
        "best_chance": advice.best_chance,
        "left_chance": advice.left_chance,
        "n_runs": advice.n_runs,
        "n_unaffordable": advice.n_unaffordable,
        "n_too_long": advice.n_too_long,
        "is_target": advice.is_target,
        "plan": advice.plan.to_json(),
        "text": advice_text(advice),
    }
