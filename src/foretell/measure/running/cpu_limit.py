"""A limit on the CPU time of a process and its children, as a container has: a share of cores."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

import psutil

from foretell.closeable import Closeable
from foretell.measure.meters._base import Tree
from foretell.measure.meters.cpu_time import cpu_seconds
from foretell.measure.running.cpu_group import CpuGroup

_PERIOD_S, _TICK_S = 0.1, 0.01


class CpuLimit(Closeable):
    """Lets a process and all its children use at most so many cores, in each tenth of a second.

    The kernel enforces it where a control group may be made, in version 1 or 2. Elsewhere the
    processes are stopped and continued by signals.

    Attributes
    ----------
    by
        What enforces the limit: "cgroup" or "signals".
    """

    def __init__(self, *, may_use_groups: bool = True) -> None:
        self._group = CpuGroup.make() if may_use_groups else None
        self._pauses: _Pauses | None = None
        self.by = "signals" if self._group is None else "cgroup"

    @contextlib.contextmanager
    def held(self, pid: int, cpus: float, *, is_job: bool = True) -> Iterator[None]:
        """Limit a process, and all that it starts from now on, while the context lasts.

        Parameters
        ----------
        is_job
            Whether signals stop the process itself, or its children only.
        """
        self.hold(pid, cpus, is_job=is_job)
        try:
            yield
        finally:
            self.release()

    def hold(self, pid: int, cpus: float, *, is_job: bool = True) -> None:
        """Limit a process, and all that it starts from now on."""
        if self._group is not None:
            self._group.set(cpus)
            self._group.add(pid)
            return
        self._pauses = _Pauses(Tree(psutil.Process(pid), is_job), cpus)

    def release(self) -> None:
        """Limit it no more."""
        if self._group is not None:
            self._group.set(None)
        if self._pauses is not None:
            self._pauses.stop()
            self._pauses = None

    def close(self) -> None:
        """Remove the control group; processes that are still in it go on without a limit."""
        self.release()
        if self._group is not None:
            self._group.remove()


class _Pauses:
    """Stops processes as soon as they have used their share of a period, until the next one."""

    def __init__(self, tree: Tree, cpus: float) -> None:
        self._tree, self._cpus = tree, cpus
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _work(self) -> None:
        began_s, before = time.monotonic(), cpu_seconds(self._tree)
        is_stopped = False
        while not self._is_over.wait(_TICK_S):
            # All of the past counts, so that what was used in excess of one period is made up for.
            allowed = self._cpus * (time.monotonic() - began_s + _PERIOD_S)
            used = cpu_seconds(self._tree) - before
            if used > allowed and not is_stopped:
                is_stopped = self._send(signal.SIGSTOP)
            elif is_stopped and used <= allowed - self._cpus * _PERIOD_S:
                is_stopped = not self._send(signal.SIGCONT)
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> bool:
        for process in self._tree.living():
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
        return True
