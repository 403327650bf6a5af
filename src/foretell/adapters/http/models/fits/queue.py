"""The queue of fits: they run one at a time, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from foretell.adapters.http.models.fits.install import Installer
from foretell.adapters.http.models.fits.records import ENDED, Record, RecordStore, new_record, now
from foretell.adapters.http.models.metrics import ModelMetrics
from foretell.adapters.http.models.schemas import State
from foretell.adapters.http.models.settings import Settings
from foretell.adapters.http.models.store import NAME, STORAGE, SUFFIX
from foretell.adapters.http.server.problems import BUSY, WRONG_INPUT, Kind, ProblemError, in_json
from foretell.errors import ForetellError, Option, StorageError, UsageError
from foretell.files.directory import LOCK, locked
from foretell.model.directory import BEST

logger = logging.getLogger("foretell.serve")

READ_ONLY = Kind("read-only", 403, "This server does not fit models")
UNKNOWN_JOB = Kind("unknown-job", 404, "There is no such job")
TAKEN = Kind("taken", 409, "The name is taken")
JOB_ENDED = Kind("ended", 409, "The job has ended")

#: A fit keeps its time limit by itself; beyond this, it is killed.
_GRACE = 1.5
_GRACE_S = 30.0
#: A fit during which the server or the machine ended so often is not started again.
_MAX_STARTS = 3
_MAX_LINE = 2**16
_MAX_DETAIL = 2_000
_NO_REPORT = "the process of the fit ended without a report; perhaps memory ran out"


class FitQueue:
    """The fits of one server."""

    def __init__(self, settings: Settings, metrics: ModelMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._installer = Installer(settings.directory)
        self._open = ExitStack()
        self._store: RecordStore | None = None
        self._refusal = ForetellError(
            "this server was started to read models only", option=Option("read_only")
        )
        self._records: dict[str, Record] = {}
        self._arriving: dict[str, Record] = {}
        self._process: Process | None = None
        self._installing: Record | None = None
        self._is_new = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Continue with what an earlier server left unfinished."""
        if self._settings.is_read_only:
            return
        try:
            store = RecordStore(self._settings.directory)
            self._open.enter_context(locked(store.path / LOCK, store.path))
        except StorageError as error:
            self._refusal = error
            logger.warning("no models can be fitted: %s", error)
            return
        self._store = store
        self._records = {r.id: r for r in store.records()}
        for record in self._records.values():
            if self._installer.recover(record.name, store.output(record)):
                self._end(record, "done")  # only that was not written down
            elif record.state == "running":
                record.state = "queued"
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop the fit that runs; the next server continues it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._open.close()

    @property
    def is_read_only(self) -> bool:
        """Whether fits are refused."""
        return self._store is None

    def all(self) -> list[Record]:
        """List all fits, the latest first."""
        return list(reversed(self._records.values()))

    def get(self, job_id: str) -> Record:
        """Return a fit."""
        record = self._records.get(job_id)
        if record is None:
            raise ProblemError(UNKNOWN_JOB, f"there is no job {job_id[:100]!r} here")
        return record

    async def add(self, asked: dict[str, Any], table: bytes) -> Record:
        """Queue a fit; raise a problem when it cannot be made."""
        if self._store is None:
            raise ProblemError.of(self._refusal, READ_ONLY)
        record = new_record(**asked)
        self._check_name(record)
        self._arriving[record.id] = record  # from here on, the name is reserved
        try:
            await asyncio.to_thread(self._check_place, record)
            await asyncio.to_thread(self._store.add, record, table)
        except (OSError, StorageError):
            raise ProblemError(STORAGE, "the table cannot be stored") from None
        finally:
            del self._arriving[record.id]
        kept = self._store.forget_oldest([*self._records.values(), record])
        self._records = {r.id: r for r in kept}
        self._is_new.set()
        return record

    def _check_name(self, record: Record) -> None:
        """Refuse names that no model can have, and those of fits that wait or run."""
        name = record.name
        if not NAME.fullmatch(name):
            raise ProblemError(
                WRONG_INPUT,
                "the name of a model has up to 100 letters, digits, dots, dashes and underscores, "
                "and starts with a letter or a digit",
                option=Option("name"),
            )
        if name == BEST.removesuffix(SUFFIX):
            raise ProblemError(
                WRONG_INPUT,
                f"'{name}' is what a fit calls the best of its own models; choose another name",
                option=Option("name"),
            )
        waiting = [r for r in self._records.values() if r.state not in ENDED]
        waiting += self._arriving.values()
        if any(r.name == name for r in waiting):
            raise ProblemError(TAKEN, f"a fit of '{name}' waits or runs; wait for it, or cancel it")
        if len(waiting) > self._settings.limits.max_fits:
            raise ProblemError(
                BUSY,
                f"{len(waiting)} fits wait already; try again later",
                headers={"Retry-After": "60"},
            )

    def _check_place(self, record: Record) -> None:
        """Refuse to write over anything but a model, and over that only when asked to."""
        if not self._installer.is_taken(record.name):
            return
        try:
            self._installer.check_replaceable(record.name)
        except StorageError as error:
            raise ProblemError.of(error, TAKEN) from None
        if not record.replace:
            raise ProblemError(
                TAKEN,
                f"there is a model '{record.name}' already; choose another name",
                remedy=("or replace it with the query parameter replace=true",),
            )

    def cancel(self, job_id: str) -> Record:
        """End a fit that waits or runs."""
        record = self.get(job_id)
        if record.state in ENDED:
            raise ProblemError(JOB_ENDED, f"the job is {record.state} already")
        if record is self._installing:
            raise ProblemError(JOB_ENDED, "the fit is done, and is being put in place")
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
            except Exception as error:  # the next fit must have its turn, whatever this one did
                logger.warning("the fit of %s failed: %s", record.name, error)
                text = error.worded(in_json) if isinstance(error, ForetellError) else str(error)
                self._end(record, "failed", text[:_MAX_DETAIL])

    async def _fit(self, record: Record) -> None:
        store = self._store
        assert store is not None
        if record.n_starts >= _MAX_STARTS:
            raise UsageError(f"the fit was started {_MAX_STARTS} times, and never ended")
        record.state, record.n_starts = "running", record.n_starts + 1
        store.save(record)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "foretell.adapters.http.models.fits.process"),
            json.dumps(store.request(record)),
            stdin=PIPE,
            stdout=PIPE,
            limit=_MAX_LINE,
        )
        self._process = process
        if self.get(record.id).state == "canceled":  # while the process was started
            process.kill()
        try:
            async with asyncio.timeout(_GRACE * record.time_limit_s + _GRACE_S):
                report = await _follow(process, record)
        except TimeoutError:
            report = {"state": "failed", "detail": "the fit took much longer than its time limit"}
        except asyncio.CancelledError:  # the server stops, which is not a failed start
            record.state, record.n_starts = "queued", record.n_starts - 1
            store.save(record)
            raise
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            self._process = None
        if self.get(record.id).state == "canceled":  # meanwhile
            store.tidy(record)
            return
        if report.get("state") == "done":
            await self._install(record, store.output(record))
        self._end(record, report.get("state", "failed"), report.get("detail", _NO_REPORT))

    async def _install(self, record: Record, output: Path) -> None:
        self._installing = record
        try:
            await asyncio.to_thread(
                self._installer.install, record.name, output, replace=record.replace
            )
        finally:
            self._installing = None

    def _end(self, record: Record, state: State, detail: str | None = None) -> None:
        assert self._store is not None
        record.state, record.ended_at = state, now()
        record.detail = detail if state == "failed" else None
        self._metrics.fits.labels(state).inc()
        with suppress(OSError, StorageError):
            self._store.save(record)
            if state == "done":
                self._installer.discard_replaced(self._store.output(record))
            self._store.tidy(record)


async def _follow(process: Process, record: Record) -> dict[str, Any]:
    """Keep a record up to date with what its process reports; return the last report."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        with suppress(ValueError):
            report: dict[str, Any] = json.loads(line)
            if "state" in report:
                return report
            record.n_done, record.n_total = report["n_done"], report["n_total"]
    return {}
