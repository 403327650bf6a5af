"""Advice for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from foretell.decide.plan.text import Write, candidate_text, finite, settings_text
from foretell.spaces.quantities import TIME, write_quantity
from foretell.wording import rough_percent

if TYPE_CHECKING:
    from foretell.decide.advise.advice import Advice, Proposal
    from foretell.decide.plan.answer import Candidate


def advice_text(advice: Advice) -> str:
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
    text += f" (about {_cost(advice, proposal)}"
    if proposal.n_before:
        times = "once" if proposal.n_before == 1 else f"{proposal.n_before} times"
        text += f"; measured {times} before"
        if math.isfinite(advice.noise):
            text += f", repeats differ by about {rough_percent(advice.noise)}"
    text += "): "
    if advice.is_target:
        gain = rough_percent(proposal.gain)
        return f"{text}it narrows the interval of the prediction by about {gain}."
    if proposal.checks:
        plan = "the plan" if advice.plan.chosen else "the closest configuration"
        what = {"plan": f"{plan} itself", "change": f"one change of {plan}"}
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


def _cost(advice: Advice, proposal: Proposal) -> str:
    figures = [write_quantity(proposal.cost, advice.budget.kind, advice.plan.currency)]
    if advice.budget.kind != TIME and math.isfinite(proposal.time_s):
        figures.append(write_quantity(proposal.time_s, TIME))
    return ", ".join(figures)


def _settings(advice: Advice, configuration: Mapping[str, Any]) -> str:
    """Write the settings that are chosen, and those that differ from the planned job."""
    planned = advice.plan.chosen or advice.plan.closest
    base = {} if planned is None else planned.configuration
    names = [n for n, v in configuration.items() if n in advice.plan.varied or base.get(n) != v]
    return settings_text(configuration, names)


def _no_run(advice: Advice) -> str:
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
        return f"{after}, no run{within} has a chance above {share} of changing the plan."
    if advice.is_target:
        share = rough_percent(advice.left_gain)
        return f"{after}, another run{within} could narrow the interval by {share}."
    chance = rough_percent(advice.left_chance)
    return f"{after}, another run{within} has a {chance} chance of changing the plan."


def advice_json(advice: Advice, write: Write = str) -> dict[str, Any]:
    """Return advice as plain values, in base units."""
    values: dict[str, Any] = finite(
        {
            "runs": [{**asdict(p), "checks": p.checks or None} for p in advice.proposals],
            "is_done": not advice.proposals,
            "budget": asdict(advice.budget),
            "least_chance": advice.least_chance,
            "best_chance": advice.best_chance,
            "left_chance": advice.left_chance,
            "n_runs": advice.n_runs,
            "n_unaffordable": advice.n_unaffordable,
            "n_too_long": advice.n_too_long,
            "n_repeats": advice.n_repeats,
            "is_target": advice.is_target,
            "plan": advice.plan.to_json(write),
            "text": advice_text(advice),
        }
    )
    return values
