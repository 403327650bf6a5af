"""Plans for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from foretell.decide.question.objective import LIMITS
from foretell.errors import Option
from foretell.predictor import TRUST_FAR, TRUST_INSIDE, TRUST_UNKNOWN
from foretell.spaces.quantities import COST, ENERGY, POWER, TIME, write_quantity
from foretell.wording import rough_percent

if TYPE_CHECKING:
    from foretell.decide.plan.answer import Candidate, PassedOver, Plan

#: Writes an option in the way of Python, of the command line or of HTTP.
Write = Callable[[Option], str]

_MOST_CERTAIN = 0.99
_WORDS = {
    "deadline": "done within", "budget": "within the budget of", "max_energy": "below",
    "max_carbon": "below", "max_memory": "below", "max_power": "below",
}  # fmt: skip


def plan_text(plan: Plan, write: Write = str) -> str:
    """Write a plan: the answer first, then its reasons."""
    if plan.chosen is None:
        return "\n".join(_refusal(plan, write))
    lines = []
    if plan.chosen.trust in {TRUST_FAR, TRUST_UNKNOWN}:
        where = f"Far outside the data ({plan.chosen.outside})"
        lines.append(f"{where}: no run was made near there. Measure first.")
    lines.append(f"Use {_settings(plan, plan.chosen)}: {_figures(plan, plan.chosen)}.")
    lines += _others(plan, plan.chosen)
    lines += _limits(plan)
    for other in plan.runners_up:
        figures = ", ".join(_amount(plan, other, kind) for kind in _main_kinds(plan, other))
        lines.append(f"  instead: {_settings(plan, other)}: {figures}; {_why(plan, other)}")
    lines += _certainties(plan)
    lines += _ground(plan, write)
    return "\n".join(lines)


def candidate_text(plan: Plan, found: Candidate) -> str:
    """Write a configuration, and what is predicted for it."""
    return f"{_settings(plan, found)}: {_figures(plan, found)}"


def _settings(plan: Plan, found: Candidate) -> str:
    return settings_text(found.configuration, plan.varied)


def settings_text(configuration: Mapping[str, Any], names: Iterable[str]) -> str:
    """Write some settings of a configuration."""
    return ", ".join(f"{name}={number_text(configuration[name])}" for name in names)


def number_text(value: Any) -> str:
    """Write the value of a setting."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _figures(plan: Plan, found: Candidate) -> str:
    """Write the time and the objective, with intervals."""
    return ", ".join(_figure(plan, found, kind) for kind in _main_kinds(plan, found))


def _main_kinds(plan: Plan, found: Candidate) -> list[str]:
    return [kind for kind in dict.fromkeys((TIME, plan.minimize)) if kind in found.estimates]


def _amount(plan: Plan, found: Candidate, kind: str) -> str:
    return write_quantity(found.estimates[kind].value, kind, plan.currency)


def _figure(plan: Plan, found: Candidate, kind: str) -> str:
    estimate = found.estimates[kind]
    details = []
    if math.isfinite(estimate.lower):
        ends = (estimate.lower, estimate.upper)
        details.append(" – ".join(write_quantity(e, kind, plan.currency) for e in ends))
    if kind == TIME and (start_up_s := found.start_up.get(TIME)):
        parts = (start_up_s, max(estimate.value - start_up_s, 0.0))
        details.append(f"start-up {' + '.join(write_quantity(p, TIME) for p in parts)}")
    text = _amount(plan, found, kind)
    return f"{text} ({'; '.join(details)})" if details else text


def _others(plan: Plan, found: Candidate) -> list[str]:
    """Write the other quantities, and where energy comes from."""
    others = [k for k in found.estimates if k not in {TIME, plan.minimize, POWER}]
    texts = [f"{kind} {_figure(plan, found, kind)}" for kind in others]
    if plan.has_estimated_energy and ENERGY in found.estimates:
        texts.append("energy is estimated from power_w")
    return [f"  {', '.join(texts)}"] if texts else []


def _limits(plan: Plan) -> list[str]:
    assert plan.chosen is not None
    lines = []
    for word, share in plan.chosen.certainties.items():
        limit = write_quantity(plan.question.limits[word], LIMITS[word], plan.currency)
        margin = plan.chosen.margins[word]
        is_binding = word in plan.binding
        less = f"; without this limit, less {plan.minimize} is possible" if is_binding else ""
        lines.append(
            f"  {_WORDS[word]} {limit} with {certainty_text(share)}: "
            f"{rough_percent(margin)} to spare at {_asked(plan)} confidence{less}"
        )
    return lines


def _why(plan: Plan, other: Candidate) -> str:
    """Say why a configuration lost."""
    assert plan.chosen is not None
    best, value = (o.estimates[plan.minimize].value for o in (plan.chosen, other))
    more = value - best
    is_less = more < -1e-9 * best
    if any(margin < 0 for margin in other.margins.values()):
        less = write_quantity(max(-more, 0.0), plan.minimize, plan.currency)
        return f"{less} less, but its chance is {certainty_text(other.certainty)}"
    if is_less:
        less = write_quantity(-more, plan.minimize, plan.currency)
        return f"{less} less, but {_doubt(plan, plan.chosen, other)}"
    if more <= 1e-9 * best:
        lost = f"the same {plan.minimize}"
        slower = other.estimates.get(TIME)
        if slower is not None and slower.value > plan.chosen.estimates[TIME].value:
            lost += ", but slower"
    else:
        share = more / best if best > 0 else math.inf
        lost = f"{write_quantity(more, plan.minimize, plan.currency)} more ({rough_percent(share)})"
    if plan.question.limits:
        lost += f", {certainty_text(other.certainty)} sure"
    return lost


def _certainties(plan: Plan) -> list[str]:
    """Say what more certainty costs: one line per configuration, not per probability."""
    if len(plan.by_certainty) < 2 or not plan.question.limits:
        return []
    lines = ["  how sure:"]
    base = None
    for shares, found in _alike(plan.by_certainty):
        told = f"{100 * shares[0]:g} %"
        told += f" to {100 * shares[-1]:g} %" if len(shares) > 1 else ""
        if found is None:
            text = "no configuration meets the limits with this probability"
        else:
            value = found.estimates[plan.minimize].value
            base = value if base is None else base
            text = f"{_settings(plan, found)}: {_amount(plan, found, plan.minimize)}"
            text += f" (+{rough_percent(value / base - 1)})" if value > base * (1 + 1e-9) else ""
        text += "   ← asked for" if plan.question.confidence in shares else ""
        lines.append(f"    {told:<12}  {text}")
    return lines


def _alike(
    by_certainty: dict[float, Candidate | None],
) -> list[tuple[list[float], Candidate | None]]:
    """Put neighboring probabilities with the same configuration together."""
    groups: list[tuple[list[float], Candidate | None]] = []
    for share, found in by_certainty.items():
        settings = found and found.configuration
        if groups and settings == (groups[-1][1] and groups[-1][1].configuration):
            groups[-1][0].append(share)
        else:
            groups.append(([share], found))
    return groups


def _ground(plan: Plan, write: Write) -> list[str]:
    """Say what the plan is based on."""
    assert plan.chosen is not None
    if plan.chosen.trust == TRUST_INSIDE:
        ground = "Inside the measured range on every column"
    else:
        ground = f"{plan.chosen.trust.capitalize()}: {plan.chosen.outside}"
    error = plan.chosen.expected_error
    if math.isfinite(error):
        ground += f"; predictions there were about {rough_percent(error)} off"
    seen = f"{plan.n_seen:,} configurations"
    how = f"The best of all {seen}"
    if plan.is_searched:
        how = f"The best that a search of {seen} found"
    elif plan.n_seen == 1:
        how = "The only configuration"
    lines = [f"  {ground}. {how}."]
    if plan.passed_over is not None:
        lines.append(f"  {_passed_over(plan, plan.passed_over, write)}")
    if plan.far is not None:
        lines.append(f"  {_far(plan, write)}")
    return lines


def _passed_over(plan: Plan, found: PassedOver, write: Write) -> str:
    """Say what looks better but is too uncertain, and what a run of it would settle."""
    assert plan.chosen is not None
    other = found.candidate
    where = _where(other) + (f" ({other.outside})" if other.outside else "")
    return (
        f"Passed over: {candidate_text(plan, other)}, {where}. "
        f"It is better than {_amount(plan, plan.chosen, plan.minimize)} with "
        f"{certainty_text(found.chance)}, and one run of it would settle that. "
        f"{_gamble(plan, other, write)} compares predictions."
    )


def _gamble(plan: Plan, doubtful: Candidate, write: Write) -> str:
    """Name the options with which a prediction alone decides."""
    options = [Option("risk", "even")]
    if doubtful.trust == TRUST_FAR and not plan.question.allow_far:
        options.insert(0, Option("allow_far"))
    return " with ".join(map(write, options))


def _doubt(plan: Plan, chosen: Candidate, other: Candidate) -> str:
    """Say why a configuration with a better prediction was not chosen."""
    if math.isinf(other.score):
        return f"without an interval: {_where(other)}"
    if other.score > other.estimates[plan.minimize].value:
        return f"up to {write_quantity(other.score, plan.minimize, plan.currency)}: {_where(other)}"
    least = write_quantity(chosen.score, plan.minimize, plan.currency)
    return f"{_settings(plan, chosen)} may be as low as {least}"


def _where(doubtful: Candidate) -> str:
    return "never run" if doubtful.trust == TRUST_INSIDE else "outside the data"


def _far(plan: Plan, write: Write) -> str:
    assert plan.far is not None
    return (
        f"{plan.n_far:,} configurations were not considered: nothing supports an interval so far "
        f"outside the data. The best is {_settings(plan, plan.far)}: "
        f"{_figure(plan, plan.far, plan.minimize)} ({plan.far.outside}). "
        f"{write(Option('allow_far'))} considers them."
    )


def _refusal(plan: Plan, write: Write) -> list[str]:
    asked = _asked(plan)
    lines = [_headline(plan, write)]
    closest = plan.closest
    if closest is not None:
        lines.append(f"  closest: {_settings(plan, closest)}: {_figures(plan, closest)}")
        for word, margin in closest.margins.items():
            limit = write_quantity(plan.question.limits[word], LIMITS[word], plan.currency)
            state = f"{rough_percent(abs(margin))} {'over' if margin < 0 else 'to spare'}"
            lines.append(
                f"    {write(Option(word))} {limit}: {state} at {asked} confidence; it holds with "
                f"a probability of {certainty_text(closest.certainties[word])}"
            )
    for share, found in plan.by_certainty.items():
        if found is not None and share < plan.question.confidence:
            confidence = write(Option("confidence", f"{share:g}"))
            lines.append(f"  with {confidence}: {_settings(plan, found)}")
    if plan.far is not None:
        lines.append(f"  {_far(plan, write)}")
    return lines


def _headline(plan: Plan, write: Write) -> str:
    """Say that nothing can be chosen, and why."""
    looked = f" A search looked at {plan.n_seen:,} of very many." if plan.is_searched else ""
    if not plan.binding:
        return f"Every configuration lies far outside the data.{looked}"
    words = " and ".join(write(Option(word)) for word in plan.binding)
    are = "are" if len(plan.binding) > 1 else "is"
    found = "was found that meets" if plan.is_searched else "meets"
    return (
        f"No configuration {found} the limits with {_asked(plan)} confidence: {words} {are} too "
        f"tight.{looked}"
    )


def _asked(plan: Plan) -> str:
    return f"{100 * plan.question.confidence:g} %"


def certainty_text(share: float) -> str:
    """Write the probability that a limit holds, which is known between 1 % and 99 %."""
    if share >= _MOST_CERTAIN:
        return "99 % or more"
    return f"{100 * share:.0f} %" if share > 0 else "less than 1 %"


def plan_json(plan: Plan, write: Write) -> dict[str, Any]:
    """Return a plan as plain values, in base units."""
    found = plan.chosen or plan.closest
    values: dict[str, Any] = finite(
        {
            "minimize": plan.minimize,
            "currency": plan.currency if found and COST in found.estimates else None,
            "limits": dict(plan.question.limits),
            "confidence": plan.question.confidence,
            "risk": plan.question.risk,
            "chosen": plan.chosen and asdict(plan.chosen),
            "closest": plan.closest and asdict(plan.closest),
            "runners_up": [asdict(c) for c in plan.runners_up],
            "by_certainty": {f"{p:g}": c and asdict(c) for p, c in plan.by_certainty.items()},
            "binding": plan.binding,
            "passed_over": plan.passed_over and asdict(plan.passed_over),
            "far": plan.far and asdict(plan.far),
            "n_configurations": plan.n_seen,
            "n_far": plan.n_far,
            "is_searched": plan.is_searched,
            "has_estimated_energy": plan.has_estimated_energy,
            "text": plan_text(plan, write),
        }
    )
    return values


def finite(value: Any) -> Any:
    """Replace numbers that JSON cannot write by None, at any depth."""
    if isinstance(value, dict):
        return {str(name): finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
