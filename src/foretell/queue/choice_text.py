"""The choice of a plan for people: what to do, what it comes to, and why not otherwise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from foretell.decide.queueing.assess import (
    ERROR,
    LOAD,
    MEAN,
    P95,
    RUNS,
    Assessed,
    Limit,
    seconds_text,
)
from foretell.decide.queueing.choose import Headroom
from foretell.decide.queueing.predict import ClassFigures
from foretell.queue.choose import QueueChoice, Today
from foretell.wording import counted, number, percent, plain

_MOST_NEAR = 3


def choice_text(found: QueueChoice) -> str:
    """Write the plan and its reasons, or why there is none."""
    plan = found.chosen or found.choice.closest
    assert plan is not None
    lines = [headline(found)]
    if plan.responses:
        lines += aligned([header(found), *class_rows(found, plan)])
    lines += [line for line in (gain_line(found), binding_line(found), luck_line(found)) if line]
    lines += [tried_line(found), *(f"  {line}" for line in near_lines(found))]
    return "\n".join([*lines, *found.notes])


def headline(found: QueueChoice) -> str:
    """Say what to do in one sentence."""
    chosen = found.chosen
    if chosen is not None:
        return instruction(found, chosen)
    closest = found.choice.closest
    assert closest is not None
    none = "No plan keeps all limits."
    if not found.choice.is_all_checked:
        none = f"None of the {found.choice.n_checked} best plans keeps all limits."
    broken = "; ".join(map(str, closest.violations))
    return f"{none} The closest: {_lower(instruction(found, closest))}\nIt breaks: {broken}."


def instruction(found: QueueChoice, plan: Assessed) -> str:
    """Write what a plan does.

    The lowest class comes first, as it is the one that is dropped from.
    """
    pairs = list(zip(found.queue.classes, plan.options, strict=True))
    drops = [(f"'{plain(c.name)}'", o.drop) for c, o in pairs]
    sprints = [(f"'{plain(c.name)}'", o.sprint_after_s) for c, o in pairs if o.sprints]
    if any(drop for _, drop in drops):
        kept = [name for name, drop in drops if not drop]
        parts = [f"{percent_text(drop)} of {name}" for name, drop in drops if drop]
        parts += [f"nothing of {' and '.join(kept)}"] if kept else []
        told = f"Drop {', '.join(parts)}"
    else:
        told = "Drop nothing"
    if not sprints:
        return f"{told}; no sprints."
    return f"{told}; sprint {', '.join(f'{n} {when(after)}' for n, after in sprints)}."


def percent_text(share: float) -> str:
    """Write a ratio that was chosen, not measured: as short as it is.

    >>> percent_text(0.2), percent_text(1 / 3)
    ('20 %', '33.3 %')
    """
    return f"{100 * share:.3g} %"


def when(after_s: float) -> str:
    """Write when a sprint begins."""
    if math.isinf(after_s):
        return "never"
    return f"after {number(after_s, 3)} s" if after_s > 0 else "at once"


def header(found: QueueChoice) -> tuple[str, ...]:
    """Name the columns."""
    today = "now (evicting)" if found.today.is_of_file else "with evictions"
    return ("class", "mean", "p95", "error", "limits", today)


def class_rows(found: QueueChoice, plan: Assessed) -> list[tuple[str, ...]]:
    """Return one row of cells per class, the highest first."""
    rows: list[tuple[str, ...]] = []
    figures = found.today.figures
    for k in reversed(range(len(plan.options))):
        name, response = found.queue.classes[k].name, plan.responses[k]
        rows.append(
            (
                plain(name),
                seconds_text(response.mean_s),
                seconds_text(response.p95_s),
                percent(plan.options[k].error) if plan.options[k].error else "0",
                limits_text(plan, name),
                today_cell(found.today) if figures is None else _today_cell(figures.classes[k]),
            )
        )
    return rows


def limits_text(plan: Assessed, name: str) -> str:
    """Say which limits of a class hold."""
    own = [x for x in plan.limits if x.name == name and x.what in (MEAN, P95, ERROR)]
    parts = [
        f"{limit.what} {limit.written(limit.most)}: "
        + ("holds" if limit.is_kept else f"breaks ({limit.outcome})")
        for limit in own
    ]
    return ", ".join(parts) or "none"


def today_cell(today: Today) -> str:
    """Say in a cell why there are no figures."""
    return "no end" if today.is_endless else "not known"


def _today_cell(figures: ClassFigures) -> str:
    return f"{seconds_text(figures.mean_s)}, p95 {seconds_text(figures.p95_s)}"


def gain_line(found: QueueChoice) -> str:
    """Say what is no longer wasted, and what changes in energy."""
    plan, today = found.chosen, found.today
    if plan is None:
        return ""
    word = "now" if today.is_of_file else "with evictions"
    if today.figures is None:
        return f"No work is thrown away. {word.capitalize()}: {today.trouble}."
    told = f"No work is thrown away ({word} {percent(today.figures.waste)})."
    energy = today.figures.energy
    if energy is None or not energy.busy_w:
        return told
    busy = plan.power.busy_w / energy.busy_w - 1
    total = plan.power.total_w / energy.total_w - 1
    changes = f"{100 * busy:+.0f} %, with idle time {100 * total:+.0f} %"
    return f"{told} Energy for jobs {changes} (modelled)."


def binding_line(found: QueueChoice) -> str:
    """Say which limits keep from a better plan, and how much more load breaks which."""
    choice = found.choice
    told = []
    if choice.binding:
        told.append(f"Limits that keep from a better plan: {', '.join(choice.binding)}.")
    elif choice.is_all_tried and choice.chosen is not None:
        told.append("No limit keeps from a better plan.")
    if choice.headroom is not None and choice.headroom.breaks is not None:
        told.append(load_text(choice.headroom))
    return " ".join(told)


def load_text(headroom: Headroom) -> str:
    """Say how much more load a plan bears, and what breaks beyond.

    >>> load_text(Headroom(1.103, Limit("p95", "low", 5.0, 4.0)))
    "10 % more load breaks p95 of 'low'."
    >>> load_text(Headroom(2.94, Limit("load", "", 0.98, 0.97)))
    'It holds up to 2.9 times the load.'
    """
    factor, broken = headroom.factor, headroom.breaks
    more = math.floor(100 * (factor - 1) + 1e-9)
    label = "" if broken is None or broken.what == LOAD else broken.label
    if more < 1:
        return f"Any more load breaks {label}." if label else "It bears no more load."
    if label and factor < 2:
        return f"{more} % more load breaks {label}."
    digits = 10 if factor >= 2 else 100
    held = f"It holds up to {math.floor(digits * factor + 1e-9) / digits:g} times the load"
    return f"{held}; then {label} breaks." if label else f"{held}."


def luck_line(found: QueueChoice) -> str:
    """Say how sure limits of response times are."""
    chosen = found.chosen
    if chosen is None or all(limit.what not in (MEAN, P95) for limit in chosen.limits):
        return ""
    broken = next((limit.value for limit in chosen.limits if limit.what == RUNS), 0.0)
    return (
        f"All limits hold in {100 * (1 - broken):.0f} % of simulated runs of "
        f"{found.run_length:,} jobs."
    )


def tried_line(found: QueueChoice) -> str:
    """Count plans, and what the others break."""
    choice = found.choice
    broken = [plan for plan in choice.tried if not plan.is_kept]
    reasons = Counter(limit.label for plan in broken for limit in plan.violations)
    told = f"{counted(len(choice.tried), 'plan')} tried"
    if reasons:
        parts = [f"{label} ({n:,})" for label, n in reasons.most_common()]
        verb = "breaks" if len(broken) == 1 else "break"
        told += f", {len(broken):,} {verb} a limit: {', '.join(parts)}"
    return told + "."


def near_lines(found: QueueChoice) -> list[str]:
    """Tell of some choices next to the chosen one, and what they violate.

    Without a plan, those next to the closest one that errors alone forbid: they might be plans.
    """
    base = found.chosen or found.choice.closest
    assert base is not None
    lines = []
    for (name, steps), option in zip(found.choice.steps.items(), base.options, strict=True):
        if steps.refused and option.drop >= steps.allowed[-1].drop:
            step = steps.refused[0]
            limit = Limit(ERROR, name, step.error, _error_limit(base, name))
            lines.append(f"Drop {percent_text(step.drop)} of '{plain(name)}': {limit}.")
    if found.chosen is None:
        return lines[:_MOST_NEAR]
    lines += [
        f"{instruction(found, plan)[:-1]}: {', '.join(map(str, plan.violations))}."
        for plan in _neighbors(found.choice.tried, base)
        if not plan.is_kept
    ]
    return lines[:_MOST_NEAR]


def _neighbors(tried: Sequence[Assessed], chosen: Assessed) -> list[Assessed]:
    """Return plans that differ in one setting only, the nearest first."""

    def distance(plan: Assessed) -> tuple[int, float]:
        pairs = list(zip(plan.options, chosen.options, strict=True))
        n_other = sum((p.drop != c.drop) + (p.sprint_after_s != c.sprint_after_s) for p, c in pairs)
        return n_other, sum(abs(p.mean_s - c.mean_s) for p, c in pairs)

    return [plan for plan in sorted(tried, key=distance) if distance(plan)[0] == 1]


def _error_limit(plan: Assessed, name: str) -> float:
    return next((x.most for x in plan.limits if x.what == ERROR and x.name == name), 0.0)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Write rows in columns; words are on the left, figures on the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i in (0, 4, 5) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
