"""Making one run: a runner in a process of its own, meters around it, and limits that hold."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import psutil

from foretell.measure.meters import METERS, Meter, Setting, Tree
from foretell.measure.meters.memory import resident_bytes
from foretell.measure.sweep import Sweep
from foretell.measure.workloads import Workload

_SAMPLE_S = 0.02
_START_LIMIT_S = 120.0
_GRACE_S = 0.5
_MOST_OUTPUT = 4000  # characters of what a failed job printed that are kept

OK, FAILED, TIMED_OUT, OUT_OF_MEMORY, LOST = "ok", "failed", "timed out", "out of memory", "lost"


@dataclass
class Measured:
    """What came of one run.

    Attributes
    ----------
    values
        Columns and what was measured; of a run that timed out, its time is a lower bound.
    output
        The end of what the job printed, if it went wrong.
    """

    status: str
    reason: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    output: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def open_meters(sweep: Sweep) -> tuple[list[Meter], dict[str, str]]:
    """Return the meters that work on this machine, and why the others do not."""
    names = METERS.names() if sweep.meters is None else sweep.meters
    setting = Setting(sweep.power)
    found = {name: METERS.get(name)(setting) for name in names}
    missing = {name: why for name, meter in found.items() if (why := meter.missing()) is not None}
    return [meter for name, meter in found.items() if name not in missing], missing


def sources_of(meters: Sequence[Meter]) -> dict[str, str]:
    """Return where the numbers of each column come from."""
    return {column: meter.source() for meter in meters for column in meter.columns}


class Supervisor:
    """Makes runs, one at a time; where a workload allows it, in one process after another run."""

    def __init__(self, sweep: Sweep, workload: Workload, meters: Sequence[Meter]) -> None:
        self._sweep = sweep
        self._workload = workload
        self._meters = meters
        self._runner: _Runner | None = None

    def measure(self, configuration: Mapping[str, Any]) -> Measured:
        """Make one run and return what was measured."""
        oom_before = _oom_kills()
        try:
            if self._runner is None:
                self._runner = _Runner(self._sweep, self._workload)
            measured = self._measure(self._runner, configuration)
        except _RunnerError as error:
            measured = Measured(FAILED, str(error), output=self._output())
        if measured.status == FAILED and _oom_kills() > oom_before:
            measured.status = OUT_OF_MEMORY
            measured.reason = f"the kernel ended it for want of memory; {measured.reason}"
        if measured.status != OK or not self._workload.shares_process:
            self.close()
        return measured

    def close(self) -> None:
        """End the runner and all it started."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _output(self) -> str:
        return "" if self._runner is None else self._runner.printed()

    def _measure(self, runner: _Runner, configuration: Mapping[str, Any]) -> Measured:
        tree = Tree(psutil.Process(runner.pid), self._workload.is_job)
        runner.send({"configuration": dict(configuration)})
        message = runner.receive(time.monotonic() + _START_LIMIT_S)
        if message is None:
            return Measured(FAILED, f"the job did not begin within {_START_LIMIT_S:g} s")
        values: dict[str, Any] = {}
        if message.get("event") == "begin":
            outcome = self._watch(runner, tree, values)
            if isinstance(outcome, Measured):
                return outcome
            message = outcome
        answer = message["answer"]
        if answer["wall_time_s"] is not None:
            values = {"wall_time_s": answer["wall_time_s"], **values}
        values |= {f"{name}_s": s for name, s in answer["stages_s"].items()}
        values |= answer["numbers"]
        output = "" if answer["status"] == OK else runner.printed()
        return Measured(answer["status"], answer["reason"], values, output)

    def _watch(
        self, runner: _Runner, tree: Tree, values: dict[str, Any]
    ) -> Measured | dict[str, Any]:
        """Sample the job until it ends or exceeds a limit; return its answer, or how it failed."""
        for meter in self._meters:
            meter.start(tree)
        started = time.monotonic()
        runner.say_go()
        stopped = self._sampled(runner, tree, started)
        if not isinstance(stopped, Measured):
            tree.child_peak_bytes.append(int(stopped.get("child_peak_bytes", 0)))
        for meter in self._meters:
            values.update(meter.stop(tree))
        if isinstance(stopped, Measured):
            runner.stop()
            stopped.values = {**stopped.values, **values}
            stopped.output = runner.printed()
            return stopped
        runner.say_go()
        message = runner.receive(time.monotonic() + _START_LIMIT_S)
        if message is None:
            return Measured(FAILED, "the job ended and its process does not answer", values)
        return message

    def _sampled(self, runner: _Runner, tree: Tree, started: float) -> Measured | dict[str, Any]:
        """Wait for the job's end; return the message that says so, or what went wrong."""
        time_limit = self._sweep.time_limit_s
        memory_limit = self._sweep.memory_limit_mib
        while True:
            for meter in self._meters:
                meter.sample(tree)
            message = runner.receive(time.monotonic() + _SAMPLE_S)
            if message is not None:
                return message
            elapsed = time.monotonic() - started
            if time_limit is not None and elapsed > time_limit:
                reason = f"it took more than {time_limit:g} s; its time is a lower bound"
                return Measured(TIMED_OUT, reason, {"wall_time_s": time_limit})
            if memory_limit is not None and resident_bytes(tree) > memory_limit * 2**20:
                reason = f"it held more than {memory_limit:g} MiB of memory"
                return Measured(OUT_OF_MEMORY, reason)


class _RunnerError(Exception):
    """The runner's process ended, or never began."""


class _Runner:
    """The process that makes runs, and the pipes to it."""

    def __init__(self, sweep: Sweep, workload: Workload) -> None:
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - until close
        reader, writer = os.pipe()
        self._answers = reader
        self._pending = b""
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "foretell.measure.runner", str(writer)],
            stdin=subprocess.PIPE,
            stdout=self._printed,
            stderr=subprocess.STDOUT,
            pass_fds=(writer,),
            start_new_session=True,  # so that all it starts can be ended together
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        os.close(writer)
        self.send({"workload": sweep.workload, "folder": str(workload.folder)})

    @property
    def pid(self) -> int:
        """The process id of the runner."""
        return self._process.pid

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one line."""
        self._write((json.dumps(message) + "\n").encode())

    def say_go(self) -> None:
        """Let the runner go on."""
        self._write(b"\n")

    def _write(self, content: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(content)
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def receive(self, deadline: float) -> dict[str, Any] | None:
        """Return the next message, or None if there is none until then."""
        while b"\n" not in self._pending:
            wait_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._answers], [], [], wait_s)[0]:
                return None
            part = os.read(self._answers, 1 << 16)
            if not part:
                raise self._ended()
            self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _ended(self) -> _RunnerError:
        try:
            status = self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            return _RunnerError("the process of the job hung up")
        if status < 0:
            return _RunnerError(f"the process of the job was ended by signal {-status}")
        lines = self.printed().strip().splitlines()
        return _RunnerError(lines[-1] if lines else f"the process of the job exited with {status}")

    def printed(self) -> str:
        """Return the end of what the job has printed."""
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _MOST_OUTPUT))
        return self._printed.read().decode(errors="replace")

    def stop(self) -> None:
        """End the process and all that it started, even those that left its group."""
        try:
            family = psutil.Process(self.pid).children(recursive=True)
        except psutil.Error:
            family = []
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for process in family:
            with contextlib.suppress(psutil.Error):
                process.kill()

    def close(self) -> None:
        """Hang up, and see that nothing is left."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        if self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
        self.stop()
        self._process.wait()
        os.close(self._answers)
        self._printed.close()


def _oom_kills() -> int:
    """Return how many processes the kernel has ended for want of memory so far."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
