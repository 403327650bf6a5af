"""The intake: takes jobs from any thread, and answers what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any

from foretell.adapters.dispatcher.engines import Engine
from foretell.adapters.dispatcher.events import Event
from foretell.adapters.dispatcher.jobs import JOB_WORDS, Job, Request, check_size, new_id, now
from foretell.adapters.dispatcher.store import records
from foretell.adapters.dispatcher.store.ledger import RUNS, Ledger
from foretell.adapters.dispatcher.store.runs import find_row
from foretell.decide.queueing.queue_file import Queue
from foretell.errors import UsageError
from foretell.files.typed import validated

#: Jobs that may wait; so memory has a bound, as the size of each has one.
MOST_WAITING = 50_000


class FullError(UsageError):
    """So many jobs wait that no more are taken."""


class Intake:
    """Takes jobs into the ledger of a queue.

    Parameters
    ----------
    lock
        Held while the ledger is used.
    tell
        Takes each event.
    wake
        Called after jobs came.
    """

    def __init__(
        self,
        queue: Queue,
        engine: Engine,
        ledger: Ledger,
        lock: RLock,
        *,
        tell: Callable[[Event], None],
        wake: Callable[[], None],
    ) -> None:
        self._queue, self._engine, self._ledger, self._lock = queue, engine, ledger, lock
        self.tell, self._wake = tell, wake
        self._levels = {c.name: level for level, c in enumerate(queue.classes)}

    def submit(self, job: Mapping[str, Any] | Request) -> Job:
        """Take a job; when this returns, it survives a crash."""
        request = self.read(job)
        if not self.room:
            raise FullError(f"{MOST_WAITING:,} jobs wait already; try again later")
        return self.accept([(new_id(), request, now())])[0]

    def read(self, job: Mapping[str, Any] | Request) -> Request:
        """Refuse what is not a job, what is for another class or engine, and what is too large."""
        request = job if isinstance(job, Request) else validated(Request, job, words=JOB_WORDS)
        self._queue.named(request.class_name)
        self._engine.check(request.run)
        check_size(len(request.model_dump_json()))
        return request

    @property
    def room(self) -> int:
        """How many more jobs may wait."""
        return max(0, MOST_WAITING - len(self._ledger.state.jobs))

    def accept(self, requests: Sequence[tuple[str, Request, float]]) -> list[Job]:
        """Take checked jobs with their ids and times of arrival, all at once."""
        came = [
            Job(id_, r.class_name, self._levels[r.class_name], r.run, r.arguments, r.name, at)
            for id_, r, at in requests
        ]
        with self._lock:
            self._refuse_known([job.id for job in came])
            self._ledger.write(map(records.arrival, came))
            jobs = [self._ledger.state.jobs[job.id] for job in came]
        for job in jobs:
            self.tell(Event("accepted", job))
        self._wake()
        return jobs

    def _refuse_known(self, ids: Sequence[str]) -> None:
        known = [id_ for id_ in ids if id_ in self._ledger.state.jobs]
        twice = [id_ for id_, n in Counter(ids).items() if n > 1]
        if found := known + twice:
            raise UsageError(f"each job must have an id of its own, and {found[0]} is taken")

    def cancel(self, job_id: str) -> Job:
        """Take a job out that waits; raise a UsageError if it does not."""
        with self._lock:
            job = self._ledger.state.jobs.get(job_id)
            if job is None or job.state != "queued":
                found = self.describe(job_id)
                state = "not known" if found is None else found["state"]
                raise UsageError(f"the job is {state}, and only one that waits can be canceled")
            self._ledger.write([records.end(job, now(), "canceled")])
        self.tell(Event("canceled", job))
        return job

    def knows(self, job_id: str) -> bool:
        """Whether there is, or was, a job of this id."""
        with self._lock:  # a job that ends is for a moment neither in the state nor in the table
            return job_id in self._ledger.state.jobs or self._ended(job_id) is not None

    def describe(self, job_id: str) -> dict[str, Any] | None:
        """Return what is known of a job, also of one that ended; None if there is none."""
        with self._lock:
            job = self._ledger.state.jobs.get(job_id)
            return self._ended(job_id) if job is None else job.to_json()

    def unfinished(self, most: int) -> list[Job]:
        """Return the job in the engine and those that wait, in the order of their turns."""
        with self._lock:
            state = self._ledger.state
            running = [state.running] if state.running else []
            return [*running, *(job for job, _ in zip(state.waiting, range(most), strict=False))]

    def _ended(self, job_id: str) -> dict[str, Any] | None:
        return find_row(self._ledger.folder / RUNS, job_id)
