"""Process trees as the kernel counts them: CPU time, waits, threads, memory, disk; by /proc alone.

Only the standard library is used: the process that watches jobs must itself cost little.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: What is sampled of a tree. Counters are totals since the start, amounts are those of the moment.
COUNTERS = (
    "cpu_time_s", "wait_time_s", "read_bytes", "written_bytes", "n_page_faults", "n_switches",
)  # fmt: skip
AMOUNTS = ("n_processes", "n_threads", "n_runnable", "memory_bytes")
#: Counters that no parent is credited with when a process ends.
_OF_ENDED = ("wait_time_s", "n_switches", "read_bytes", "written_bytes")
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: In larger trees, waits of single threads and bytes of single processes are not looked at: that
#: would take longer than between two samples.
_MOST_DETAILED = 256


@dataclass
class _Process:
    """A process of a tree, and the last that was seen of it."""

    parent: int
    cpu_s: float = 0.0
    faults: float = 0.0
    rss: float = 0.0
    threads: int = 1
    is_runnable: bool = False
    wait_s: float = 0.0
    switches: float = 0.0
    read: float = 0.0
    written: float = 0.0


class Forest:
    """The trees of several jobs on one machine, each below the process that began it.

    Every process of the machine is looked at once, to find its parent; those of strangers are not
    looked at again. A process whose parent has ended still belongs to the job that began it.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = str(proc)
        self._strangers: set[str] = set()  # names in /proc that are of no job
        self._job_of: dict[int, int] = {}
        self._alive: dict[int, _Process] = {}
        self._ended: dict[int, dict[str, float]] = {}

    def add(self, pid: int) -> None:
        """Watch a tree from now on; ``pid`` is its first process, and names it."""
        self._strangers.discard(str(pid))  # its number may have been that of another process
        self._job_of[pid] = pid
        self._alive[pid] = _Process(0)
        self._ended[pid] = dict.fromkeys(_OF_ENDED, 0.0)

    def look(self) -> None:
        """Look at all processes of the trees."""
        names = set(os.listdir(self._proc))  # noqa: PTH208
        self._strangers &= names
        others = names - self._strangers
        self._strangers |= {name for name in others if not name.isdigit()}
        here = {int(name) for name in others if name.isdigit()}
        for pid in sorted(here - self._alive.keys()):
            self._meet(pid)
        for pid in list(self._alive):
            if pid not in here or not self._read(pid):
                self._forget(pid)
        # The number of a process that is gone may soon be that of a stranger.
        for pid in self._job_of.keys() - here - self._ended.keys():
            del self._job_of[pid]

    def _meet(self, pid: int) -> None:
        """Find out whose process it is: that of a stranger, or of one of the trees."""
        fields = self._stat(pid)
        if fields is None:
            return
        parent, session = int(fields[1]), int(fields[3])
        # A session begins with a job: processes whose parent has ended keep it.
        job = self._job_of.get(parent, self._job_of.get(session))
        if job is None or not self.members(job):
            self._strangers.add(str(pid))
        else:
            self._job_of[pid] = job
            self._alive[pid] = _Process(parent)

    def _stat(self, pid: int) -> list[bytes] | None:
        try:
            with open(f"{self._proc}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
                return file.read().rpartition(b") ")[2].split()
        except OSError:
            return None

    def _read(self, pid: int) -> bool:
        fields = self._stat(pid)
        if fields is None or fields[0] in b"ZX":
            return False
        found = self._alive[pid]
        # Those of children that have ended and were waited for are among them.
        found.cpu_s = sum(map(int, fields[11:15])) * _TICK_S
        found.faults = float(sum(map(int, fields[7:11])))
        found.threads, found.rss = int(fields[17]), int(fields[21]) * _PAGE
        found.is_runnable = fields[0] == b"R"
        if len(self._alive) <= _MOST_DETAILED:
            self._read_details(pid, found)
        return True

    def _read_details(self, pid: int, found: _Process) -> None:
        try:
            with open(f"{self._proc}/{pid}/io", "rb", buffering=0) as file:  # noqa: PTH123
                io = dict(line.split(b": ") for line in file.read().splitlines())
            found.read, found.written = float(io[b"read_bytes"]), float(io[b"write_bytes"])
            threads = [f"{pid}/schedstat"]
            if found.threads > 1:
                names = os.listdir(f"{self._proc}/{pid}/task")  # noqa: PTH208
                threads = [f"{pid}/task/{name}/schedstat" for name in names[:_MOST_DETAILED]]
            waits, switches = zip(*map(self._schedule, threads), strict=True)
            found.wait_s = max(found.wait_s, sum(waits))
            found.switches = max(found.switches, sum(switches))
        except (OSError, KeyError, ValueError):
            return  # it has ended, or this kernel does not tell

    def _schedule(self, name: str) -> tuple[float, float]:
        """Return how long a thread has waited for a core, and how often it was given one."""
        try:
            with open(f"{self._proc}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
                _, wait_ns, n_times = file.read().split()
                return int(wait_ns) * 1e-9, float(n_times)
        except (OSError, ValueError):
            return 0.0, 0.0

    def _forget(self, pid: int) -> None:
        """Keep what was last seen of a process that ended, where its parent is not credited."""
        found = self._alive.pop(pid)
        ended = self._ended[self._job_of[pid]]
        ended["wait_time_s"] += found.wait_s
        ended["n_switches"] += found.switches
        if pid == self._job_of[pid]:
            ended["read_bytes"] += found.read
            ended["written_bytes"] += found.written

    def reading(self, job: int) -> dict[str, float]:
        """Return what was last seen of one tree."""
        own = [p for pid, p in self._alive.items() if self._job_of[pid] == job]
        ended = self._ended[job]
        return {
            "cpu_time_s": _total(p.cpu_s for p in own),
            "wait_time_s": ended["wait_time_s"] + _total(p.wait_s for p in own),
            "read_bytes": ended["read_bytes"] + _total(p.read for p in own),
            "written_bytes": ended["written_bytes"] + _total(p.written for p in own),
            "n_switches": ended["n_switches"] + _total(p.switches for p in own),
            "n_page_faults": _total(p.faults for p in own),
            "n_processes": float(len(own)),
            "n_threads": _total(float(p.threads) for p in own),
            "n_runnable": float(sum(p.is_runnable for p in own)),
            "memory_bytes": _total(p.rss for p in own),
        }

    def members(self, job: int) -> list[int]:
        """Return the processes of a tree that were alive at the last look."""
        return [pid for pid in self._alive if self._job_of[pid] == job]

    def members_known(self, pid: int) -> int | None:
        """Return the job that a process belongs to, even after its end; None for a stranger."""
        return self._job_of.get(pid)


def _total(values: Iterable[float]) -> float:
    return float(sum(values))
