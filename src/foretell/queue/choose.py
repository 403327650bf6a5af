"""Choosing what to drop and when to sprint, for users: the plan, its reasons, and today's queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from foretell.decide.queueing.assess import (
    Assessed,
    Assessor,
    ByQuantiles,
    Evaluator,
    Plan,
    UnluckyRun,
)
from foretell.decide.queueing.choose import (
    MOST_PLANS,
    RUN_LENGTH,
    Assessors,
    Choice,
    choose_plan,
)
from foretell.decide.queueing.evaluate import PLANNED, ByEither, ByFormula
from foretell.decide.queueing.job_class import JobClass
from foretell.decide.queueing.marked.disciplines import has_formulas
from foretell.decide.queueing.predict import QueueFigures, queue_figures
from foretell.decide.queueing.queue_file import NO_SPRINT, Queue, read_queue
from foretell.decide.queueing.service._base import ServiceTime
from foretell.decide.queueing.service.scaled import Scaled
from foretell.decide.queueing.stability import OverloadError, stable_discipline
from foretell.decide.queueing.streams import Stream
from foretell.decide.queueing.times import Known, class_time, sprinted
from foretell.errors import Option, UsageError
from foretell.queue.played_plans import ByRuns, BySimulation, WithBucket
from foretell.queue.services import known_times

EVICTING = "repeat"


@dataclass(frozen=True)
class Changed:
    """How many times as often the jobs of a class come, and as long they take, as the file says."""

    rate: float = 1.0
    time: float = 1.0


Changes = Mapping[str, Changed]
#: Plans that are tried where each is a simulation, and how many jobs these have.
_MOST_PLAYED, _JOBS_PLAYED, _JOBS_CHECKED = 60, 10_000, 50_000
#: Runs by which the best plan is checked, and by which it is seen how much more load it bears:
#: with fewer, or others, it might seem to bear less than what it was chosen for.
_RUNS_CHECKED = 150


@dataclass(frozen=True, eq=False)
class Today:
    """What happens with evictions: today, or instead of the plan.

    Attributes
    ----------
    is_of_file
        Whether the file says that jobs are evicted; otherwise this is what would happen.
    figures
        None where the queue grows without limit, or there are no formulas for its arrivals.
    trouble
        Why there are no figures.
    is_endless
        Whether that is because the queue grows without limit.
    streams
        The classes with their rates and times.
    """

    discipline: str
    is_of_file: bool
    streams: tuple[Stream, ...]
    figures: QueueFigures | None
    trouble: str = ""
    is_endless: bool = False


@dataclass(frozen=True, eq=False)
class QueueChoice:
    """The plan of a queue, with its reasons.

    Attributes
    ----------
    choice
        All plans that were tried, and the chosen one, if any keeps all limits.
    today
        The same queue with evictions.
    run_length
        Of runs with so many jobs, nine in ten should keep the limits.
    is_simulated
        Whether the figures of the chosen plan are simulated.
    """

    queue: Queue
    choice: Choice
    today: Today
    run_length: int
    seed: int
    is_simulated: bool
    notes: tuple[str, ...]

    @property
    def chosen(self) -> Assessed | None:
        """The chosen plan; None if none keeps all limits."""
        return self.choice.chosen

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        from foretell.queue.choice_json import choice_json

        return choice_json(self)

    def __str__(self) -> str:
        from foretell.queue.choice_text import choice_text

        return choice_text(self)


def choose_drops(
    classes: Path | str | Mapping[str, Any] | Queue,
    *,
    run_length: int = RUN_LENGTH,
    seed: int = 0,
    changes: Changes | None = None,
) -> QueueChoice:
    """Choose how much to drop of each class and after how long it sprints.

    Parameters
    ----------
    classes
        A class file, or a dict of its shape, with limits: ``max_error``, ``mean_s``, ``p95_s``.
    run_length
        Limits should hold in nine of ten runs of this many jobs.
    seed
        Decides simulations: of the runs that check plans, and of plans for which no formulas are
        known, or only slow ones, because a bucket limits sprints or arrivals come in bursts.
    changes
        What has changed since the file was written, by class; rates of Poisson arrivals alone.

    >>> from foretell import choose_drops
    >>> plan = choose_drops("classes.toml")          # doctest: +SKIP
    >>> plan.chosen.options[0].drop                  # doctest: +SKIP
    0.2
    """
    queue = read_queue(classes)
    if run_length < 10:
        raise UsageError(f"must be at least 10, not {run_length}", option=Option("run_length"))
    if seed < 0:
        raise UsageError(f"must be at least 0, not {seed}", option=Option("seed"))
    changes = changes or {}
    is_poisson = queue.arrivals.kind == "poisson"
    if is_poisson:
        queue = _with_rates(queue, changes)
    known = known_times(queue)
    service_of = partial(_service, queue, known.by_class, changes)
    assessors, is_played = _assessors(queue, seed, run_length, is_poisson=is_poisson)
    choice = choose_plan(
        queue,
        service_of,
        assessors,
        most_plans=MOST_PLANS if is_poisson else _MOST_PLAYED,
    )
    chosen = choice.chosen
    is_simulated = chosen is not None and is_played(chosen.options)
    today = _today(queue, service_of)
    notes = (*known.notes, *_notes(queue, choice))
    return QueueChoice(queue, choice, today, run_length, seed, is_simulated, notes)


def _assessors(
    queue: Queue, seed: int, run_length: int, *, is_poisson: bool
) -> tuple[Assessors, Callable[[Plan], bool]]:
    """Return who says what plans come to, and which plans are played rather than computed.

    Formulas for bursts are exact, but slow: many plans are compared by short simulations.
    """
    few, some = (
        BySimulation(queue, n_jobs=n_jobs, seed=seed) for n_jobs in (_JOBS_PLAYED, _JOBS_CHECKED)
    )
    many: Evaluator = ByEither(ByFormula(few)) if is_poisson else few
    has_exact = is_poisson or has_formulas(PLANNED, (), queue.arrivals.matrices())
    exact = WithBucket(
        ByFormula(some, queue.arrivals) if has_exact else some,
        some,
        has_budget=not has_exact or queue.sprint.budget_j is not None,
    )
    unlucky = UnluckyRun(run_length)
    checked = ByRuns(queue, some, run_length, n_runs=_RUNS_CHECKED)
    assessors = Assessors(
        Assessor(queue, many, ByQuantiles(queue, many, unlucky), unlucky),
        Assessor(queue, exact, checked, unlucky),
        Assessor(queue, None, checked, unlucky),
    )
    return assessors, lambda plan: not has_exact or exact.is_simulated(plan)


def _with_rates(queue: Queue, changes: Changes) -> Queue:
    """Return the queue with the rates of now."""
    classes = [
        c.model_copy(
            update={"per_s": c.rate_per_s * changes[c.name].rate, "per_min": None, "per_h": None}
        )
        if c.name in changes
        else c
        for c in queue.classes
    ]
    return queue.model_copy(update={"classes": classes})


def _service(
    queue: Queue, known: Known, changes: Changes, job: JobClass, drop: float | None
) -> ServiceTime:
    time, factor = class_time(queue, job, known, drop), changes.get(job.name, Changed()).time
    return time if factor == 1 else Scaled(time, factor)


def _today(queue: Queue, service_of: Callable[[JobClass, float | None], ServiceTime]) -> Today:
    """Return the queue of the file with evictions; with all tasks, if the file has none."""
    is_of_file = queue.discipline != PLANNED
    discipline = queue.discipline if is_of_file else EVICTING
    if is_of_file:
        times = [sprinted(queue, service_of(c, None), c.sprint_after_s) for c in queue.classes]
    else:
        times = [service_of(c, 0.0 if c.has_tasks else None) for c in queue.classes]
    streams = tuple(
        Stream(c.name, c.rate_per_s, time, c.evict_s)
        for c, time in zip(queue.classes, times, strict=True)
    )
    today = Today(discipline, is_of_file, streams, None)
    matrices = queue.arrivals.matrices()
    if matrices and not has_formulas(discipline, streams, matrices):
        return replace(today, trouble="no formulas are known for these arrivals")
    try:
        figures = queue_figures(discipline, streams, queue.sprint, matrices)
        return replace(today, figures=figures)
    except OverloadError as error:
        return replace(today, trouble=error.text, is_endless=True)


def _notes(queue: Queue, choice: Choice) -> list[str]:
    notes = [
        f"Nothing of '{c.name}' can be dropped: {choice.steps[c.name].reason}."
        for c in queue.classes
        if choice.steps[c.name].reason
    ]
    if queue.sprint.speedup > 1 and queue.sprint.base_w is None:
        notes.append("The power of the engine is not given, so that sprints seem to cost nothing.")
    if not choice.is_all_tried:
        changes = "the best one, changed in one or two classes,"
        notes.append(
            f"There are {choice.n_plans:,} plans, of which {len(choice.tried):,} were tried: an "
            f"even selection, and {changes} "
            + ("until no change was better." if choice.is_settled else "but not in all ways.")
        )
    if choice.closest is not None:
        notes += _overload(queue, choice.closest)
    if queue.discipline != PLANNED and choice.chosen is not None:
        notes.append(
            f'The plan is for discipline = "{PLANNED}"; the file has "{queue.discipline}".'
        )
    options = () if choice.chosen is None else choice.chosen.options
    if queue.sprint.mechanism == NO_SPRINT and any(option.sprints for option in options):
        notes.append(
            f'The plan sprints, and mechanism under [sprint] is "{NO_SPRINT}": until another '
            'is written, such as "quota", jobs run without sprints.'
        )
    limits = [x for c in queue.classes for x in (c.mean_s, c.p95_s) if x is not None]
    if not limits:
        notes.append("No class has a limit of its response time (mean_s, p95_s).")
    return notes


def _overload(queue: Queue, closest: Assessed) -> list[str]:
    """Name the classes and the largest rates where even the closest plan is too much work."""
    streams = [
        Stream(c.name, c.rate_per_s, option.service)
        for c, option in zip(queue.classes, closest.options, strict=True)
    ]
    try:
        stable_discipline(PLANNED, streams)
    except OverloadError as error:
        return [f"Even the closest plan is too much work: {error.text}."]
    return []
