"""The clock of epochs: their time, the CPU time of the training, and what others used meanwhile."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

import psutil

from foretell.tune.store import Store

#: For so long, what was seen of all processes is taken to hold: between the end of an epoch and the
#: beginning of the next, but never from one end of an epoch to the other.
_JUST_NOW_S = 0.2


@dataclass(frozen=True)
class Measured:
    """What one epoch took; the columns are those of the store."""

    epoch_s: float
    core_s: float
    load_others: float
    n_siblings: int


class Clock:
    """Times epochs; the time in which a training waits for a search is left out.

    Parameters
    ----------
    n_here
        Returns how many other trainings run in this process.
    """

    def __init__(self, store: Store, n_here: Callable[[], int] = lambda: 0) -> None:
        self._store, self._n_here = store, n_here
        self._own = psutil.Process()
        self._siblings: dict[int, psutil.Process] = {}
        self._families = _Families()
        #: Processes that work for this training, such as one that fits a model.
        self.own_pids: set[int] = set()

    @property
    def started_s(self) -> float:
        """When this process was started."""
        return float(self._own.create_time())

    def look_around(self) -> int:
        """Find the other trainings on this machine; return how many they are."""
        own, found = os.getpid(), {}
        for pid, started_s in self._store.trainings():
            if pid == own:
                continue
            process = self._siblings.get(pid) or _process(pid, started_s)
            if process is not None and process.is_running():
                found[pid] = process
            else:
                self._store.leave(pid)
        self._siblings = found
        return len(found) + self._n_here()

    def start(self) -> None:
        """Begin an epoch."""
        self._n_siblings, self._waited_s = self.look_around(), 0.0
        self._used = self._cpu_s(seen_s=time.perf_counter() - _JUST_NOW_S)
        self._begun_s = time.perf_counter()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Leave out what is done inside."""
        begun_s = time.perf_counter()
        try:
            yield
        finally:
            self._waited_s += time.perf_counter() - begun_s

    def read(self) -> Measured:
        """Return what the epoch took up to now."""
        now_s = time.perf_counter()
        wall_s = now_s - self._begun_s
        used = self._cpu_s(seen_s=max(self._begun_s, now_s - _JUST_NOW_S))
        busy, own, siblings = (now - then for now, then in zip(used, self._used, strict=True))
        others = max(0.0, busy - own - max(0.0, siblings)) / max(wall_s, 1e-3)
        epoch_s = max(wall_s - self._waited_s, 1e-6)
        return Measured(epoch_s, max(own, 0.0), round(others, 3), self._n_siblings)

    def _cpu_s(self, seen_s: float) -> tuple[float, float, float]:
        """Return the CPU time so far of all processes, of this training, and of the others.

        Parameters
        ----------
        seen_s
            When the processes of others must have been looked for, or later.
        """
        busy, ended = busy_s(), resource.getrusage(resource.RUSAGE_CHILDREN)
        children = {p.pid for p in multiprocessing.active_children() if p.pid} | self.own_pids
        own = time.process_time() + ended.ru_utime + ended.ru_stime
        own += sum(map(_used_of, children))
        siblings = self._families.of(
            self._siblings.values(), besides={self._own.pid, *children}, seen_s=seen_s
        )
        return busy, own, sum(map(_used_s, siblings))


def busy_s() -> float:
    """Return the CPU time so far of all processes of this machine."""
    times = psutil.cpu_times()
    return float(sum(times[:8]) - times.idle - getattr(times, "iowait", 0.0))


def _process(pid: int, started_s: float) -> psutil.Process | None:
    """Return a process, unless it has ended and its number belongs to another one now."""
    with contextlib.suppress(psutil.Error):
        found = psutil.Process(pid)
        return found if abs(found.create_time() - started_s) < 1.0 else None
    return None


class _Families:
    """Processes and those that they started, such as loader workers and model fits."""

    def __init__(self) -> None:
        self._parents: dict[psutil.Process, int] = {}
        self._children: dict[int, list[psutil.Process]] = {}
        self._seen_s = float("-inf")

    def of(
        self, roots: Iterable[psutil.Process], besides: Collection[int], seen_s: float
    ) -> list[psutil.Process]:
        """Return all that belong to some processes.

        Parameters
        ----------
        besides
            Processes of this training, which another one may have started.
        seen_s
            When they must have been looked for, or later: it means asking all processes.
        """
        left, found = list(roots), dict[int, psutil.Process]()
        if left and self._seen_s < seen_s:  # one look, however many the roots are
            self._look()
        while left:
            process = left.pop()
            if process.pid not in found:
                found[process.pid] = process
                left += self._children.get(process.pid, [])
        return [process for pid, process in found.items() if pid not in besides]

    def _look(self) -> None:
        """Note which processes each process has started; each is asked for its parent once."""
        self._seen_s = time.perf_counter()
        parents: dict[psutil.Process, int] = {}
        children: dict[int, list[psutil.Process]] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                known = self._parents.get(process)
                parents[process] = process.ppid() if known is None else known
                children.setdefault(parents[process], []).append(process)
        self._parents, self._children = parents, children


def _used_of(pid: int) -> float:
    with contextlib.suppress(psutil.Error):  # it may have ended just now
        return _used_s(psutil.Process(pid))
    return 0.0


def _used_s(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0
