"""The process that runs jobs: it starts each at its time, samples it, and ends what is left.

It reads one line of JSON, and writes one when all is over. If the process that started it ends
first, however that happens, its pipe closes, and all jobs are ended. Only the standard library is
used.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

from foretell.corun.running.tree import AMOUNTS, COUNTERS, Forest
from foretell.corun.running.whole_machine import PRESSURES, kernel_times, machine_times

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: Samples may take this share of the time of one core, or there are fewer. The first ones are free:
#: a short job needs samples, too.
_MOST_COST, _N_FREE = 0.01, 12
MOST_SAMPLES = 4096
#: What is sampled of the whole machine beside its CPU time, by anyone.
_OF_MACHINE = ("disk_busy_s", "disk_bytes", "network_bytes", *PRESSURES.values())
#: How long the next sample was meant to wait, so that a pause that was meant is told from a gap.
PAUSE = "pause_s"
COLUMNS = (*COUNTERS, *AMOUNTS, "other_cpu_time_s", *_OF_MACHINE, PAUSE)


class _Job:
    """One job: its process, its samples, and how it ended."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.start_s = float(order["start_s"])
        self.process: subprocess.Popen[bytes] | None = None
        self.began = self.ended = 0.0
        self.exit: int | None = None
        self.reason = ""
        self.rusage = (0.0, 0.0, 0.0)
        self.reaped_s = 0.0  # CPU time of its processes that lost their parent, and have ended
        self.rows: list[list[float]] = []
        self.before: dict[str, float] = {}

    @property
    def is_over(self) -> bool:
        return bool(self.reason) or self.exit is not None

    def answer(self) -> dict[str, Any]:
        return {
            "exit": self.exit,
            "reason": self.reason,
            "began_s": self.began,
            "ended_s": self.ended,
            "cpu_time_s": self.rusage[0] + self.reaped_s,
            "rows": self.rows,
        }


class Runner:
    """Runs jobs together until all have ended."""

    def __init__(self, order: dict[str, Any], pipe: int) -> None:
        self._order, self._pipe = order, pipe
        self._jobs = [_Job(one) for one in order["jobs"]]
        self._forest = Forest()
        self._started = time.monotonic()
        self._interval_s = float(order["interval_s"])
        self._n_samples, self._cost_s = 0, 0.0
        self._wake, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> dict[str, Any]:
        """Run all; return what became of them."""
        kernel = kernel_times()
        machine, cpu_before = machine_times(), time.process_time()
        next_sample = 0.0
        while not all(job.is_over for job in self._jobs):
            self._start_due()
            if self._now() >= next_sample:
                took_s, self._n_samples = self._sample(), self._n_samples + 1
                if self._n_samples > _N_FREE:
                    self._cost_s += took_s
                now = self._now()
                next_sample = max(now + self._interval_s, self._cost_s / _MOST_COST)
                self._keep_pause(next_sample - now)
            self._wait(next_sample)
            self._reap()
            self._stop_late()
        self._end_leftovers()
        after = machine_times()
        own_s = time.process_time() - cpu_before
        kernel_s = sum(max(0.0, s - kernel.get(pid, 0.0)) for pid, s in kernel_times().items())
        return {
            "columns": COLUMNS,
            "jobs": [job.answer() for job in self._jobs],
            "machine": {name: after[name] - machine[name] for name in after},
            "kernel_s": kernel_s,
            "watch_cpu_s": own_s,
            "wall_s": self._now(),
        }

    def _now(self) -> float:
        return time.monotonic() - self._started

    def _start_due(self) -> None:
        for job in self._jobs:
            if job.process is None and not job.is_over and self._now() >= job.start_s:
                self._start(job)

    def _start(self, job: _Job) -> None:
        order = job.order
        cpus, priority = order.get("cpus"), bool(order.get("priority"))

        def prepare() -> None:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # which only this process ignores
            if cpus:
                os.sched_setaffinity(0, cpus)
            if priority:
                raise_priority()

        job.before = self._times()
        job.began = self._now()
        try:
            job.process = subprocess.Popen(  # noqa: S603 - the user's own command
                order["command"],
                stdin=subprocess.DEVNULL,
                stdout=int(order["output"]),
                stderr=subprocess.STDOUT,
                cwd=order.get("folder"),
                env={**os.environ, **order.get("env", {})},
                start_new_session=True,
                preexec_fn=prepare,
            )
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            job.reason = f"'{order['command'][0]}' cannot be started: {why}"
            job.ended = self._now()
            return
        self._forest.add(job.process.pid)

    def _sample(self) -> float:
        began = time.thread_time()
        self._forest.look()
        machine = self._times()
        living = [j for j in self._jobs if j.process is not None and not j.is_over]
        for job in living:
            assert job.process is not None
            self._keep(job, self._forest.reading(job.process.pid), machine)
        self._thin(living)
        return time.thread_time() - began

    def _thin(self, living: list[_Job]) -> None:
        """Sample half as often from now on, once a job has as many samples as it may."""
        full = [job for job in living if len(job.rows) >= MOST_SAMPLES]
        for job in full:
            job.rows = _thinned(job.rows)
        if full:
            self._interval_s *= 2

    def _keep_pause(self, pause_s: float) -> None:
        for job in self._jobs:
            if job.rows and not job.is_over:
                job.rows[-1][-1] = pause_s

    def _times(self) -> dict[str, float]:
        """Return the times of the machine so far, and what of them is by jobs and by us."""
        jobs_s = 0.0
        for job in self._jobs:
            if job.exit is not None:
                jobs_s += job.rusage[0] + job.reaped_s
            elif job.process is not None:
                jobs_s += self._forest.reading(job.process.pid)["cpu_time_s"] + job.reaped_s
        return {**machine_times(), "own_s": time.process_time(), "jobs_s": jobs_s}

    def _keep(self, job: _Job, reading: dict[str, float], machine: dict[str, float]) -> None:
        reading["cpu_time_s"] += job.reaped_s
        since = {name: machine[name] - job.before[name] for name in machine}
        other = max(0.0, since["busy_s"] - since["jobs_s"] - since["own_s"])
        reading["other_cpu_time_s"] = other
        reading |= {name: since[name] for name in _OF_MACHINE} | {PAUSE: 0.0}
        row = [self._now() - job.began, *(reading[name] for name in COLUMNS)]
        if job.rows and row[0] <= job.rows[-1][0]:
            return
        job.rows.append(row)

    def _wait(self, until: float) -> None:
        """Wait for the next sample or start, the end of a process, or the end of our parent."""
        starts = [j.start_s for j in self._jobs if j.process is None and not j.is_over]
        limits = [
            j.began + j.order["limit_s"]
            for j in self._jobs
            if j.process is not None and not j.is_over and j.order.get("limit_s")
        ]
        wait_s = max(0.0, min([until, *starts, *limits]) - self._now())
        ready = select.select([self._wake, self._pipe], [], [], wait_s)[0]
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
        if self._pipe in ready and not os.read(self._pipe, 4096):
            self._end_leftovers()
            os._exit(1)

    def _reap(self) -> bool:
        """Take the end of every process that has ended, also of those that lost their parent.

        Return whether there are any left.
        """
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._take_end(pid, status, used)

    def _take_end(self, pid: int, status: int, used: Any) -> None:
        seconds = used.ru_utime + used.ru_stime
        for job in self._jobs:
            if job.process is None:
                continue
            if job.process.pid == pid:
                job.process.returncode = os.waitstatus_to_exitcode(status)
                job.rusage = (seconds, 512.0 * used.ru_inblock, 512.0 * used.ru_oublock)
                if not job.reason:  # one that was stopped had its end before
                    job.exit, job.ended = job.process.returncode, self._now()
                    self._keep_last(job)
            elif self._forest.members_known(pid) == job.process.pid:
                job.reaped_s += seconds

    def _keep_last(self, job: _Job) -> None:
        """Keep a last sample with what the kernel counted: of its end nothing is seen any more."""
        assert job.process is not None
        reading = self._forest.reading(job.process.pid)
        last = dict(zip(COLUMNS, job.rows[-1][1:], strict=True)) if job.rows else {}
        totals = dict(zip(("cpu_time_s", "read_bytes", "written_bytes"), job.rusage, strict=True))
        totals["cpu_time_s"] += job.reaped_s
        for name in (*COUNTERS, "memory_bytes", "n_threads", "n_processes", "n_runnable"):
            reading[name] = max(last.get(name, 0.0), totals.get(name, 0.0))
        reading["cpu_time_s"] -= job.reaped_s  # which is added again
        self._keep(job, reading, self._times())

    def _stop_late(self) -> None:
        """Stop jobs that ran for as long as they may."""
        for job in self._jobs:
            limit_s = job.order.get("limit_s")
            if job.process is None or job.is_over or not limit_s:
                continue
            if self._now() >= job.began + limit_s:
                self._sample()
                job.ended = self._now()
                job.reason = "limit"
                self._kill(job)

    def _kill(self, job: _Job) -> None:
        assert job.process is not None
        self._forest.look()
        members = self._forest.members(job.process.pid)
        if members:  # while it has any, its number is that of no other group
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.process.pid, signal.SIGKILL)
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _end_leftovers(self) -> None:
        """End all that jobs have left running, and wait until it is gone."""
        for _ in range(1000):
            for job in self._jobs:
                if job.process is not None:
                    self._kill(job)
            if not self._reap():
                return
            select.select([], [], [], 0.01)


def _thinned(rows: list[list[float]]) -> list[list[float]]:
    """Leave out every second sample; what was to be waited after it is added to the one before."""
    for kept, left_out in zip(rows[::2], rows[1::2], strict=False):
        kept[-1] += left_out[-1]
    return rows[::2]


def raise_priority() -> None:
    """Let this process run before others, where the system allows it; its children do, too."""
    with contextlib.suppress(OSError, PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:  # noqa: PTH123
        file.write("-20")


def main() -> None:
    """Run the jobs that standard input names; its end is the end of whoever started this."""
    out = os.dup(1)
    os.dup2(2, 1)
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 1 << 16)
        if not part:
            sys.exit(1)
        line += part
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us, by closing the pipe
    order = json.loads(line)
    if any(job.get("priority") for job in order["jobs"]):
        os.setsid()  # priority belongs to a session
        raise_priority()
    answer = Runner(order, 0).run()
    with os.fdopen(out, "w") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    main()
