"""Jobs run alone or together: each starts at its time, is sampled, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.errors import NothingUsableError, Option, UsageError
from foretell.measure.running.machine import usable_cores
from foretell.measure.running.printed import Printed
from foretell.traces import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

INTERVAL_S = 0.05
_MOST_KEPT = 1 << 20
_MOST_PRINTED = 4000
_STEPS = 16  # in which what was lost is added up: the kernel counts CPU time in 0.01 s


@dataclass(frozen=True)
class JobOrder:
    """A job to run.

    Attributes
    ----------
    start_s
        When it starts, in seconds after the first.
    cpus
        The cores it may use; empty means all.
    limit_s
        After how long it is stopped; None means that it runs to its end.
    """

    name: str
    command: tuple[str, ...]
    start_s: float = 0.0
    cpus: tuple[int, ...] = ()
    folder: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    limit_s: float | None = None


@dataclass(frozen=True, eq=False)
class JobRun:
    """How one job ran.

    Attributes
    ----------
    began_s, ended_s
        When it began and ended, in seconds since the run began.
    failure
        What went wrong; empty if nothing did.
    was_stopped
        Whether it was stopped at its limit.
    printed
        The end of what it printed.
    """

    name: str
    began_s: float
    ended_s: float
    cpu_time_s: float
    trace: Trace
    failure: str = ""
    was_stopped: bool = False
    printed: str = ""

    @property
    def wall_s(self) -> float:
        """How long it took."""
        return self.ended_s - self.began_s

    @property
    def waited_s(self) -> float:
        """How long its threads waited for a core."""
        waits = self.trace.columns["wait_time_s"]
        return float(waits[-1]) if len(waits) else 0.0


@dataclass(frozen=True, eq=False)
class RunTogether:
    """Jobs that ran on one machine, and what else happened on it.

    Attributes
    ----------
    kernel_time_s
        CPU time of threads of the kernel, which write to disks for these jobs.
    other_load
        Cores that other processes kept busy, on average.
    disturbed
        Cores that others kept busy while these jobs wanted them and had fewer than there are, on
        average: what others have slowed them by.
    steal
        Cores that the host of a virtual machine kept for others, on average.
    throttled
        The share of the time in which a limit on CPU time held processes back.
    overhead
        CPU time of watching, as a share of the time.
    """

    jobs: tuple[JobRun, ...]
    wall_s: float
    kernel_time_s: float
    other_load: float
    disturbed: float
    steal: float
    throttled: float
    overhead: float


def run_together(
    orders: Sequence[JobOrder], *, interval_s: float = INTERVAL_S, priority: bool = False
) -> RunTogether:
    """Run jobs together, and return how each of them ran; nothing that they started is left."""
    if not Path("/proc/self/stat").exists():
        raise UsageError("jobs are sampled through /proc, which only Linux has; run this on Linux")
    if priority and os.geteuid() != 0:
        raise UsageError(
            "running before other processes needs root; leave it out, and use an idle machine",
            option=Option("priority"),
        )
    with ExitStack() as stack:
        outputs = [stack.enter_context(closing(Printed(_MOST_KEPT))) for _ in orders]
        for output in outputs:
            stack.enter_context(output.trimmed())
        order = {
            "interval_s": interval_s,
            "jobs": [_plain(o, p, priority) for o, p in zip(orders, outputs, strict=True)],
        }
        answer = _answer(order, [p.file.fileno() for p in outputs])
        printed = [p.end(_MOST_PRINTED) for p in outputs]
    found = zip(orders, answer["jobs"], printed, strict=True)
    jobs = tuple(_job_run(o, a, text, answer["columns"]) for o, a, text in found)
    return _whole(orders, jobs, answer)


def _plain(order: JobOrder, output: Printed, priority: bool) -> dict[str, Any]:
    return {
        "command": list(order.command),
        "start_s": order.start_s,
        "cpus": list(order.cpus),
        "folder": None if order.folder is None else str(order.folder),
        "env": dict(order.env),
        "limit_s": order.limit_s,
        "priority": priority,
        "output": output.file.fileno(),
    }


def _answer(order: dict[str, Any], outputs: list[int]) -> dict[str, Any]:
    """Start the process that runs jobs, and wait; if this process ends, so does all of it."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "foretell.corun.running.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=outputs,
    ) as child:
        assert child.stdin is not None and child.stdout is not None and child.stderr is not None
        try:
            child.stdin.write(json.dumps(order).encode() + b"\n")
            child.stdin.flush()
            content = child.stdout.read()
        except BaseException:
            child.stdin.close()  # which ends it, and all jobs
            child.wait()
            raise
        complaint = child.stderr.read().decode(errors="replace").strip()
    try:
        answer: dict[str, Any] = json.loads(content)
    except ValueError:
        last = complaint.splitlines()[-1] if complaint else "it said nothing"
        raise NothingUsableError(f"the process that watches jobs ended: {last}") from None
    return answer


def _job_run(
    order: JobOrder, answer: Mapping[str, Any], printed: str, names: Sequence[str]
) -> JobRun:
    import numpy as np

    rows = np.array(answer["rows"], dtype=float).reshape(-1, 1 + len(names)).T
    trace = Trace(rows[0].copy(), {n: v.copy() for n, v in zip(names, rows[1:], strict=True)})
    was_stopped = answer["reason"] == "limit"
    failure = "" if was_stopped else answer["reason"]
    if answer["exit"]:
        failure = _failure(answer["exit"], printed)
    return JobRun(
        order.name, answer["began_s"], answer["ended_s"], answer["cpu_time_s"], trace,
        failure, was_stopped, printed,
    )  # fmt: skip


def _failure(status: int, printed: str) -> str:
    how = f"it was ended by signal {-status}" if status < 0 else f"it exited with {status}"
    lines = printed.strip().splitlines()
    return f"{how}: {lines[-1][:300]}" if lines else how


def _whole(
    orders: Sequence[JobOrder], jobs: tuple[JobRun, ...], answer: Mapping[str, Any]
) -> RunTogether:
    wall_s, machine = max(answer["wall_s"], 1e-6), answer["machine"]
    used_s = sum(max(job.cpu_time_s, _last(job, "cpu_time_s")) for job in jobs)
    own_s = used_s + answer["kernel_s"] + answer["watch_cpu_s"]
    other_s = max(0.0, machine["busy_s"] - own_s)
    n_cores = usable_cores() or 1
    lost_s = 0.0
    for cpus in {order.cpus for order in orders}:
        own = [
            (job.began_s + job.trace.times_s, job.trace)
            for order, job in zip(orders, jobs, strict=True)
            if order.cpus == cpus and len(job.trace)
        ]
        lost_s += lost_core_s(own, len(cpus) or n_cores)
    return RunTogether(
        jobs,
        wall_s,
        answer["kernel_s"],
        other_s / wall_s,
        min(other_s, lost_s) / wall_s,
        max(0.0, machine["steal_s"]) / wall_s,
        max(0.0, machine["throttled_s"]) / wall_s,
        answer["watch_cpu_s"] / wall_s,
    )


def lost_core_s(traces: Sequence[tuple[Array, Trace]], n_cores: int) -> float:
    """Return the core seconds that jobs wanted and did not have, beyond what they lack together.

    Threads that run or wait for a core want one. If the jobs want more cores than there are, they
    wait for one another, and only what they had less than all cores was lost to others.

    Parameters
    ----------
    traces
        Of each job the times of its samples, on a common clock, and the samples.
    n_cores
        How many cores these jobs share.
    """
    import numpy as np

    if not traces:
        return 0.0
    edges = np.linspace(0.0, max(float(times[-1]) for times, _ in traces), _STEPS + 1)
    used, waited = (
        sum(np.diff(np.interp(edges, times, t.columns[name], left=0.0)) for times, t in traces)
        for name in ("cpu_time_s", "wait_time_s")
    )
    there = n_cores * np.diff(edges)
    lost = np.minimum(there, used + waited) - used
    return float(np.maximum(lost, 0.0).sum())


def _last(job: JobRun, column: str) -> float:
    values = job.trace.columns[column]
    return float(values[-1]) if len(values) else 0.0
