"""Measuring, the one path: a sweep in, a table of runs out; nothing that was measured is lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from foretell.errors import NothingUsableError, UsageError
from foretell.files.directory import locked, logged
from foretell.files.journal import Journal, decode
from foretell.measure.appending import Belonging
from foretell.measure.lanes import Finished, Lanes, LocalLanes
from foretell.measure.machine import describe_machine, describe_versions
from foretell.measure.outcome import OK
from foretell.measure.plan import MANY_RUNS, Run, count_runs, plan_runs
from foretell.measure.supervisor import open_meters, sources_of
from foretell.measure.sweep import Sweep, read_sweep
from foretell.measure.table import (
    Record,
    check_foreign,
    check_untouched,
    describe,
    n_usable,
    write_table,
)
from foretell.measure.workloads import Workload

_WRITE_EVERY_S = 5.0


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is."""

    n_done: int
    n_failed: int
    n_total: int
    left_s: float | None


@dataclass(frozen=True)
class MeasureOptions:
    """How a sweep is run.

    Attributes
    ----------
    on
        Where runs are made: None is this machine, ``ray`` a cluster found as Ray does, anything
        else the address of one.
    is_sure
        Whether a very large sweep was asked for on purpose.
    append
        Whether the runs come on top of a table that another sweep of the same job has written.
    folder
        Where modules of the user's own lie, for a sweep that is no file.
    may_start
        Asked before runs are started: with the records of all runs so far, and the settings of
        those that would be started together. A run that may not is left for another time.
    """

    on: str | None = None
    is_sure: bool = False
    progress: Callable[[SweepProgress], None] | None = None
    append: bool = False
    folder: Path | None = None
    may_start: Callable[[Sequence[Record], Sequence[Mapping[str, Any]]], bool] | None = None


@dataclass(frozen=True)
class Planned:
    """A sweep ready to run."""

    sweep: Sweep
    workload: Workload
    runs: list[Run]


@dataclass(frozen=True)
class Estimate:
    """How long the rest of a sweep takes, and how that is known.

    Attributes
    ----------
    run_s, total_s
        Seconds of one run and of all that are left; None where nobody knows.
    source
        ``finished`` (their mean), ``expected`` (given in the sweep) or ``limit`` (at most).
    """

    n_left: int
    run_s: float | None
    source: str

    @property
    def total_s(self) -> float | None:
        """Seconds of all runs that are left."""
        return None if self.run_s is None else self.n_left * self.run_s


def estimate_time(planned: Planned, table: Path | None = None) -> Estimate:
    """Say how long a sweep will take: by its finished runs, by what its file says, or at most."""
    sweep = planned.sweep
    finished = _finished(sweep, table) if table is not None else []
    n_left = len(planned.runs) - len(finished)
    if finished:
        mean_s = sum(r["spent_s"] for r in finished) / len(finished)
        return Estimate(n_left, mean_s / sweep.at_once, "finished")
    share = (1 + sweep.warm_up) / sweep.at_once
    if sweep.expected_s is not None:
        return Estimate(n_left, share * sweep.expected_s, "expected")
    limit = sweep.time_limit_s
    return Estimate(n_left, None if limit is None else share * limit, "limit")


def _finished(sweep: Sweep, table: Path) -> list[Record]:
    """Return the finished runs of this very sweep, without touching any file."""
    path = table.with_suffix(".journal")
    if not path.is_file():
        return []
    records = decode(path.read_bytes())[0]
    return Belonging.of(records, sweep).own(r for r in records if r["kind"] == "run")


@dataclass
class MeasuredSweep:
    """A finished sweep: the table, and all records it was written from."""

    table: Path
    records: list[Record]
    missing: dict[str, str] = field(default_factory=dict)
    n_new: int = 0

    @property
    def n_ok(self) -> int:
        """How many runs went well."""
        return n_usable(self.records)


def plan_sweep(
    source: Path | str | Mapping[str, Any], *, is_sure: bool = False, folder: Path | None = None
) -> Planned:
    """Read a sweep and list its runs; refuse very many, unless they are meant."""
    sweep = read_sweep(source)
    if isinstance(source, Mapping):
        return _planned(sweep, folder or Path.cwd(), is_sure=is_sure)
    try:
        return _planned(sweep, Path(source).resolve().parent, is_sure=is_sure)
    except UsageError as error:
        raise UsageError(f"{source}, {error}") from None


def _planned(sweep: Sweep, folder: Path, *, is_sure: bool) -> Planned:
    workload = sweep.make_workload(folder)
    n_runs = count_runs(sweep)
    if n_runs > MANY_RUNS and not is_sure:
        raise UsageError(
            f"{n_runs:,} runs before 'only' and 'exclude': add --yes if you mean it, or draw some "
            'of them: design = {method = "latin", n = 100}'
        )
    return Planned(sweep, workload, plan_runs(sweep, workload))


def measure_sweep(
    source: Path | str | Mapping[str, Any],
    output: Path | str,
    options: MeasureOptions | None = None,
) -> MeasuredSweep:
    """Make the runs of a sweep that the journal does not hold, and write the table."""
    options = options or MeasureOptions()
    planned = plan_sweep(source, is_sure=options.is_sure, folder=options.folder)
    return _Job(planned, Path(output), options).run()


@dataclass
class _Job:
    planned: Planned
    table: Path
    options: MeasureOptions
    records: list[Record] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, Any] = field(default_factory=dict)
    sessions: list[Record] = field(default_factory=list)
    written_at: float = 0.0
    n_new: int = 0
    belonging: Belonging = field(init=False)

    def run(self) -> MeasuredSweep:
        """Claim the files, run what is missing, and write the table: top to bottom."""
        sweep = self.planned.sweep
        journal_path = self.table.with_suffix(".journal")
        with ExitStack() as stack:
            check_foreign(self.table, journal_path)
            stack.enter_context(locked(self.table.with_suffix(".lock"), self.table))
            if self.options.append:
                self.belonging = Belonging.on_top(self.table, sweep)
            else:
                self.belonging = Belonging(sweep)
            journal = stack.enter_context(Journal(journal_path, self.belonging.header))
            journal.append(self.belonging.announced(journal.records))
            self.records = [r for r in journal.records if r["kind"] == "run"]
            self.sessions = [r for r in journal.records if r["kind"] == "session"]
            check_untouched(self.table, self.records)
            log = stack.enter_context(logged(self.table.with_suffix(".log")))
            lanes = stack.enter_context(self._lanes(journal, log))
            for name, why in self.missing.items():
                log.warning("no %s: %s", name, why)
            done = {r["run"] for r in self._own()}
            waiting = [run for run in self.planned.runs if run.index not in done]
            log.info("%d runs, %d of them finished before", len(self.planned.runs), len(done))
            self._tell()
            try:
                self._make(lanes, waiting, journal, log)
            except KeyboardInterrupt:
                if self.records:  # what is finished is in the table, too
                    self._write(is_last=True)
                raise
            if not self.records:
                raise NothingUsableError(f"none of {len(waiting)} runs may be started")
            self._write(is_last=True)
        return self._result()

    def _make(
        self, lanes: Lanes, waiting: list[Run], journal: Journal, log: logging.Logger
    ) -> None:
        """Make runs, and note each as it ends."""
        for i, batch in enumerate(self._batches(waiting)):
            if i == 0:
                self._begin_session(journal)
            for finished in lanes.measure(batch):
                record = _record(finished, len(self.sessions) - 1) | self.belonging.mark
                journal.append([record])
                self.records.append(record)
                self.n_new += 1
                _complain(finished, log)
                self._tell()
                self._write(is_last=False)

    def _batches(self, waiting: list[Run]) -> Iterator[list[Run]]:
        """Yield runs to start together: all of them, or those that may, as many as run at once."""
        may_start = self.options.may_start
        if may_start is None:
            yield from [waiting] if waiting else []
            return
        batch: list[Run] = []
        for run in waiting:
            if may_start(self.records, [r.configuration for r in [*batch, run]]):
                batch.append(run)
            if len(batch) == self.planned.sweep.at_once:
                yield batch
                batch = []
        if batch:
            yield batch

    def _begin_session(self, journal: Journal) -> None:
        """Note where the runs to come are made, and where their numbers come from.

        Another command may go on with the sweep on another machine, with other meters.
        """
        session = {
            "kind": "session",
            "started_at": _now(),
            "machine": describe_machine(),
            "versions": describe_versions(),
            "sources": self.sources,
        }
        journal.append([session])
        self.sessions.append(session)

    def _lanes(self, journal: Journal, log: logging.Logger) -> Lanes:
        """Open the place where runs are made, and learn what can be measured there."""
        sweep, workload = self.planned.sweep, self.planned.workload
        if self.options.on is None:
            meters, self.missing = open_meters(sweep)
            self.sources = sources_of(meters)
            return LocalLanes(sweep, workload, meters)
        from foretell.measure.ray_lanes import RayLanes
        from foretell.measure.spread_lanes import SpreadLanes

        kind = SpreadLanes if workload.is_spread else RayLanes
        lanes = kind(sweep, workload, self.options.on, log)
        self.missing, self.sources = lanes.missing, lanes.sources
        self.nodes = {r["node"]: r["about"] for r in journal.records if r["kind"] == "node"}
        new = {name: about for name, about in lanes.nodes.items() if name not in self.nodes}
        journal.append({"kind": "node", "node": n, "about": about} for n, about in new.items())
        self.nodes |= new
        return lanes

    def _write(self, *, is_last: bool) -> None:
        """Write the table now and then, and at the end; the journal has everything in between."""
        if not is_last and time.monotonic() < self.written_at + _WRITE_EVERY_S:
            return
        about = {
            **({"nodes": self.nodes} if self.nodes else {}),
            "meters_missing": self.missing,
            **self.belonging.described(),
        }
        description = describe(self.records, self.sessions, self.table, about)
        write_table(self.records, self.table, description)
        self.written_at = time.monotonic()

    def _own(self) -> list[Record]:
        """Return the finished runs of this sweep, not of others in the same table."""
        return self.belonging.own(self.records)

    def _tell(self) -> None:
        if self.options.progress is None:
            return
        own = self._own()
        n_done, n_total = len(own), len(self.planned.runs)
        mean_s = sum(r["spent_s"] for r in own) / n_done if n_done else None
        left_s = mean_s and mean_s * (n_total - n_done) / self.planned.sweep.at_once
        n_failed = n_done - n_usable(own)
        self.options.progress(SweepProgress(n_done, n_failed, n_total, left_s))

    def _result(self) -> MeasuredSweep:
        if not n_usable(self.records):
            first = self.records[0]
            raise NothingUsableError(
                f"no run of {len(self.records)} went well. The first {first['status']}: "
                f"{first['reason']}. {self.table.with_suffix('.log')} has what the jobs printed."
            )
        return MeasuredSweep(self.table, self.records, self.missing, self.n_new)


def _complain(finished: Finished, log: logging.Logger) -> None:
    number, measured = finished.run.index + 1, finished.measured
    for complaint in measured.complaints:
        log.warning("run %d: %s", number, complaint)
    if measured.status != OK:
        log.warning("run %d %s: %s\n%s", number, measured.status, measured.reason, measured.output)


def _record(finished: Finished, session: int) -> dict[str, Any]:
    run, plain = finished.run, finished.measured.to_json()
    of_cluster = {"node": finished.node, "n_lost": finished.n_lost}
    return {
        "kind": "run",
        "run": run.index,
        "session": session,
        "configuration": run.configuration,
        "repeat": run.repeat,
        "status": plain["status"],
        "reason": plain["reason"],
        "values": plain["values"],
        "n_attempts": finished.n_attempts,
        **({} if finished.node is None else of_cluster),
        "started_at": finished.started_at,
        "ended_at": _now(),
        "spent_s": finished.spent_s,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
