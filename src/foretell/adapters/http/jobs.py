"""Jobs: fits that wait for their turn, run one at a time in a process of their own, and end."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import ExitStack, suppress
from typing import Any

from foretell.adapters.http.job_folder import ENDED, JobFolder, Record, State, new_id, now
from foretell.adapters.http.metrics import Metrics
from foretell.adapters.http.problems import ProblemError
from foretell.adapters.http.settings import Settings
from foretell.adapters.http.shelf import NAME
from foretell.errors import StorageError, UsageError
from foretell.files.directory import LOCK, locked

logger = logging.getLogger("foretell.serve")

#: A fit minds its limit itself; this is for one that does not.
_GRACE = 1.5
_GRACE_S = 30.0
#: A job that ended the server or the machine so often is not begun again.
_MOST_STARTS = 3
_LONGEST_NEWS = 2**16
_MOST_DETAIL = 2_000


class Jobs:
    """The fits of one server."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._open = ExitStack()
        self._folder: JobFolder | None = None
        self._refusal = "this server was started with --read-only"
        self._records: dict[str, Record] = {}
        self._arriving: dict[str, Record] = {}
        self._process: Process | None = None
        self._is_new = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take up what an earlier server left unfinished."""
        if self._settings.is_read_only:
            return
        try:
            folder = JobFolder(self._settings.directory)
            self._open.enter_context(locked(folder.path / LOCK, folder.path))
        except StorageError as error:
            self._refusal = str(error)
            logger.warning("no models can be fitted: %s", error)
            return
        self._folder = folder
        self._records = {r.id: r for r in folder.records()}
        for record in self._records.values():
            if record.state == "running":
                record.state = "queued"
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End the fit under way; the next server takes it up again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._open.close()

    @property
    def is_read_only(self) -> bool:
        """Whether fits are refused."""
        return self._folder is None

    def all(self) -> list[Record]:
        """List all jobs, the latest first."""
        return list(reversed(self._records.values()))

    def get(self, job_id: str) -> Record:
        """Find a job."""
        record = self._records.get(job_id)
        if record is None:
            raise ProblemError("unknown-job", f"there is no job {job_id[:100]!r} here")
        return record

    async def add(self, asked: dict[str, Any], table: bytes) -> Record:
        """Queue a fit; raise a problem when it cannot be."""
        if self._folder is None:
            raise ProblemError("read-only", self._refusal)
        self._check_new(self._folder, asked["name"], is_replacing=asked["replace"])
        record = Record(id=new_id(), created_at=now(), **asked)
        self._arriving[record.id] = record
        try:
            await asyncio.to_thread(self._folder.add, record, table)
        except (OSError, StorageError):
            raise ProblemError("storage", "the table cannot be stored") from None
        finally:
            del self._arriving[record.id]
        kept = self._folder.forget_oldest([*self._records.values(), record])
        self._records = {r.id: r for r in kept}
        self._is_new.set()
        return record

    def _check_new(self, folder: JobFolder, name: str, *, is_replacing: bool) -> None:
        if not NAME.fullmatch(name):
            raise ProblemError(
                "wrong-input",
                "name: a model is called by up to 100 letters, digits, dots, dashes and "
                "underscores, the first a letter or a digit",
            )
        waiting = [r for r in self._records.values() if r.state not in ENDED]
        waiting += self._arriving.values()
        if any(r.name == name for r in waiting):
            raise ProblemError("taken", f"a fit of '{name}' is under way; wait, or cancel it")
        if not is_replacing and folder.is_taken(name):
            raise ProblemError(
                "taken", f"there is a '{name}' already; choose another name, or add replace=true"
            )
        if len(waiting) > self._settings.limits.most_fits:
            raise ProblemError(
                "busy", f"{len(waiting)} fits wait already; try again later", {"Retry-After": "60"}
            )

    def cancel(self, job_id: str) -> Record:
        """End a job that waits or runs."""
        record = self.get(job_id)
        if record.state in ENDED:
            raise ProblemError("ended", f"the job is {record.state} already")
        is_running = record.state == "running"
        self._end(record, "canceled")
        if is_running and self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
        return record

    async def _run(self) -> None:
        while True:
            record = next((r for r in self._records.values() if r.state == "queued"), None)
            if record is None:
                self._is_new.clear()
                await self._is_new.wait()
                continue
            try:
                await self._fit(record)
            except Exception as error:  # the next job must have its turn, whatever this one did
                logger.warning("the fit of %s failed: %s", record.name, error)
                self._end(record, "failed", str(error)[:_MOST_DETAIL])

    async def _fit(self, record: Record) -> None:
        folder = self._folder
        assert folder is not None
        if record.n_starts >= _MOST_STARTS:
            raise UsageError(f"the fit was begun {_MOST_STARTS} times, and never ended")
        record.state, record.n_starts = "running", record.n_starts + 1
        folder.save(record)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "foretell.adapters.http.fit_process"),
            json.dumps(folder.request(record)),
            stdin=PIPE,
            stdout=PIPE,
            limit=_LONGEST_NEWS,
        )
        self._process = process
        if self.get(record.id).state == "canceled":  # while it was started
            process.kill()
        try:
            async with asyncio.timeout(_GRACE * record.time_limit_s + _GRACE_S):
                news = await _follow(process, record)
        except TimeoutError:
            news = {"state": "failed", "detail": "the fit took much longer than its time limit"}
        except asyncio.CancelledError:  # the server ends, which is not the fault of the job
            record.state, record.n_starts = "queued", record.n_starts - 1
            folder.save(record)
            raise
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            self._process = None
        if self.get(record.id).state == "canceled":  # meanwhile
            folder.tidy(record)
            return
        if news.get("state") == "done":
            await asyncio.to_thread(folder.place, record)
        self._end(record, news.get("state", "failed"), news.get("detail", _NO_NEWS))

    def _end(self, record: Record, state: State, detail: str | None = None) -> None:
        assert self._folder is not None
        record.state, record.ended_at = state, now()
        record.detail = detail if state == "failed" else None
        self._metrics.jobs.labels(state).inc()
        with suppress(OSError, StorageError):
            self._folder.save(record)
            self._folder.tidy(record)


_NO_NEWS = "the process of the fit ended without a word, perhaps for want of memory"


async def _follow(process: Process, record: Record) -> dict[str, Any]:
    """Keep a record up to date with what its process tells; return the last news."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        with suppress(ValueError):
            news: dict[str, Any] = json.loads(line)
            if "state" in news:
                return news
            record.n_done, record.n_total = news["n_done"], news["n_total"]
    return {}
