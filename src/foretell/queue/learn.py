"""From observed jobs to a class file: slots, rates, and how many tasks of what length a job has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretell.approximate import MOST_DROPPED, n_kept
from foretell.decide.queueing.queue_file import read_queue
from foretell.decide.queueing.service.job import job_time
from foretell.decide.queueing.times import streams_of
from foretell.errors import UsageError, listing, suggest
from foretell.queue.observed import Observed, ObservedJob
from foretell.wording import counted, number, plain

_DIGITS = 4
_MOST_COUNTS = 20
#: How many jobs of a class there must be beside the first of an engine to leave that out.
_LEAST_WARM = 5
#: Stages that overlap by a larger share of the job do not run one after the other.
_OVERLAP = 0.05
_LEAST_S = 1e-3


@dataclass(frozen=True)
class LearnedClasses:
    """What logs say about the classes of a queue.

    Attributes
    ----------
    values
        A class file as plain values.
    n_jobs
        From how many jobs each class was learned.
    notes
        What was left out or guessed, and why.
    """

    values: dict[str, Any]
    n_jobs: dict[str, int]
    notes: list[str]

    def toml(self) -> str:
        """Write the class file, with remarks on where it is from."""
        jobs = listing(f"{n} of {name}" for name, n in self.n_jobs.items())
        remarks = [
            f"Learned from {counted(sum(self.n_jobs.values()), 'job')}: {jobs}.",
            "Later classes have higher priority: logs do not tell, so check the order.",
            *self.notes,
        ]
        lines = [f"# {plain(remark)}" for remark in remarks]
        lines += ["", f"slots = {self.values['slots']}"]
        for table in self.values["class"]:
            lines += ["", "[[class]]", *(f"{key} = {_inline(v)}" for key, v in table.items())]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"classes": self.values, "n_jobs": self.n_jobs, "notes": self.notes}


def learn_classes(observed: Observed, order: Sequence[str] = ()) -> LearnedClasses:
    """Learn the classes of a queue from what its engine did.

    Parameters
    ----------
    order
        Classes by priority, the lowest first. Others come before them, the most frequent first.
    """
    notes = list(observed.notes)
    usable = _usable(observed.jobs, notes)
    by_class: dict[str, list[ObservedJob]] = {}
    for job in usable:
        by_class.setdefault(job.class_name, []).append(job)
    rates = _rates(observed.jobs, notes)
    names = _ordered(by_class, order)
    classes = [_learned(name, by_class[name], rates.get(name), notes) for name in names]
    for name, table in zip(names, classes, strict=True):
        _match_mean(table, by_class[name], observed.slots, notes)
    values = {"slots": observed.slots, "class": classes}
    notes += _overload(values, is_guess=not rates)
    return LearnedClasses(values, {name: len(by_class[name]) for name in names}, notes)


def _usable(jobs: Sequence[ObservedJob], notes: list[str]) -> list[ObservedJob]:
    """Leave out jobs that say nothing about how long one takes."""
    done = [j for j in jobs if j.is_done and j.ended_s is not None and j.stages]
    if len(done) < len(jobs):
        n = len(jobs) - len(done)
        notes.append(
            f"{counted(n, 'job')} did not end well, or ran no task, and {_is_are(n)} left out"
        )
    if not done:
        told = "; ".join(notes)
        raise UsageError(f"no job ended well, so there is nothing to learn from: {told}")
    return _warm(done, notes)


def _warm(done: list[ObservedJob], notes: list[str]) -> list[ObservedJob]:
    """Leave out first jobs of engines, of each class that has enough others."""
    n_warm = Counter(job.class_name for job in done if not job.is_first)
    n_first = Counter(job.class_name for job in done if job.is_first)
    kept = {name: n for name, n in n_first.items() if n_warm[name] < _LEAST_WARM}
    if len(kept) < len(n_first):
        but = f", but for {listing(kept)}" if kept else ""
        notes.append(
            f"the first job of each engine loads what others find ready, and is left out{but}"
        )
    notes += [
        f"{name}: {counted(n, 'first job')} of an engine {_is_are(n)} kept, and may make times "
        f"several times too long: to leave out first jobs, {_LEAST_WARM} others are needed, and "
        f"there {_is_are(n_warm[name])} {n_warm[name]}; run more jobs, and learn again"
        for name, n in kept.items()
    ]
    return [job for job in done if not job.is_first or job.class_name in kept]


def _overload(values: dict[str, Any], *, is_guess: bool) -> list[str]:
    """Say that jobs arrive faster than they can run, as if all were submitted at once."""
    streams = streams_of(read_queue(values), {})  # what we write, we can read
    load = sum(stream.rate_per_s * stream.service.mean for stream in streams)
    if load < 1:
        return []
    origin = "a guess" if is_guess else "those of the log, in which jobs may have come all at once"
    return [
        f"the load is {number(load, 3)}, and a queue with 1 or more grows without limit: rates are "
        f"{origin}; correct them before you predict"
    ]


def _is_are(n: int) -> str:
    return "is" if n == 1 else "are"


def _ordered(by_class: dict[str, list[ObservedJob]], order: Sequence[str]) -> list[str]:
    for name in order:
        if name not in by_class:
            raise UsageError(f"no job is of class '{name}'. {suggest(name, by_class)}")
    others = sorted(set(by_class) - set(order), key=lambda name: (-len(by_class[name]), name))
    return [*others, *dict.fromkeys(order)]


def _rates(jobs: Sequence[ObservedJob], notes: list[str]) -> dict[str, float]:
    """Return how many jobs of each class arrived per second; none if there is no telling."""
    moments = [job.arrived_s for job in jobs]
    span_s = max(moments) - min(moments)
    if span_s <= 0:
        notes.append("all jobs arrived at once: rates are a guess of one job per hour")
        return {}
    counts = Counter(job.class_name for job in jobs)
    total = (len(jobs) - 1) / span_s
    return {name: total * n / len(jobs) for name, n in counts.items()}


def _learned(
    name: str, jobs: list[ObservedJob], rate: float | None, notes: list[str]
) -> dict[str, Any]:
    values: dict[str, Any] = {"name": name, **_rate(rate)}
    if reason := _why_no_stages(jobs):
        notes.append(
            f"{name}: {reason}, so only the time of whole jobs is known; nothing can be dropped"
        )
        return values | {"service": _service(jobs)}
    values |= _drop(name, jobs, notes)
    values |= {"overhead_s": _overhead(jobs)}
    if len(jobs[0].stages) <= 2:
        return values | _map_reduce(jobs)
    return values | {"stages": [_stage(jobs, i) for i in range(len(jobs[0].stages))]}


def _match_mean(
    table: dict[str, Any], jobs: list[ObservedJob], slots: int, notes: list[str]
) -> None:
    """Change the overhead so that jobs take as long by the model as they did, on average.

    Tasks that are alike and start as slots get free are not quite those of the log.
    """
    if "overhead_s" not in table:
        return
    job = read_queue({"slots": slots, "class": [table]}).classes[0]
    n_by_drop = Counter(observed.drop for observed in jobs)
    modelled = sum(n * job_time(job, slots, drop).mean for drop, n in n_by_drop.items())
    measured = sum(observed.time_s for observed in jobs)
    off_s = (modelled - measured) / len(jobs)
    given = table["overhead_s"]
    fixed = (given["fixed"] if isinstance(given, dict) else given) - off_s
    if fixed < 0:
        notes.append(
            f"{table['name']}: jobs take {100 * -fixed * len(jobs) / measured:.0f} % less than "
            "their stages by the model, and predictions are too long by that"
        )
    fixed = _rounded(max(0.0, fixed))
    table["overhead_s"] = {**given, "fixed": fixed} if isinstance(given, dict) else fixed


def _drop(name: str, jobs: list[ObservedJob], notes: list[str]) -> dict[str, float]:
    """Return the share of tasks that was dropped, if it is the same in all jobs."""
    dropped = [job for job in jobs if job.drop]
    if not dropped:
        return {}
    note = f"{name}: tasks were dropped in {counted(len(dropped), 'job')}, and are counted"
    ratios = sorted({job.drop for job in jobs})
    is_known = len(ratios) == 1 and ratios[0] <= MOST_DROPPED
    if not is_known:
        note += f"; drop is not written, for it was {listing(f'{ratio:g}' for ratio in ratios)}"
    notes.append(note)
    return {"drop": ratios[0]} if is_known else {}


def _rate(rate: float | None) -> dict[str, float]:
    return {"rate_per_h": 1.0} if rate is None else {"rate_per_s": _rounded(rate)}


def _why_no_stages(jobs: list[ObservedJob]) -> str:
    """Say why jobs cannot be told by stages that run one after the other; empty if they can."""
    if len({len(job.stages) for job in jobs}) > 1:
        return "jobs differ in their number of stages"
    overlaps = [
        sum(max(0.0, a.last_s - b.first_s) for a, b in _neighbors(job)) / max(job.time_s, _LEAST_S)
        for job in jobs
    ]
    return "stages run side by side" if np.mean(overlaps) > _OVERLAP else ""


def _neighbors(job: ObservedJob) -> list[tuple[Any, Any]]:
    return list(zip(job.stages, job.stages[1:], strict=False))


def _service(jobs: list[ObservedJob]) -> dict[str, float]:
    times = np.array([job.time_s for job in jobs])
    scv = float(times.var(ddof=1) / times.mean() ** 2) if len(times) > 1 else 0.0
    return {"mean_s": _rounded(max(float(times.mean()), _LEAST_S)), "scv": _rounded(scv)}


def _overhead(jobs: list[ObservedJob]) -> float | dict[str, float]:
    """Return what jobs take beside their stages; by the share kept, where jobs differ in it."""
    beside = np.array([_beside(job) for job in jobs])
    kept = np.array([1 - job.drop for job in jobs])
    if len(set(kept)) > 1 and min(Counter(kept).values()) >= _LEAST_WARM:
        per_kept, fixed = np.polyfit(kept, beside, 1)
        if per_kept > 0 and fixed > 0:
            return {"fixed": _rounded(fixed), "per_kept": _rounded(per_kept)}
    return _rounded(max(0.0, float(beside.mean())))


def _beside(job: ObservedJob) -> float:
    assert job.ended_s is not None
    return job.stages[0].first_s - job.started_s + job.ended_s - job.stages[-1].last_s


def _map_reduce(jobs: list[ObservedJob]) -> dict[str, Any]:
    first = _stage(jobs, 0)
    values = {"tasks": first["tasks"], "map_s": first["task_s"], "map_scv": first["scv"]}
    if len(jobs[0].stages) == 2:
        last = _stage(jobs, 1)
        values |= {"shuffle_s": last["before_s"], "reduce_tasks": last["tasks"],
                   "reduce_s": last["task_s"], "reduce_scv": last["scv"]}  # fmt: skip
    return values


def _stage(jobs: list[ObservedJob], index: int) -> dict[str, Any]:
    """Describe one stage: all tasks of all jobs are alike. Only the first drops tasks."""
    stages = [job.stages[index] for job in jobs]
    n = sum(stage.n_tasks for stage in stages)
    mean = sum(stage.sum_s for stage in stages) / n
    variance = max(0.0, sum(stage.sum_squares for stage in stages) / n - mean**2)
    values = {
        "task_s": _rounded(max(mean, _LEAST_S)),
        "scv": _rounded(variance / max(mean, _LEAST_S) ** 2),
    }
    if index == 0:
        return {"tasks": _tasks([_before_drop(job) for job in jobs]), **values}
    gaps = [
        stage.first_s - job.stages[index - 1].last_s
        for job, stage in zip(jobs, stages, strict=True)
    ]
    before_s = _rounded(max(0.0, float(np.mean(gaps))))
    return {
        "tasks": _tasks([s.n_tasks for s in stages]),
        **values,
        "before_s": before_s,
        "drop": 0.0,
    }


def _before_drop(job: ObservedJob) -> int:
    """Return the number of tasks of which so many were kept."""
    kept = job.stages[0].n_tasks
    n = max(kept, round(kept / (1 - job.drop)))
    while n > kept and n_kept(n, job.drop) > kept:
        n -= 1
    return n


def _tasks(counts: list[int]) -> int | dict[str, float]:
    """Return a number of tasks, or the share of jobs that have each number."""
    found = Counter(counts)
    if len(found) > _MOST_COUNTS:
        middles = (np.arange(_MOST_COUNTS) + 0.5) / _MOST_COUNTS
        found = Counter(np.quantile(counts, middles, method="nearest").astype(int).tolist())
    if len(found) == 1:
        return next(iter(found))
    total = sum(found.values())
    return {str(n): count / total for n, count in sorted(found.items())}


def _inline(value: Any) -> str:
    """Write a value of TOML on one line; the library spreads tables over several."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(v)}" for key, v in value.items()) + " }"
    if isinstance(value, list):
        return "[\n" + "".join(f"    {_inline(v)},\n" for v in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
