"""Records of the journal, and the state of the queue that they add up to.

What happens is first a record. The state changes by records alone, live as well as when a journal
is read again, so a restart is in the state in which the last one ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from foretell.adapters.dispatcher.buffers import Buffers
from foretell.adapters.dispatcher.jobs import Job, State
from foretell.errors import StorageError, listing

Record = dict[str, Any]
#: What a job has when it arrives, by attribute.
_DEFAULTS = {
    field.name: {} if field.default is MISSING else field.default
    for field in fields(Job)
    if field.name not in {"id", "class_name", "level", "run"}
}


def arrival(job: Job) -> Record:
    """Return the record of a job that arrives, or of one on its way when a journal is compacted."""
    changed = {name: v for name, old in _DEFAULTS.items() if (v := getattr(job, name)) != old}
    return {"kind": "job", "id": job.id, "class_name": job.class_name, "run": job.run, **changed}


def start(job: Job, at: float, drop: float, seed: int) -> Record:
    """Return the record of an attempt that is about to start."""
    return {"kind": "start", "id": job.id, "at": at, "drop": drop, "seed": seed}


def pause(job: Job, at: float, sprint_s: float) -> Record:
    """Return the record of a job that is stopped where it is, for one of a higher class."""
    return {"kind": "pause", "id": job.id, "at": at, "sprint_s": sprint_s}


def go_on(job: Job, at: float) -> Record:
    """Return the record of a paused job that goes on."""
    return {"kind": "go_on", "id": job.id, "at": at}


def put_back(job: Job, at: float, why: str, reason: str = "", sprint_s: float = 0.0) -> Record:
    """Return the record of an attempt that came to nothing; the job is first in its line again.

    ``why`` is "failed", "preempted", "interrupted" (the dispatcher ended) or "lost" (the engine).
    """
    return {"kind": "put_back", "id": job.id, "at": at, "why": why, "reason": reason,
            "sprint_s": sprint_s}  # fmt: skip


def end(job: Job, at: float, state: State, reason: str = "", sprint_s: float = 0.0) -> Record:
    """Return the record of a job that is done, set aside or canceled."""
    return {"kind": "end", "id": job.id, "at": at, "state": state, "reason": reason,
            "sprint_s": sprint_s}  # fmt: skip


def budget(at: float, budget_j: float, *, is_sprinting: bool) -> Record:
    """Return the record of what the sprint budget has at a moment."""
    return {"kind": "budget", "at": at, "budget_j": budget_j, "is_sprinting": is_sprinting}


class QueueState:
    """All unfinished jobs, and counts of those that ended.

    Parameters
    ----------
    class_names
        The classes, the lowest priority first.

    Attributes
    ----------
    jobs
        Unfinished jobs by id.
    waiting
        Those that wait; a paused one waits at the head of its line.
    running
        The job in the engine, if there is one.
    n_ended
        How many jobs ended, by class and state.
    budget
        The latest record of the sprint budget, if there is one.
    """

    def __init__(self, class_names: Sequence[str]) -> None:
        self._levels = {name: level for level, name in enumerate(class_names)}
        self.jobs: dict[str, Job] = {}
        self.waiting = Buffers(len(class_names))
        self.running: Job | None = None
        self.n_ended: Counter[tuple[str, str]] = Counter()
        self.budget: Record | None = None
        self._former: dict[str, QueueState] = {}  # of classes that the file has no more, by job

    @property
    def paused(self) -> list[Job]:
        """The jobs that are stopped where they are, the latest first."""
        return [job for job in self.waiting if job.state == "paused"]

    def apply(self, record: Mapping[str, Any]) -> Job | None:
        """Change the state as a record says; return the job if that ended it."""
        kind = record["kind"]
        if (former := self._state_of_former(record)) is not None:
            return former.apply(record)
        if kind == "job":
            self._arrive(record)
        elif kind == "budget":
            self.budget = dict(record)
        elif kind == "totals":
            for class_name, state, n in record["n_ended"]:
                self.n_ended[class_name, state] = n
        else:
            job = self.jobs.get(record["id"])
            if job is None:  # see _arrive: it ended when the other of its id did
                return None
            _CHANGES[kind](self, job, record)
            return job if kind == "end" else None
        return None

    def _state_of_former(self, record: Mapping[str, Any]) -> QueueState | None:
        """Return the state apart of a job whose class the file has no more; None for others."""
        if record["kind"] == "job" and record["class_name"] not in self._levels:
            apart = QueueState([record["class_name"]])
            apart.n_ended = self.n_ended
            self._former[record["id"]] = apart
        return self._former.get(record.get("id", ""))

    def check_classes(self) -> None:
        """Raise a StorageError if jobs wait of a class that the file has no more."""
        waiting = {job.class_name for state in self._former.values() for job in state.jobs.values()}
        if waiting:
            raise StorageError(
                f"jobs of the class '{min(waiting)}' wait here, and the class file has only "
                f"{listing(self._levels)}; put that class back, or name another folder for state"
            )
        self._former.clear()

    def records(self) -> Iterator[Record]:
        """Yield the fewest records that add up to this state."""
        yield {"kind": "totals", "n_ended": [[*key, n] for key, n in self.n_ended.items()]}
        if self.budget is not None:
            yield self.budget
        if self.running is not None:
            yield arrival(self.running)
        yield from map(arrival, self.waiting)

    def _arrive(self, record: Mapping[str, Any]) -> None:
        values = {k: v for k, v in record.items() if k != "kind"}
        job = Job(level=self._levels[values["class_name"]], **values)
        if job.id in self.jobs:  # two files of one id once came to that
            return
        self.jobs[job.id] = job
        if job.state == "running":
            self.running = job
        else:
            self.waiting.add(job)

    def _start(self, job: Job, record: Mapping[str, Any]) -> None:
        self.waiting.remove(job)
        self.running = job
        job.state, job.attempt = "running", job.attempt + 1
        job.drop, job.seed = record["drop"], record["seed"]
        job.started_at, job.busy_s = record["at"], 0.0
        if job.first_start is None:
            job.first_start = record["at"]

    def _pause(self, job: Job, record: Mapping[str, Any]) -> None:
        self._leave_engine(job, record)
        job.state, job.n_preempted = "paused", job.n_preempted + 1
        self.waiting.add_first(job)

    def _go_on(self, job: Job, record: Mapping[str, Any]) -> None:
        self.waiting.remove(job)
        self.running, job.state, job.started_at = job, "running", record["at"]

    def _put_back(self, job: Job, record: Mapping[str, Any]) -> None:
        if job.state == "paused":
            self.waiting.remove(job)
        self._leave_engine(job, record)
        job.state, job.wasted_s, job.busy_s = "queued", job.wasted_s + job.busy_s, 0.0
        job.reason = record["reason"]
        job.n_failed += record["why"] == "failed"
        job.n_preempted += record["why"] == "preempted"
        if record["why"] == "lost":  # it never started
            job.attempt -= 1
            job.first_start = job.first_start if job.attempt else None
        self.waiting.add_first(job)

    def _end(self, job: Job, record: Mapping[str, Any]) -> None:
        if job.state != "running":
            self.waiting.remove(job)
        self._leave_engine(job, record)
        job.state, job.ended_at, job.reason = record["state"], record["at"], record["reason"]
        job.n_failed += job.state == "failed"
        del self.jobs[job.id]
        self.n_ended[job.class_name, job.state] += 1
        job.number = sum(n for (name, _), n in self.n_ended.items() if name == job.class_name)

    def _leave_engine(self, job: Job, record: Mapping[str, Any]) -> None:
        if self.running is job:
            self.running = None
            assert job.started_at is not None
            job.busy_s += max(0.0, record["at"] - job.started_at)
        job.sprint_s += record["sprint_s"]


_CHANGES = {
    "start": QueueState._start,
    "pause": QueueState._pause,
    "go_on": QueueState._go_on,
    "put_back": QueueState._put_back,
    "end": QueueState._end,
}
