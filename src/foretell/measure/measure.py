"""Measuring, the one path: a sweep in, a table of runs out; no finished run is ever lost."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from foretell.dataset import description_path, read_description
from foretell.errors import NothingUsableError, Option, UsageError
from foretell.executors import Done
from foretell.files.directory import locked, logged, make_folder, write_whole
from foretell.files.journal import Journal
from foretell.measure.running.attempt import now
from foretell.measure.running.machine import describe_machine, describe_versions
from foretell.measure.running.places import Place, open_place
from foretell.measure.running.supervisor import Measured
from foretell.measure.runs import MANY_RUNS, Run, count_runs, list_runs
from foretell.measure.sweep import Sweep, read_sweep
from foretell.measure.table import (
    Record,
    check_foreign,
    deleted_rows,
    describe,
    n_usable,
    to_csv,
    traces_folder,
)
from foretell.measure.table_sweeps import SweepInTable, journaled
from foretell.measure.workloads import Workload
from foretell.statuses import Status
from foretell.traces import SUFFIX as TRACE

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
        Whether a very large sweep is meant.
    append
        Whether the runs are added to a table that another sweep of the same job has written.
    folder
        Where the user's own modules are, for a sweep that is not a file.
    may_start
        Called before runs are started, with the records of all runs so far and the settings of
        those that would be started together. If it returns False, they are left for another time.
    """

    on: str | None = None
    is_sure: bool = False
    progress: Callable[[SweepProgress], None] | None = None
    append: bool = False
    folder: Path | None = None
    may_start: Callable[[Sequence[Record], Sequence[Mapping[str, Any]]], bool] | None = None


@dataclass(frozen=True)
class PreparedSweep:
    """A sweep ready to run."""

    sweep: Sweep
    workload: Workload
    runs: list[Run]


@dataclass(frozen=True)
class Estimate:
    """How long the rest of a sweep takes, and where the estimate comes from.

    Attributes
    ----------
    run_s, total_s
        Seconds of one run and of all that are left; None if not known.
    source
        ``finished``: the mean of finished runs; ``expected``: given in the sweep; ``limit``: the
        time limit, so that it takes at most so long.
    """

    n_left: int
    run_s: float | None
    source: str

    @property
    def total_s(self) -> float | None:
        """Seconds of all runs that are left."""
        return None if self.run_s is None else self.n_left * self.run_s


def estimate_time(prepared: PreparedSweep, table: Path | None = None) -> Estimate:
    """Estimate how long a sweep takes: from its finished runs, from its file, or at most."""
    sweep = prepared.sweep
    records = journaled(table) if table is not None else []
    runs = [record for record in records if record["kind"] == "run"]
    finished = SweepInTable.of(records, sweep).own_runs(runs)
    n_left = len(prepared.runs) - len(finished)
    if finished:
        mean_s = sum(r["spent_s"] for r in finished) / len(finished)
        return Estimate(n_left, mean_s / sweep.at_once, "finished")
    share = (1 + sweep.warm_up) / sweep.at_once
    if sweep.expected_s is not None:
        return Estimate(n_left, share * sweep.expected_s, "expected")
    limit = sweep.time_limit_s
    return Estimate(n_left, None if limit is None else share * limit, "limit")


@dataclass
class MeasuredSweep:
    """A finished sweep: the table, and all records it was written from.

    Attributes
    ----------
    missing
        Why meters do not work, by their names.
    n_new, n_deleted
        How many runs were made now, and how many rows the user has deleted from the table.
    """

    table: Path
    records: list[Record]
    missing: dict[str, str] = field(default_factory=dict)
    n_new: int = 0
    n_deleted: int = 0

    @property
    def n_ok(self) -> int:
        """How many runs went well."""
        return n_usable(self.records)


def prepare_sweep(
    source: Path | str | Mapping[str, Any], *, is_sure: bool = False, folder: Path | None = None
) -> PreparedSweep:
    """Read a sweep and list its runs; refuse very many, unless the caller is sure."""
    sweep = read_sweep(source)
    if isinstance(source, Mapping):
        return _prepared(sweep, folder or Path.cwd(), is_sure=is_sure)
    try:
        return _prepared(sweep, Path(source).resolve().parent, is_sure=is_sure)
    except UsageError as error:
        raise UsageError(f"{source}, {error.text}", remedy=error.remedy) from None


def _prepared(sweep: Sweep, folder: Path, *, is_sure: bool) -> PreparedSweep:
    workload = sweep.make_workload(folder)
    n_runs = count_runs(sweep)
    if n_runs > MANY_RUNS and not is_sure:
        raise UsageError(
            f"{n_runs:,} runs before 'only' and 'exclude'. Draw some of them, by "
            'design = {method = "latin", n = 100}',
            remedy=("or make all of them with ", Option("is_sure")),
        )
    return PreparedSweep(sweep, workload, list_runs(sweep, workload))


def measure_sweep(
    source: Path | str | Mapping[str, Any],
    output: Path | str,
    options: MeasureOptions | None = None,
) -> MeasuredSweep:
    """Make the runs of a sweep that the journal does not hold, and write the table."""
    options = options or MeasureOptions()
    prepared = prepare_sweep(source, is_sure=options.is_sure, folder=options.folder)
    return _Measurement(prepared, Path(output), options).run()


@dataclass
class _Measurement:
    prepared: PreparedSweep
    table: Path
    options: MeasureOptions
    records: list[Record] = field(default_factory=list)
    deleted: list[Record] = field(default_factory=list)
    sessions: list[Record] = field(default_factory=list)
    nodes: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    written_at: float = 0.0
    n_new: int = 0
    place: Place = field(init=False)
    in_table: SweepInTable = field(init=False)

    def run(self) -> MeasuredSweep:
        """Claim the files, run what is missing, and write the table: top to bottom."""
        journal_path = self.table.with_suffix(".journal")
        sweep, workload = self.prepared.sweep, self.prepared.workload
        with ExitStack() as stack:
            check_foreign(self.table, journal_path)
            stack.enter_context(locked(self.table.with_suffix(".lock"), self.table))
            if self.options.append:
                self.in_table = SweepInTable.appended_to(self.table, sweep)
            else:
                self.in_table = SweepInTable(sweep)
            journal = stack.enter_context(Journal(journal_path, self.in_table.header))
            log = stack.enter_context(logged(self.table.with_suffix(".log")))
            self._read(journal, log)
            self.place = stack.enter_context(open_place(sweep, workload, self.options.on, log))
            self.missing = self.place.missing
            for name, why in self.missing.items():
                log.warning("no %s: %s", name, why)
            self._note_nodes(journal)
            done = {r["run"] for r in self.in_table.own_runs([*self.records, *self.deleted])}
            waiting = [run for run in self.prepared.runs if run.index not in done]
            log.info("%d runs, %d of them finished before", len(self.prepared.runs), len(done))
            self._report_progress()
            try:
                self._make(waiting, journal, log)
            except KeyboardInterrupt:
                if self.records:  # what is finished is in the table, too
                    self._write(is_last=True)
                raise
            if not self.records and waiting:
                raise NothingUsableError(f"none of {len(waiting)} runs may be started")
            if not self.records:
                raise NothingUsableError(
                    f"all rows were deleted from {self.table}; write a new table to measure them "
                    "again"
                )
            self._write(is_last=True)
        return self._result()

    def _read(self, journal: Journal, log: logging.Logger) -> None:
        """Take over the finished runs, but for those that were deleted from the table."""
        journal.append(self.in_table.new_records(journal.records))
        runs = [r for r in journal.records if r["kind"] == "run"]
        self.sessions = [r for r in journal.records if r["kind"] == "session"]
        self.nodes = {r["node"]: r["about"] for r in journal.records if r["kind"] == "node"}
        gone = {i for r in journal.records if r["kind"] == "deleted" for i in r["runs"]}
        kept = [i for i in range(len(runs)) if i not in gone]
        new = [kept[i] for i in deleted_rows(self.table, [runs[i] for i in kept])]
        if new:
            log.warning("%d rows were deleted from the table, and stay deleted", len(new))
            journal.append([{"kind": "deleted", "runs": new}])
        self.deleted = [runs[i] for i in sorted(gone.union(new))]
        self.records = [runs[i] for i in kept if i not in new]
        if self.deleted:
            # Before any run is made: the description must not count rows that are gone, or the
            # next call would take a run that is only in the journal for deleted.
            self.missing = read_description(self.table).get("meters_missing", {})
            self._write(is_last=True)

    def _note_nodes(self, journal: Journal) -> None:
        new = {name: about for name, about in self.place.nodes.items() if name not in self.nodes}
        journal.append({"kind": "node", "node": n, "about": about} for n, about in new.items())
        self.nodes |= new

    def _make(self, waiting: list[Run], journal: Journal, log: logging.Logger) -> None:
        """Make runs, and record each as it ends."""
        for i, batch in enumerate(self._batches(waiting)):
            if i == 0:
                self._begin_session(journal)
            for done in self.place.measure(batch):
                record = _record(done, len(self.sessions) - 1) | self.in_table.mark
                self._write_trace(done.result, record)
                journal.append([record])
                self.records.append(record)
                self.n_new += 1
                _log_problems(done, log)
                self._report_progress()
                self._write(is_last=False)

    def _write_trace(self, measured: Measured, record: Record) -> None:
        """Write the trace of a run, if there is one, under its number: its row, if none is gone."""
        if measured.trace is None:
            return
        names = ("configuration", "repeat", "status", "started_at", "node")
        number = len(self.records) + len(self.deleted) + 1
        about = {n: record[n] for n in names if n in record}
        folder = traces_folder(self.table)
        make_folder(folder)
        write_whole(folder / f"{number}{TRACE}", replace(measured.trace, about=about).to_bytes())

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
            if len(batch) == self.prepared.sweep.at_once:
                yield batch
                batch = []
        if batch:
            yield batch

    def _begin_session(self, journal: Journal) -> None:
        """Record where the next runs are made, and where their numbers come from.

        Another command may continue the sweep on another machine, with other meters.
        """
        session = {
            "kind": "session",
            "started_at": now(),
            "machine": describe_machine(),
            "versions": describe_versions(),
            "sources": self.place.sources,
        }
        journal.append([session])
        self.sessions.append(session)

    def _write(self, *, is_last: bool) -> None:
        """Write the table now and then, and at the end; the journal has everything in between."""
        if not is_last and time.monotonic() < self.written_at + _WRITE_EVERY_S:
            return
        about = {
            **({"nodes": self.nodes} if self.nodes else {}),
            "meters_missing": self.missing,
            **self.in_table.described(),
        }
        description = describe(self.records, self.sessions, self.table, about)
        write_whole(self.table, to_csv(self.records))
        text = json.dumps(description, indent=1) + "\n"
        write_whole(description_path(self.table), text.encode())
        self.written_at = time.monotonic()

    def _report_progress(self) -> None:
        if self.options.progress is None:
            return
        own = self.in_table.own_runs(self.records)
        n_done, n_total = len(own), len(self.prepared.runs)
        mean_s = sum(r["spent_s"] for r in own) / n_done if n_done else None
        left_s = mean_s and mean_s * (n_total - n_done) / self.prepared.sweep.at_once
        n_failed = n_done - n_usable(own)
        self.options.progress(SweepProgress(n_done, n_failed, n_total, left_s))

    def _result(self) -> MeasuredSweep:
        if not n_usable(self.records):
            first = self.records[0]
            raise NothingUsableError(
                f"no run of {len(self.records)} went well. The first {first['status']}: "
                f"{first['reason']}. {self.table.with_suffix('.log')} has what the jobs printed."
            )
        return MeasuredSweep(self.table, self.records, self.missing, self.n_new, len(self.deleted))


def _log_problems(done: Done, log: logging.Logger) -> None:
    measured = done.result
    for complaint in measured.complaints:
        log.warning("%s: %s", done.task, complaint)
    if measured.status != Status.OK:
        log.warning("%s %s: %s\n%s", done.task, measured.status, measured.reason, measured.output)


def _record(done: Done, session: int) -> dict[str, Any]:
    run, measured = done.task, done.result
    return {
        "kind": "run",
        "run": run.index,
        "session": session,
        "configuration": run.configuration,
        "repeat": run.repeat,
        "status": str(measured.status),
        "reason": measured.reason,
        "values": measured.values,
        "n_attempts": measured.n_attempts,
        **({} if done.node is None else {"node": done.node, "n_lost": done.n_lost}),
        "started_at": measured.started_at,
        "ended_at": now(),
        "spent_s": measured.spent_s,
    }
