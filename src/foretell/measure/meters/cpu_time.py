"""CPU time of the whole process tree, as the kernel counts it."""

from __future__ import annotations

import time

import psutil

from foretell.measure.meters._base import Meter, Tree

_LOOK_EVERY_S = 0.2


class CpuTimeMeter(Meter):
    """User and system time of the job, its children, and theirs."""

    columns = ("cpu_time_s",)
    trace_columns = ("cpu_time_s",)

    def start(self, tree: Tree) -> None:
        """Remember what was used before."""
        self._account = CpuAccount(tree)

    def sample(self, tree: Tree) -> None:
        """Remember what processes have used that may end before the next sample."""
        self._account.look()

    def reading(self, tree: Tree) -> dict[str, float]:
        """Return what was used so far."""
        return {"cpu_time_s": self._account.used_s()}

    def stop(self, tree: Tree) -> dict[str, float]:
        """Return what was used since."""
        return {"cpu_time_s": round(self._account.used_s(), 3)}


class CpuAccount:
    """The CPU time that a tree of processes uses from now on.

    The kernel adds the time of a process that has ended to that of its parent. But a parent that
    ignores the end of its children, such as Ray's, is not credited. So the times last seen of each
    process are added up as well, and the larger sum counts.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._before = cpu_seconds(tree)
        self._own_before = self._own()
        self._seen = dict(self._own_before)
        self._looked_at = time.monotonic()

    def look(self) -> None:
        """Note what each process has used; not every time, because it means asking all of them."""
        if time.monotonic() >= self._looked_at + _LOOK_EVERY_S:
            self._seen |= self._own()
            self._looked_at = time.monotonic()

    def used_s(self) -> float:
        """Return what was used so far."""
        self._seen |= self._own()
        seen = sum(s - self._own_before.get(p, 0.0) for p, s in self._seen.items())
        kernel = cpu_seconds(self._tree) - self._before
        return float(max(0.0, kernel, seen))

    def _own(self) -> dict[psutil.Process, float]:
        """Return what each living process has used itself."""
        # User and system time.
        return self._tree.each(lambda process: float(sum(process.cpu_times()[:2])))


def cpu_seconds(tree: Tree) -> float:
    """Return all CPU time of a tree so far: the kernel adds that of children that have ended."""
    # User and system time, of the process itself and of its children.
    return sum(tree.each(lambda process: float(sum(process.cpu_times()[:4]))).values())
