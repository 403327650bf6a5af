"""Measuring, the one path: a sweep in, a table of runs out; nothing that was measured is lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from foretell.errors import NothingUsableError, UsageError
from foretell.files.directory import locked, logged
from foretell.files.journal import Journal
from foretell.measure.lanes import Finished, Lanes, LocalLanes
from foretell.measure.machine import describe_machine, describe_versions
from foretell.measure.plan import MANY_RUNS, Run, count_runs, plan_runs
from foretell.measure.supervisor import OK, open_meters, sources_of
from foretell.measure.sweep import Sweep, read_sweep
from foretell.measure.table import Record, check_untouched, describe, n_usable, write_table
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
    """

    on: str | None = None
    is_sure: bool = False
    progress: Callable[[SweepProgress], None] | None = None


@dataclass(frozen=True)
class Planned:
    """A sweep ready to run: its runs, and what is known of their time."""

    sweep: Sweep
    folder: Path
    runs: list[Run]
    expected_s: float | None
    is_bound: bool


@dataclass
class MeasuredSweep:
    """A finished sweep: the table, and all records it was written from."""

    table: Path
    records: list[Record]
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def n_ok(self) -> int:
        """How many runs went well."""
        return n_usable(self.records)


def plan_sweep(source: Path | str | Mapping[str, Any], *, is_sure: bool = False) -> Planned:
    """Read a sweep and list its runs; say how long they will take, as far as anyone can."""
    sweep = read_sweep(source)
    folder = Path.cwd() if isinstance(source, Mapping) else Path(source).resolve().parent
    sweep.make_workload(folder)
    n_runs = count_runs(sweep)
    if n_runs > MANY_RUNS and not is_sure:
        raise UsageError(
            f"the sweep has {n_runs:,} runs before 'only' and 'exclude'. Add --yes if you mean it, "
            'or draw some of them: design = {method = "latin", n = 100}'
        )
    runs = plan_runs(sweep)
    n_executions = len(runs) * (1 + sweep.warm_up)
    if sweep.expected_s is not None:
        return Planned(sweep, folder, runs, n_executions * sweep.expected_s, is_bound=False)
    limit = sweep.time_limit_s
    return Planned(
        sweep, folder, runs, None if limit is None else n_executions * limit, is_bound=True
    )


def measure_sweep(
    source: Path | str | Mapping[str, Any],
    output: Path | str,
    options: MeasureOptions | None = None,
) -> MeasuredSweep:
    """Make the runs of a sweep that the journal does not hold, and write the table."""
    options = options or MeasureOptions()
    planned = plan_sweep(source, is_sure=options.is_sure)
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
    written_at: float = 0.0

    def run(self) -> MeasuredSweep:
        """Claim the files, run what is missing, and write the table: top to bottom."""
        sweep = self.planned.sweep
        workload = sweep.make_workload(self.planned.folder)
        journal_path = self.table.with_suffix(".journal")
        with ExitStack() as stack:
            stack.enter_context(locked(self.table.with_suffix(".lock"), self.table))
            journal = stack.enter_context(Journal(journal_path, {"sweep": sweep.fingerprint()}))
            self.records = [r for r in journal.records if r["kind"] == "run"]
            check_untouched(self.table, self.records)
            log = stack.enter_context(logged(self.table.with_suffix(".log")))
            lanes = stack.enter_context(self._lanes(workload, journal, log))
            for name, why in self.missing.items():
                log.warning("no %s: %s", name, why)
            done = {r["run"] for r in self.records}
            waiting = [run for run in self.planned.runs if run.index not in done]
            log.info("%d runs, %d of them finished before", len(self.planned.runs), len(done))
            for finished in lanes.measure(waiting):
                record = _record(finished)
                journal.append([record])
                self.records.append(record)
                measured = finished.measured
                if measured.status != OK:
                    log.warning("run %d %s: %s\n%s", finished.run.index, measured.status,
                                measured.reason, measured.output)  # fmt: skip
                self._tell()
                self._write(is_last=False)
            self._write(is_last=True)
        return self._result()

    def _lanes(self, workload: Workload, journal: Journal, log: logging.Logger) -> Lanes:
        """Open the place where runs are made, and learn what can be measured there."""
        sweep = self.planned.sweep
        if self.options.on is None:
            meters, self.missing = open_meters(sweep)
            self.sources = sources_of(meters)
            return LocalLanes(sweep, workload, meters)
        from foretell.measure.ray_lanes import RayLanes

        lanes = RayLanes(sweep, workload, self.options.on, log)
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
            "machine": describe_machine(),
            "versions": describe_versions(),
            **({"nodes": self.nodes} if self.nodes else {}),
            "meters_missing": self.missing,
            "started_at": min(r["started_at"] for r in self.records),
            "ended_at": _now(),
            "sweep": self.planned.sweep.model_dump(
                mode="json", by_alias=True, exclude_defaults=True
            ),
        }
        description = describe(self.records, self.table, self.sources, about)
        write_table(self.records, self.table, description)
        self.written_at = time.monotonic()

    def _tell(self) -> None:
        if self.options.progress is None:
            return
        n_done, n_total = len(self.records), len(self.planned.runs)
        spent_s = [r["spent_s"] for r in self.records]
        left_s = sum(spent_s) / len(spent_s) * (n_total - n_done) / self.planned.sweep.at_once
        n_failed = n_done - n_usable(self.records)
        self.options.progress(SweepProgress(n_done, n_failed, n_total, left_s))

    def _result(self) -> MeasuredSweep:
        if not n_usable(self.records):
            first = self.records[0]
            raise NothingUsableError(
                f"no run of {len(self.records)} went well. The first {first['status']}: "
                f"{first['reason']}. {self.table.with_suffix('.log')} has what the jobs printed."
            )
        return MeasuredSweep(self.table, self.records, self.missing)


def _record(finished: Finished) -> dict[str, Any]:
    run, plain = finished.run, finished.measured.to_json()
    began = datetime.fromisoformat(finished.started_at)
    of_cluster = {"node": finished.node, "n_lost": finished.n_lost}
    return {
        "kind": "run",
        "run": run.index,
        "configuration": run.configuration,
        "repeat": run.repeat,
        "status": plain["status"],
        "reason": plain["reason"],
        "values": plain["values"],
        "n_attempts": finished.n_attempts,
        **({} if finished.node is None else of_cluster),
        "started_at": finished.started_at,
        "spent_s": round((datetime.now(UTC) - began).total_seconds(), 3),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
