"""Makes one run: a job in a process of its own, meters that watch it, and limits that hold."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from foretell.measure.meters import METERS, Meter, Setting, Tree
from foretell.measure.meters.memory import resident_bytes
from foretell.measure.meters.panel import Panel
from foretell.measure.running.cpu_limit import CpuLimit
from foretell.measure.running.runner_process import Failure, RunnerProcess
from foretell.measure.sweep import Sweep, reserved_names
from foretell.measure.workloads import Workload
from foretell.statuses import Status
from foretell.traces import Trace

#: Between samples of a job: often at first, as it may be short; later less, as samples cost time.
_FIRST_SAMPLE_S, _SAMPLE_S, _SAMPLE_GROWTH = 0.001, 0.1, 1.3
_MOST_TEXT = 10_000  # characters in a cell
_MOST_REASON = 300
_ANSWER_LIMIT_S = 120.0  # for the runner itself, not for the job


@dataclass
class Measured:
    """The outcome of one run.

    Attributes
    ----------
    values
        Columns and what was measured; of a run that timed out, its time is a lower bound.
    output
        The end of what the job printed, if it went wrong.
    complaints
        What was wrong with meters.
    trace
        Samples of the run, if the sweep asks for them.
    n_attempts, started_at, spent_s
        How many attempts there were, when the last one began, and the time of all of them and of
        warming up.
    """

    status: Status
    reason: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    complaints: list[str] = field(default_factory=list)
    trace: Trace | None = None
    n_attempts: int = 1
    started_at: str = ""
    spent_s: float = 0.0

    def __post_init__(self) -> None:
        self.reason = one_line(self.reason)[:_MOST_REASON]
        self.values = {
            name: one_line(value) if isinstance(value, str) else value
            for name, value in self.values.items()
        }


def one_line(text: str) -> str:
    """Make a text fit for a cell of a table: one line, of characters that any reader takes.

    >>> one_line("no\\x00 luck\\r\\nat all\\udcff")
    'no luck at all?'
    """
    plain = text.encode("utf-8", "replace").decode()
    kept = " ".join("".join(c for c in plain if c.isprintable() or c.isspace()).split())
    return kept[:_MOST_TEXT]


def open_meters(sweep: Sweep) -> tuple[list[Meter], dict[str, str]]:
    """Return the meters that work on this machine, and why the others do not."""
    names = METERS.names() if sweep.meters is None else sweep.meters
    setting = Setting(sweep.power)
    found = {name: METERS.get(name)(setting) for name in names}
    missing = {name: why for name, meter in found.items() if (why := meter.missing()) is not None}
    return [meter for name, meter in found.items() if name not in missing], missing


class AbortedError(Exception):
    """No more runs are to be made."""


def sources_of(meters: Sequence[Meter]) -> dict[str, str]:
    """Return where the numbers of each column come from."""
    return {column: meter.source() for meter in meters for column in meter.columns}


class Supervisor:
    """Makes runs, one at a time; where a workload allows it, many of them in one process."""

    def __init__(self, sweep: Sweep, workload: Workload, meters: Sequence[Meter]) -> None:
        self._sweep = sweep
        self._workload = workload
        self._meters = meters
        self._runner: RunnerProcess | None = None
        self._limit: CpuLimit | None = None
        self._is_aborted = False

    def measure(self, configuration: Mapping[str, Any]) -> Measured:
        """Make one run and return what was measured."""
        if self._is_aborted:
            raise AbortedError
        n_ended_before = _oom_kills()
        status, reason, output = Status.OK, "", ""
        values: dict[str, Any] = {}
        panel = Panel(self._meters, is_traced=self._sweep.traces)
        try:
            self._make(configuration, panel, values)
        except Failure as failure:
            status, reason = failure.status, failure.reason
            output = "" if self._runner is None else self._runner.printed()
        if status == Status.FAILED and _oom_kills() > n_ended_before:
            status, reason = (
                Status.OUT_OF_MEMORY,
                f"the kernel ended it because memory ran out; {reason}",
            )
        if status != Status.OK or not self._workload.shares_process:
            self.close()  # the next run gets a process that is fit for it
        elif not self._workload.is_job and self._runner is not None:
            self._runner.end_leftovers()
        wall = {"wall_time_s": values.pop("wall_time_s")} if "wall_time_s" in values else {}
        trace = panel.trace()
        return Measured(status, reason, {**wall, **values}, output, panel.complaints, trace)

    def abort(self) -> None:
        """End the run that another thread makes, and make no more."""
        self._is_aborted = True
        if self._runner is not None:
            self._runner.stop()

    def close(self) -> None:
        """End the runner and all it started."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None
        if self._limit is not None:
            self._limit.close()
            self._limit = None

    def _make(self, configuration: Mapping[str, Any], panel: Panel, values: dict[str, Any]) -> None:
        """Make one run, noting what is measured; raise a Failure if it goes wrong."""
        if self._runner is not None and not self._runner.is_alive:
            self.close()
        if self._runner is None:
            self._runner = RunnerProcess(self._sweep, self._workload)
        runner = self._runner
        runner.request({"configuration": dict(configuration)})
        answer = self._answer(runner, panel, values, self._sweep.cpu_limit_of(configuration))
        if answer["wall_time_s"] is not None:
            values["wall_time_s"] = answer["wall_time_s"]
        stages = {f"{name}_s": seconds for name, seconds in answer["stages_s"].items()}
        taken = {*configuration, *reserved_names()}
        for name, value in [*stages.items(), *answer["numbers"].items()]:
            if name in taken or name in values:
                raise Failure(
                    Status.FAILED, f"it reports '{name}', the name of another column; rename it"
                )
            values[name] = value
        if answer["status"] != Status.OK:
            raise Failure(Status(answer["status"]), answer["reason"])

    def _answer(
        self,
        runner: RunnerProcess,
        panel: Panel,
        values: dict[str, Any],
        cpu_limit: float | None,
    ) -> dict[str, Any]:
        """Wait for the job to begin, watch it, and return the answer of the runner."""
        limit_s = self._sweep.time_limit_s or float("inf")
        message = self._expected(runner, _ANSWER_LIMIT_S + limit_s, "the job did not begin")
        if message.get("event") == "begin":
            with self._limited(runner, cpu_limit):
                self._watch(runner, panel, values)
            runner.say_go()
            message = self._expected(
                runner, _ANSWER_LIMIT_S, "the job ended, and its results did not come"
            )
        answer = message.get("answer")
        if not isinstance(answer, dict):
            raise Failure(Status.FAILED, "its process sent an unexpected message")
        return answer

    def _limited(
        self, runner: RunnerProcess, cpu_limit: float | None
    ) -> AbstractContextManager[None]:
        """Limit the CPU time of the job, but not of what prepares it."""
        if cpu_limit is None:
            return nullcontext()
        if self._limit is None:
            self._limit = CpuLimit()
        return self._limit.held(runner.pid, cpu_limit, is_job=self._workload.is_job)

    def _expected(self, runner: RunnerProcess, limit_s: float, otherwise: str) -> dict[str, Any]:
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            message = runner.receive(min(deadline, time.monotonic() + 1.0))
            if message is not None:
                return message
        raise Failure(Status.FAILED, f"{otherwise} within {limit_s:g} s")

    def _watch(self, runner: RunnerProcess, panel: Panel, values: dict[str, Any]) -> None:
        """Measure the job from its beginning to its end, or to the limit it exceeds."""
        tree = Tree(psutil.Process(runner.pid), self._workload.is_job)
        panel.start(tree)
        started = time.monotonic()
        try:
            runner.say_go()
            message = self._sampled(runner, tree, panel, started)
            tree.child_peak_bytes = int(message.get("child_peak_bytes", 0))
        except Failure as failure:
            if failure.status == Status.TIMED_OUT:
                values["wall_time_s"] = self._sweep.time_limit_s
            raise
        finally:
            values.update(panel.stop(tree))

    def _sampled(
        self, runner: RunnerProcess, tree: Tree, panel: Panel, started: float
    ) -> dict[str, Any]:
        """Look at the job until it ends; return the message that says so."""
        time_limit = self._sweep.time_limit_s
        memory_limit = self._sweep.memory_limit_mib
        pause_s = _FIRST_SAMPLE_S
        while True:
            panel.sample(tree)
            message = runner.receive(time.monotonic() + pause_s)
            if message is not None:
                return message
            pause_s = min(_SAMPLE_GROWTH * pause_s, _SAMPLE_S)
            if time_limit is not None and time.monotonic() - started > time_limit:
                reason = f"it took more than {time_limit:g} s; its time is a lower bound"
                raise Failure(Status.TIMED_OUT, reason)
            if memory_limit is not None and resident_bytes(tree) > memory_limit * 2**20:
                reason = f"it held more than {memory_limit:g} MiB of memory"
                raise Failure(Status.OUT_OF_MEMORY, reason)


def _oom_kills() -> int:
    """Return how many processes the kernel has ended because memory ran out."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
