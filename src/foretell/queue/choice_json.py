"""The choice of a plan for programs: plain values."""

from __future__ import annotations

import math
from typing import Any

from foretell.decide.queueing.assess import Assessed
from foretell.queue.choose import QueueChoice, Today


def choice_json(found: QueueChoice) -> dict[str, Any]:
    """Return the chosen plan, the limits that bind, what others violate, the front, and today."""
    choice = found.choice
    headroom = choice.headroom
    return {
        "run_length": found.run_length,
        "label": "simulated" if found.is_simulated else "predicted",
        "chosen": _plan(found, choice.chosen),
        "closest": _plan(found, choice.closest),
        "binding": list(choice.binding),
        "headroom": None
        if headroom is None
        else {
            "load_factor": headroom.factor,
            "breaks": None if headroom.breaks is None else headroom.breaks.to_json(),
        },
        "today": _today(found.today),
        "front": [_plan(found, plan) for plan in choice.front],
        "refused_drops": {
            name: [{"drop": step.drop, "error": step.error} for step in steps.refused]
            for name, steps in choice.steps.items()
        },
        "rejected": [
            {"classes": _options(found, plan), "violates": [x.to_json() for x in plan.violations]}
            for plan in choice.tried
            if not plan.is_kept
        ],
        "n_plans": choice.n_plans,
        "n_tried": len(choice.tried),
        "n_checked": choice.n_checked,
        "notes": list(found.notes),
    }


def _plan(found: QueueChoice, plan: Assessed | None) -> dict[str, Any] | None:
    if plan is None:
        return None
    return {
        "classes": _options(found, plan),
        "limits": [limit.to_json() for limit in plan.limits],
        "latency_s": _known(plan.latency_s),
        "error": plan.error,
        "load": plan.load,
        "busy_w": plan.power.busy_w,
        "total_w": plan.power.total_w,
        "sprint_w": plan.power.sprint_w,
    }


def _options(found: QueueChoice, plan: Assessed) -> list[dict[str, Any]]:
    rows = []
    for k, (c, option) in enumerate(zip(found.queue.classes, plan.options, strict=True)):
        response = plan.responses[k] if plan.responses else None
        rows.append(
            {
                "class": c.name,
                "drop": option.drop,
                "sprint_after_s": _known(option.sprint_after_s),
                "error": option.error,
                "mean_s": None if response is None else _known(response.mean_s),
                "p95_s": None if response is None else _known(response.p95_s),
            }
        )
    return rows


def _today(today: Today) -> dict[str, Any]:
    figures = today.figures
    return {
        "discipline": today.discipline,
        "is_of_file": today.is_of_file,
        "trouble": today.trouble or None,
        "waste": None if figures is None else figures.waste,
        "load": None if figures is None else figures.load,
        "classes": []
        if figures is None
        else [
            {"class": c.name, "mean_s": _known(c.mean_s), "p95_s": _known(c.p95_s)}
            for c in figures.classes
        ],
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
