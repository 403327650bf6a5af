"""The dispatcher: takes jobs, and has the engine run one at a time, the highest class first."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal

from foretell.adapters.dispatcher.attempts import Attempt, Attempts
from foretell.adapters.dispatcher.engines import ENGINES, EngineLostError, Outcome, Setting
from foretell.adapters.dispatcher.events import Event, Kind
from foretell.adapters.dispatcher.intake import Intake
from foretell.adapters.dispatcher.jobs import Job, Request, now
from foretell.adapters.dispatcher.replanning import Replanner
from foretell.adapters.dispatcher.spool import Spool
from foretell.adapters.dispatcher.sprints.open import open_sprinter
from foretell.adapters.dispatcher.status import Status
from foretell.adapters.dispatcher.store import records
from foretell.adapters.dispatcher.store.ledger import ASIDE, JOBS, RUNS, Ledger
from foretell.adapters.dispatcher.store.runs import recent_responses
from foretell.closeable import Closeable
from foretell.decide.queueing.queue_file import Queue, read_queue
from foretell.errors import UsageError
from foretell.files.directory import make_folder, write_whole

_READY_S = 0.02  # between looks at an engine that gets ready
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0  # between attempts to reach an engine that is lost


class Dispatcher(Closeable):
    """Runs jobs of several classes on one engine.

    Parameters
    ----------
    queue
        A class file, or a dict of its shape.
    engine, state, spool
        What runs jobs, the folder for the journal and results, and the folder that jobs come from,
        instead of what [run] in the class file says. With ``spool=None`` no folder is looked at.
    seed
        Decides, with the id of a job, which of its tasks are dropped.
    tell
        Takes each event; it is called from several threads.

    >>> with Dispatcher("classes.toml") as dispatcher:              # doctest: +SKIP
    ...     dispatcher.submit({"class": "low", "run": ["sleep", "1"]})
    ...     dispatcher.run(until_empty=True)
    """

    def __init__(
        self,
        queue: Path | str | Mapping[str, Any] | Queue,
        *,
        engine: str | None = None,
        state: Path | str | None = None,
        spool: Path | str | None = "",
        seed: int = 0,
        tell: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self.queue = read_queue(queue)
        self._seed, self._told = seed, tell
        self._lock = threading.RLock()
        self._inbox: SimpleQueue[Attempt | None] = SimpleQueue()
        self._attempts = Attempts(self._inbox.put)
        self.is_stopping = False
        self._news: list[Event] = []
        self._pause_s, self._try_at = 0.0, 0.0
        self._free_at = time.perf_counter()
        self._is_engine_ready = True
        self.lost = ""
        run, base = self.queue.run, self.queue.folder
        self.folder = base / run.state if state is None else Path(state)
        self._closing = ExitStack()
        try:
            self._open(ENGINES.get(run.engine if engine is None else engine))
            place = base / run.spool if spool == "" else spool
            self._spool = None if place is None else Spool(Path(place), self._intake)
        except BaseException:
            self.close()
            raise

    def _open(self, kind: type) -> None:
        self._replanner = self._closing.enter_context(
            Replanner(self.queue, tell=lambda text: self._tell(Event("note", text=text)))
        )
        self._names = names = [c.name for c in self.queue.classes]
        self._ledger = self._closing.enter_context(Ledger(self.folder, names))
        if (aside := self._ledger.table_aside) is not None:
            text = f"{self.folder / RUNS} had other columns, and is {aside} now; a new one is begun"
            self._tell(Event("note", text=text))
        for folder in (JOBS, ASIDE):
            make_folder(self.folder / folder)
        self._responses = recent_responses(self.folder / RUNS, names)
        setting = Setting(
            self._ledger.queue_id,
            self.folder / JOBS,
            self.queue.folder.absolute(),
            self.queue.slots,
            self.queue.run.settings,
        )
        self._engine = self._closing.enter_context(kind(setting))
        self._intake = Intake(
            self.queue, self._engine, self._ledger, self._lock, tell=self._tell, wake=self._wake
        )
        self._recover()
        self._sprinter = self._closing.enter_context(
            open_sprinter(
                self.queue, self.folder, self._ledger.state.budget,
                tell=lambda text: self._tell(Event("note", text=text)),
            )
        )  # fmt: skip
        self._note_budget()  # a sprint that a crash cut short is paid for once
        self._ledger.sync()
        self._closing.enter_context(self._attempts)
        discipline = self.queue.discipline
        self._is_preemptive = discipline != "non-preemptive"
        self._is_pausing = discipline == "resume"
        if self._is_pausing and not self._engine.can_pause:
            raise UsageError(
                "discipline is 'resume', and this engine cannot stop a job and let it go on; "
                "write 'non-preemptive', or 'repeat' to start it again"
            )

    def _recover(self) -> None:
        """Take what a dispatcher that was killed left: outcomes, and jobs that were cut short."""
        state = self._ledger.state
        left = [*([state.running] if state.running else []), *state.paused]
        outcomes = self._engine.recover(left)
        for job in left:
            if job.id in outcomes:
                self._conclude(job, outcomes[job.id], 0.0)
            else:
                self._ledger.note(records.put_back(job, now(), "interrupted"))
                self._news.append(Event("interrupted", job))
        self._ledger.sync()
        self._tell_news()

    # From any thread.

    def _tell(self, event: Event) -> None:
        self._told(event)
        self._replanner.observe(event)

    def submit(self, job: Mapping[str, Any] | Request) -> Job:
        """Take a job; when this returns, it survives a crash."""
        return self._intake.submit(job)

    def cancel(self, job_id: str) -> Job:
        """Take a job out that waits; raise a UsageError if it does not."""
        return self._intake.cancel(job_id)

    def describe(self, job_id: str) -> dict[str, Any] | None:
        """Return what is known of a job, also of one that ended; None if there is none."""
        return self._intake.describe(job_id)

    def unfinished(self, most: int) -> list[Job]:
        """Return the job in the engine and those that wait, in the order of their turns."""
        return self._intake.unfinished(most)

    @property
    def spool_folder(self) -> Path | None:
        """The folder that jobs come from, if there is one."""
        return None if self._spool is None else self._spool.folder

    def status(self) -> Status:
        """Return how the queue is."""
        with self._lock:
            sprint = self._sprinter if self._sprinter.is_able else None
            found = Status.of(self._ledger.state, self._names, self._responses, sprint, self.lost)
        return replace(found, in_spool=0 if self._spool is None else self._spool.n_left)

    # From one thread.

    def run(self, *, until_empty: bool = False) -> None:
        """Run jobs until ``stop`` is called, or until none is left."""
        with ExitStack() as watching:
            if self._spool is not None:
                watching.enter_context(self._spool.watched())
            self._free_at = time.perf_counter()
            ended: Attempt | None = None
            while not self.is_stopping:
                self._turn(ended)
                if until_empty and self._is_empty():
                    return
                ended = self._next()
                self._tick()

    def stop(self) -> None:
        """Let ``run`` return soon; from any thread, and from a signal handler."""
        self.is_stopping = True
        self._wake()

    def _wake(self) -> None:
        """Have the loop look again at what there is to do."""
        self._inbox.put(None)

    def close(self) -> None:
        """End what runs, which goes back to the head of its line, and release everything."""
        with self._closing:
            if self._attempts.ids():
                with self._lock:
                    for job_id in self._attempts.ids():
                        self._cut(self._ledger.state.jobs[job_id], "interrupted")
                    self._ledger.sync()
                self._tell_news()

    def _is_empty(self) -> bool:
        jobs, spool = self._ledger.state.jobs, self._spool
        while not jobs and spool is not None and not self.is_stopping and spool.take_some():
            continue
        return not self._ledger.state.jobs

    def _next(self) -> Attempt | None:
        """Wait for an attempt that ended, a job that came, or the next moment to do something."""
        at_s = time.monotonic()
        moments = [self._try_at] if self._try_at > at_s else []
        moments += [] if self._sprinter.deadline is None else [self._sprinter.deadline]
        timeout = max(0.0, min(moments) - at_s) if moments else None
        try:
            return self._inbox.get(timeout=timeout)
        except Empty:
            return None

    def _tick(self) -> None:
        was_sprinting = self._sprinter.is_sprinting
        self._sprinter.tick()
        if self._sprinter.is_sprinting != was_sprinting:
            with self._lock:
                self._note_sprint()
                self._ledger.sync()
            self._tell_news()

    def _note_sprint(self) -> None:
        self._note_budget()
        kind: Kind = "sprint" if self._sprinter.is_sprinting else "sprint_over"
        self._news.append(Event(kind, self._ledger.state.running))

    def _note_budget(self) -> None:
        level_j = self._sprinter.bucket.level_j
        if level_j != float("inf"):
            is_sprinting = self._sprinter.is_sprinting
            self._ledger.note(records.budget(now(), level_j, is_sprinting=is_sprinting))

    def _turn(self, ended: Attempt | None) -> None:
        """Take note of what ended, choose what is next, write both down, and only then start it."""
        with self._lock:
            if ended is not None and not ended.is_cut:
                self._finish(ended)
            chosen = self._choose()
            self._ledger.sync()
        if chosen is not None:
            self._launch(chosen)
        self._tell_news()
        if ended is not None:
            self._clean(ended)
        with self._lock:
            self._ledger.tidy()

    def _choose(self) -> Job | None:
        state = self._ledger.state
        head = state.waiting.head
        if head is None or time.monotonic() < self._try_at or self.is_stopping:
            return None
        if state.running is not None:
            if not self._is_preemptive or head.level <= state.running.level:
                return None
            self._make_way(state.running)
            head = state.waiting.head
            assert head is not None
        if not self._is_ready(head):
            return None
        if head.state == "paused":
            self._ledger.note(records.go_on(head, now()))
        else:
            drop = self._replanner.treatments[head.level].drop
            seed = zlib.crc32(head.id.encode(), self._seed & 0xFFFFFFFF)
            self._ledger.note(records.start(head, now(), drop, seed))
        return head

    def _is_ready(self, job: Job) -> bool:
        """Whether the engine would start a job at once: its own start is no time of the job."""
        was_ready, self._is_engine_ready = self._is_engine_ready, True
        try:
            self._is_engine_ready = self._engine.is_ready()
        except EngineLostError as error:
            self._lose_engine(job, error)
            return False
        if not self._is_engine_ready:
            self._try_at = time.monotonic() + _READY_S
            if was_ready and not self.lost:
                self._news.append(Event("note", text="the engine starts; jobs wait for it"))
        elif not was_ready:
            self._free_at = time.perf_counter()
        return self._is_engine_ready

    def _make_way(self, job: Job) -> None:
        """Stop the running job, for one of a higher class."""
        if not self._is_pausing:
            self._cut(job, "preempted")
            return
        sprint_s = self._end_sprint()
        self._attempts[job.id].running.pause()
        self._free_at = time.perf_counter()
        self._ledger.note(records.pause(job, now(), sprint_s))
        self._news.append(Event("paused", job))

    def _cut(self, job: Job, why: Literal["preempted", "interrupted"]) -> None:
        """End an attempt; the job is first in its line again, unless it had ended just before."""
        sprint_s = self._end_sprint() if job is self._ledger.state.running else 0.0
        outcome = self._attempts.cut(job.id)
        self._free_at = time.perf_counter()
        if outcome is not None:
            self._conclude(job, outcome, sprint_s)
        else:
            self._ledger.note(records.put_back(job, now(), why, sprint_s=sprint_s))
            self._news.append(Event(why, job))

    def _launch(self, job: Job) -> None:
        if job.id in self._attempts:
            attempt = self._attempts[job.id]
            attempt.running.go_on()
            kind: Kind = "resumed"
        else:
            try:
                for folder in (self.folder / JOBS, self._engine.setting.folder_of(job)):
                    make_folder(folder)
                running = self._engine.start(job, job.drop, job.seed)
            except EngineLostError as error:
                with self._lock:
                    self._ledger.note(records.put_back(job, now(), "lost"))
                    self._ledger.sync()
                self._lose_engine(job, error)
                return
            attempt = self._attempts.follow(job, running)
            kind = "started"
        latency_s = min(time.perf_counter() - self._free_at, max(0.0, now() - job.arrived_at))
        self.lost, self._pause_s, self._try_at = "", 0.0, 0.0
        self._news.append(Event(kind, job, latency_s=latency_s))
        after_s = self._replanner.treatments[job.level].sprint_after_s
        if after_s is not None:  # a job that goes on has had some of that time before its pause
            after_s = max(0.0, after_s - job.busy_s)
        self._sprinter.begin(attempt.running, after_s)

    def _lose_engine(self, job: Job, error: EngineLostError) -> None:
        """Keep the queue, and try again in a while."""
        self._pause_s = min(_LONGEST_PAUSE_S, max(_FIRST_PAUSE_S, 2 * self._pause_s))
        self._try_at = time.monotonic() + self._pause_s
        is_new, self.lost = str(error) != self.lost, str(error)
        if is_new:
            text = f"{error}; it is tried again until it works"
            self._news.append(Event("lost", job, text))

    def _finish(self, attempt: Attempt) -> None:
        """Take note of an attempt that ended by itself, perhaps just before it was paused."""
        job = self._ledger.state.jobs[attempt.job_id]
        is_running = job is self._ledger.state.running
        self._attempts.forget(job.id)
        if is_running:
            self._free_at = attempt.ended_at
        sprint_s = self._end_sprint() if is_running else 0.0
        assert attempt.outcome is not None
        self._conclude(job, attempt.outcome, sprint_s)

    def _conclude(self, job: Job, outcome: Outcome, sprint_s: float) -> None:
        at = now() if outcome.ended_at is None else outcome.ended_at
        if outcome.is_done:
            self._ledger.note(records.end(job, at, "done", sprint_s=sprint_s))
            self._responses[job.class_name].append(at - job.arrived_at)
            self._news.append(Event("done", job))
        elif job.n_failed < self.queue.run.retries:
            self._ledger.note(records.put_back(job, at, "failed", outcome.reason, sprint_s))
            self._news.append(Event("failed", job, outcome.reason))
        else:
            self._set_aside(job, outcome.reason)
            self._ledger.note(records.end(job, at, "failed", outcome.reason, sprint_s))
            self._news.append(Event("aside", job, outcome.reason))

    def _set_aside(self, job: Job, reason: str) -> None:
        """Keep the job as a file that can be submitted again, and its reason beside it."""
        written = {"class": job.class_name, "run": job.run, "arguments": job.arguments,
                   "name": job.title}  # fmt: skip
        place = self.folder / ASIDE / f"{job.id}.failed"
        write_whole(Path(f"{place}.json"), json.dumps(written, indent=1).encode())
        write_whole(Path(f"{place}.reason"), f"{reason}\n".encode())

    def _end_sprint(self) -> float:
        was_sprinting = self._sprinter.is_sprinting
        sprint_s = self._sprinter.finish()
        if was_sprinting:
            self._note_sprint()
        return sprint_s

    def _clean(self, attempt: Attempt) -> None:
        """Remove files of an attempt whose outcome is in the journal."""
        for file in (self.folder / JOBS / attempt.job_id).glob(f"*-{attempt.number}"):
            with suppress(OSError):  # it is in the way of nothing
                file.unlink()

    def _tell_news(self) -> None:
        """Tell what happened, now that it is on disk."""
        news, self._news = self._news, []
        for event in news:
            self._tell(event)
