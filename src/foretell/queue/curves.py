"""Curves around a choice: response times against load and against dropping, and by probability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foretell.decide.queueing.assess import Assessed, Evaluator, Plan, load_of
from foretell.decide.queueing.evaluate import PLANNED, ByMoments
from foretell.decide.queueing.options import Option, Spread
from foretell.decide.queueing.predict import queue_figures
from foretell.decide.queueing.stability import OverloadError
from foretell.queue.choose import QueueChoice
from foretell.queue.played_plans import BySimulation

Array = NDArray[np.float64]
_N_LOADS, _LEAST_LOAD, _MOST_LOAD = 12, 0.3, 0.95
_N_TIMES = 200
_JOBS_PLAYED = 40_000
#: How many jobs are played for each point of a curve, where arrivals are not Poisson.
JOBS_OF_A_POINT = 10_000


@dataclass(frozen=True, eq=False)
class Line:
    """Values along something; the class they belong to, and whether they are those of the plan."""

    name: str
    is_planned: bool
    at: Array
    values: Array


@dataclass(frozen=True, eq=False)
class DropCurve:
    """The p95 of all classes against how much of one is dropped, and up to where that may go."""

    name: str
    lines: tuple[Line, ...]
    most: float
    chosen: float


def shown_plan(found: QueueChoice) -> Assessed:
    """Return the plan that is shown: the chosen one, or else the closest."""
    plan = found.chosen or found.choice.closest
    assert plan is not None
    return plan


def against_load(found: QueueChoice) -> list[Line]:
    """Return the p95 of each class against the load of undropped jobs, with and without the plan.

    Sprints are taken to end with their jobs: a bucket that runs dry is not in these formulas.
    Where arrivals are not Poisson, the plan is simulated, and evictions are left out.
    """
    classes, plan = found.queue.classes, shown_plan(found).options
    rates, whole = np.array([c.rate_per_s for c in classes]), whole_load(found)
    loads = np.linspace(_LEAST_LOAD, _MOST_LOAD, _N_LOADS)
    planned = _planned_lines(found, plan, loads, rates / whole)
    return [*planned, *(_evicted_lines(found, loads, whole) if is_poisson(found) else [])]


def whole_load(found: QueueChoice) -> float:
    """Return the load of the jobs of a file if nothing is dropped and none sprints."""
    steps = found.choice.steps
    return sum(c.rate_per_s * steps[c.name].allowed[0].service.mean for c in found.queue.classes)


def is_poisson(found: QueueChoice) -> bool:
    """Whether arrivals are Poisson: curves of others are simulated, as their formulas are slow."""
    return found.queue.arrivals.kind == "poisson"


def _evaluator(found: QueueChoice) -> Evaluator:
    if is_poisson(found):
        return ByMoments()
    return BySimulation(found.queue, n_jobs=JOBS_OF_A_POINT, seed=found.seed)


def _planned_lines(found: QueueChoice, plan: Plan, loads: Array, per_load: Array) -> list[Line]:
    evaluator = _evaluator(found)
    values = []
    for load in loads:
        rates = (load * per_load).tolist()
        if load_of(rates, plan) >= 0.99:
            values.append([math.nan] * len(plan))
        else:
            values.append([r.p95_s for r in evaluator.responses(rates, [plan])[0]])
    return [
        Line(c.name, True, loads, np.array(of_class))
        for c, of_class in zip(found.queue.classes, zip(*values, strict=True), strict=True)
    ]


def _evicted_lines(found: QueueChoice, loads: Array, whole: float) -> list[Line]:
    values = []
    for load in loads:
        streams = [replace(s, rate_per_s=s.rate_per_s * load / whole) for s in found.today.streams]
        try:
            figures = queue_figures(found.today.discipline, streams)
        except OverloadError:
            values.append([math.inf] * len(streams))
        else:
            values.append([c.p95_s for c in figures.classes])
    return [
        Line(c.name, False, loads, np.array(of_class))
        for c, of_class in zip(found.queue.classes, zip(*values, strict=True), strict=True)
    ]


def against_drop(found: QueueChoice) -> list[DropCurve]:
    """Return, for each class that may be dropped from, the p95 of all classes against the ratio."""
    plan = shown_plan(found).options
    rates = [c.rate_per_s for c in found.queue.classes]
    curves = []
    for k, (name, steps) in enumerate(found.choice.steps.items()):
        every = [*steps.allowed, *steps.refused]
        if len(every) < 2:
            continue
        plans = [
            (*plan[:k], _dropping(plan[k], step.drop, Spread.of(step.service)), *plan[k + 1 :])
            for step in every
        ]
        lines = _p95_lines(found, rates, plans, np.array([step.drop for step in every]))
        curves.append(DropCurve(name, tuple(lines), steps.allowed[-1].drop, plan[k].drop))
    return curves


def _dropping(option: Option, drop: float, spread: Spread) -> Option:
    return Option(drop, option.error, option.sprint_after_s, option.speedup, spread)


def _p95_lines(
    found: QueueChoice, rates: Sequence[float], plans: Sequence[Plan], at: Array
) -> list[Line]:
    values = np.full((len(plans), len(rates)), math.nan)
    usable = [i for i, plan in enumerate(plans) if load_of(rates, plan) < 0.99]
    responses = _evaluator(found).responses(rates, [plans[i] for i in usable])
    for i, of_plan in zip(usable, responses, strict=True):
        values[i] = [r.p95_s for r in of_plan]
    return [Line(c.name, True, at, values[:, k]) for k, c in enumerate(found.queue.classes)]


def distributions(found: QueueChoice) -> list[Line]:
    """Return the share of jobs done by each time, simulated: with the plan, and with evictions.

    A class of which no job was played has no line.
    """
    player = BySimulation(found.queue, n_jobs=_JOBS_PLAYED, seed=found.seed)
    rates = [c.rate_per_s for c in found.queue.classes]
    plan = shown_plan(found)
    played = [(True, player.play(rates, plan.options, PLANNED))] if plan.load < 1 else []
    if found.today.figures is not None:
        options = [
            Option(0.0, 0.0, math.inf, 1.0, Spread.of(s.service)) for s in found.today.streams
        ]
        played.append((False, player.play(rates, tuple(options), found.today.discipline)))
    shares = np.linspace(0.0, 0.995, _N_TIMES)
    return [
        Line(name, is_planned, np.quantile(times, shares), shares)
        for is_planned, queue in played
        for name in queue.names
        if len(times := queue.responses_of(name))
    ]
