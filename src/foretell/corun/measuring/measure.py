"""Measuring co-runs, the one path: a set in, a journal and traces out; no finished run is lost."""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from foretell.corun.facts import machine_facts, usable_cpus
from foretell.corun.measuring.set_file import (
    ALONE,
    CoRunSet,
    Planned,
    planned_runs,
    profile_name,
    read_set,
)
from foretell.corun.measuring.table import write_table
from foretell.corun.profile import LEAST_SAMPLES, Profile, check_samples, run_alone
from foretell.corun.running.together import JobOrder, RunTogether, run_together
from foretell.decide.corun.jobs import pinned
from foretell.errors import NothingUsableError
from foretell.files.directory import JOURNAL, claimed, make_folder, write_whole
from foretell.files.journal import Journal
from foretell.measure.running.machine import describe_versions
from foretell.statuses import Status
from foretell.traces import Trace

#: How a run went: usable, disturbed by others even at the last attempt, or a program failed.
OK, DISTURBED, FAILED = "ok", "disturbed", Status.FAILED.value
PROFILES, TRACES, ABOUT = "profiles", "traces", "about.json"
_STEPS = 64
_KEPT = ("cpu_time_s", "wait_time_s", "read_bytes", "written_bytes", "memory_bytes")


@dataclass(frozen=True)
class MeasureProgress:
    """How far a measurement is."""

    n_done: int
    n_total: int
    n_failed: int
    left_s: float | None


@dataclass(frozen=True)
class MeasuredSet:
    """What was measured.

    Attributes
    ----------
    folder
        Where the journal, the table, profiles and traces are.
    n_ok, n_disturbed, n_failed
        How the runs went.
    failures
        What went wrong, by the name of the run.
    """

    folder: Path
    n_ok: int
    n_disturbed: int
    failures: Mapping[str, str]


def measure_co_runs(
    source: Path | str | Mapping[str, Any] | CoRunSet,
    output: Path | str,
    *,
    progress: Callable[[MeasureProgress], None] = lambda now: None,
) -> MeasuredSet:
    """Measure programs alone and together; the same call continues where it was stopped.

    Parameters
    ----------
    source
        A set file, or a dict of its shape. Programs run in the folder of the file.
    output
        A folder for the journal, the table of runs, profiles and traces.
    """
    given = read_set(source)
    home = Path(source).resolve().parent if isinstance(source, str | Path) else Path.cwd()
    folder = Path(output)
    runs = planned_runs(given)
    with claimed(folder), Journal(folder / JOURNAL, _fingerprint(given)) as journal:
        for name in (PROFILES, TRACES):
            make_folder(folder / name)
        measuring = _Measuring(given, home, folder, journal)
        began = time.monotonic()
        left = [run for run in runs if measuring.is_left(run)]
        for k, run in enumerate(left):
            measuring.make(run)
            write_table(folder, measuring.done.values())  # so that a kill leaves one
            pace = (time.monotonic() - began) / (k + 1)
            n_left = len(left) - k - 1
            progress(
                MeasureProgress(len(runs) - n_left, len(runs), measuring.n_failed, pace * n_left)
            )
        write_table(folder, measuring.done.values())
        write_about(folder, measuring.done.values())
        return measuring.outcome()


def write_about(folder: Path, records: Collection[Mapping[str, Any]]) -> None:
    """Write what the table is of: the machine, versions, and when runs were made."""
    times = sorted(record["at"] for record in records if "at" in record)
    about = {**machine_facts().model_dump(), "versions": describe_versions()}
    if times:
        about |= {
            "began": times[0][:16].replace("T", " "),
            "ended": times[-1][:16].replace("T", " "),
        }
    write_whole(folder / ABOUT, (json.dumps(about, indent=1) + "\n").encode())


def _fingerprint(given: CoRunSet) -> dict[str, str]:
    facts = machine_facts().model_dump(exclude={"memory_bytes"})  # which kernels tell differently
    text = json.dumps([given.model_dump(), facts], sort_keys=True)
    return {"co-runs": hashlib.sha256(text.encode()).hexdigest()[:16]}


class _Measuring:
    """Makes runs that are not in the journal yet, and writes each of them down when it is over."""

    def __init__(self, given: CoRunSet, home: Path, folder: Path, journal: Journal) -> None:
        self._given, self._home, self._folder, self._journal = given, home, folder, journal
        self.done: dict[str, dict[str, Any]] = {r["key"]: r for r in journal.records}
        self._facts = machine_facts()

    def is_left(self, run: Planned) -> bool:
        """Whether a run was not made yet, or failed before: then it is made again."""
        return run.key not in self.done or self.done[run.key]["status"] == FAILED

    @property
    def n_failed(self) -> int:
        """How many runs failed."""
        return sum(record["status"] == FAILED for record in self.done.values())

    def outcome(self) -> MeasuredSet:
        """Return how all runs went."""
        records = self.done.values()
        return MeasuredSet(
            self._folder,
            sum(r["status"] == OK for r in records),
            sum(r["status"] == DISTURBED for r in records),
            {r["key"]: r["reason"] for r in records if r["status"] == FAILED},
        )

    def make(self, run: Planned) -> None:
        """Make one run, again if it was disturbed, and keep the least disturbed attempt."""
        broken = [name for name in run.programs if self._fails_alone(name)]
        if run.kind != ALONE and broken:
            reason = f"'{broken[0]}' fails alone"
            return self._keep(run, {"status": FAILED, "reason": reason, "jobs": []})
        orders = self._orders(run)
        attempts: list[RunTogether] = []
        for _ in range(self._given.attempts):
            attempts.append(self._attempt(run, orders))
            if self._is_good(attempts[-1]) or any(job.failure for job in attempts[-1].jobs):
                break
        done = attempts[-1] if any(j.failure for j in attempts[-1].jobs) else min(
            attempts, key=lambda a: (bool(_fault(run, a)), a.disturbed + a.steal)
        )  # fmt: skip
        self._write_samples(run, done)
        return self._keep(run, self._record(run, done, len(attempts)))

    def _attempt(self, run: Planned, orders: Sequence[JobOrder]) -> RunTogether:
        if run.kind == ALONE:
            return run_alone(orders[0], priority=self._given.priority)
        return run_together(orders, priority=self._given.priority)

    def _is_good(self, done: RunTogether) -> bool:
        given = self._given
        kept = max(done.steal, done.throttled)
        return done.disturbed <= given.max_disturbed and kept <= given.max_steal

    def _fails_alone(self, name: str) -> bool:
        first = self.done.get(Planned(ALONE, (name,)).key)
        return first is not None and first["status"] == FAILED

    def _alone_s(self, name: str) -> float:
        """Return the median time of a program alone, by undisturbed runs if there are any."""
        records = [
            self.done[key]
            for k in range(self._given.alone)
            if (key := Planned(ALONE, (name,), k).key) in self.done
        ]
        good = [r for r in records if r["status"] == OK] or records
        times = [j["ended_s"] - j["began_s"] for r in good for j in r["jobs"]]
        if not times:
            raise NothingUsableError(f"'{name}' has not run alone")
        return float(statistics.median(times))

    def _orders(self, run: Planned) -> list[JobOrder]:
        starts = [0.0] * len(run.programs)
        if run.shift:
            starts[1] = run.shift * self._alone_s(run.programs[0])
        cpus: list[frozenset[int]] = [frozenset()] * len(run.programs)
        if run.pin:
            used = [self._cores(name) for name in run.programs]
            there = usable_cpus()
            layout = pinned(used, self._facts.n_usable)[run.pin]
            cpus = [frozenset(there[k] for k in own) for own in layout]
        return [
            JobOrder(name, self._given.program[name].command, start, tuple(sorted(own)), self._home)
            for name, start, own in zip(run.programs, starts, cpus, strict=True)
        ]

    def _cores(self, name: str) -> float:
        job = self.done[Planned(ALONE, (name,)).key]["jobs"][0]
        return float(job["cpu_time_s"] / (job["ended_s"] - job["began_s"]))

    def _record(self, run: Planned, done: RunTogether, n_attempts: int) -> dict[str, Any]:
        fault = _fault(run, done)
        status = FAILED if fault else OK if self._is_good(done) else DISTURBED
        return {
            "status": status,
            "reason": fault,
            "jobs": [
                {
                    "name": job.name, "began_s": job.began_s, "ended_s": job.ended_s,
                    "cpu_time_s": job.cpu_time_s, "waited_s": job.waited_s,
                }
                for job in done.jobs
            ],
            "n_attempts": n_attempts,
            "disturbed": done.disturbed,
            "steal": done.steal,
            "throttled": done.throttled,
            "other_load": done.other_load,
            "overhead": done.overhead,
        }  # fmt: skip

    def _keep(self, run: Planned, found: dict[str, Any]) -> None:
        record = {
            "kind": run.kind, "key": run.key, "programs": list(run.programs),
            "repeat": run.repeat, "shift": run.shift, "pin": run.pin,
            "at": datetime.now(UTC).isoformat(timespec="seconds"), **found,
        }  # fmt: skip
        self._journal.append([record])
        self.done[run.key] = record

    def _write_samples(self, run: Planned, done: RunTogether) -> None:
        """Write the samples before the record: a run counts only once both are there."""
        if _fault(run, done):
            return
        if run.kind == ALONE:
            job = done.jobs[0]
            words = self._given.program[job.name].command
            profile = Profile(
                job.name, words, job.trace, job.wall_s, False, 0.0, self._facts, None,
                done.disturbed + done.steal, done.overhead, done.kernel_time_s, done.throttled,
            )  # fmt: skip
            name = profile_name(job.name, run.repeat)
            write_whole(self._folder / PROFILES / name, profile.to_bytes())
            return
        path = self._folder / TRACES / f"{run.key}.trace"
        write_whole(path, joint_trace(done).to_bytes())


def _fault(run: Planned, done: RunTogether) -> str:
    """Return why a run has no use; empty if it has. A run alone has to make a profile."""
    if failed := [f"{job.name}: {job.failure}" for job in done.jobs if job.failure]:
        return "; ".join(failed)
    if run.kind != ALONE:
        return ""
    job = done.jobs[0]
    if len(job.trace) < LEAST_SAMPLES:
        return (
            f"{job.name}: too short: it took {job.wall_s:.2f} s, and {len(job.trace)} samples were "
            f"taken; a profile needs {LEAST_SAMPLES}"
        )
    try:
        check_samples(job.trace, job.wall_s)
    except ValueError as error:
        return f"{job.name}: {error}"
    return ""


def joint_trace(done: RunTogether) -> Trace:
    """Return the samples of all jobs at common times: ``1.cpu_time_s`` is of the first job."""
    times = np.linspace(0, max(job.ended_s for job in done.jobs), _STEPS + 1)[1:]
    columns = {}
    for k, job in enumerate(done.jobs):
        for name in _KEPT:
            if len(job.trace):
                own = np.concatenate([[job.began_s], job.began_s + job.trace.times_s])
                values = np.concatenate([[0.0], job.trace.columns[name]])
                right = 0.0 if name == "memory_bytes" else None
                columns[f"{k + 1}.{name}"] = np.interp(times, own, values, left=0.0, right=right)
    ends = [[job.began_s, job.ended_s] for job in done.jobs]
    return Trace(times, columns, {"jobs": [job.name for job in done.jobs], "ends_s": ends})
