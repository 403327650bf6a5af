"""A job of tasks: what comes first, stages of tasks on slots, and what lies between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from foretell.decide.queueing.drop import kept_counts, kept_share
from foretell.decide.queueing.job_class import JobClass, StageTable
from foretell.decide.queueing.service.fitted import fitted_part
from foretell.decide.queueing.service.paths import Part, Path
from foretell.decide.queueing.service.phases import PhaseTime
from foretell.decide.queueing.service.scheduled import stage_moments

#: How tasks of one stage vary where a file does not say: by 22 %.
USUAL_SCV = 0.05


@dataclass(frozen=True)
class Stage:
    """Tasks that run side by side, and how long the job takes before them."""

    tasks: Mapping[int, float]
    task_s: float
    scv: float
    before_s: float = 0.0
    drop: float = 0.0


def job_time(job: JobClass, slots: int, drop: float | None = None) -> PhaseTime:
    """Return how long a job of tasks takes, if some of them are dropped.

    Parameters
    ----------
    drop
        The share to drop, instead of that of the class.
    """
    ratio = job.drop if drop is None else drop
    stages = list(_stages(job, ratio))
    first = stages[0]
    kept = kept_share(first.tasks, first.drop)
    parts = [*_exponential(job.overhead.at(kept))]
    for stage in stages:
        parts += [*_exponential(stage.before_s), _tasks_part(stage, slots)]
    return PhaseTime(tuple(parts))


def kept_by_stage(job: JobClass) -> list[float]:
    """Return the share of tasks that each stage keeps on average; none if it has no tasks."""
    stages = _stages(job, job.drop) if job.has_tasks else ()
    return [kept_share(stage.tasks, stage.drop) for stage in stages]


def _stages(job: JobClass, drop: float) -> Iterator[Stage]:
    """List the stages: those of the file, or equal map stages and then the reduce stage."""
    if isinstance(job.stages, list):
        yield from (_listed(table, drop) for table in job.stages)
        return
    assert job.tasks is not None
    assert job.map_s is not None
    scv = USUAL_SCV if job.map_scv is None else job.map_scv
    for i in range(job.stages):
        yield Stage(job.tasks, job.map_s, scv, job.shuffle_s if i else 0.0, drop)
    if job.reduce_tasks is not None and job.reduce_s is not None:
        scv = USUAL_SCV if job.reduce_scv is None else job.reduce_scv
        yield Stage(job.reduce_tasks, job.reduce_s, scv, job.shuffle_s)


def _listed(table: StageTable, drop: float) -> Stage:
    scv = USUAL_SCV if table.scv is None else table.scv
    own = drop if table.drop is None else table.drop
    return Stage(table.tasks, table.task_s, scv, table.before_s, own)


def _exponential(mean: float) -> list[Part]:
    return [(Path.of((1 / mean, 1)),)] if mean > 0 else []


def _tasks_part(stage: Stage, slots: int) -> Part:
    """Return the time of the tasks that are kept; exact where tasks are exponential."""
    counts = kept_counts(stage.tasks, stage.drop)
    if stage.scv == 1:
        return tuple(_exponential_tasks(n, slots, stage.task_s, p) for n, p in counts.items())
    found: list[Path] = []
    for n, share in counts.items():
        mean, scv = stage_moments(n, slots, stage.scv)
        found += fitted_part(mean * stage.task_s, scv, share)
    return tuple(found)


def _exponential_tasks(n: int, slots: int, task_s: float, share: float) -> Path:
    """Return n phases: while t tasks are left, one ends with the rate of min(t, slots) of them."""
    full = [(slots / task_s, n - slots)] if n > slots else []
    return Path.of(*full, *((t / task_s, 1) for t in range(min(n, slots), 0, -1)), share=share)
