"""CPU time of the whole process tree, from the kernel's own accounts."""

from __future__ import annotations

import psutil

from foretell.measure.meters._base import Meter, Tree


class CpuTimeMeter(Meter):
    """User and system time of the job, its children, and theirs."""

    columns = ("cpu_time_s",)

    def start(self, tree: Tree) -> None:
        """Remember what was used before."""
        self._before = cpu_seconds(tree)

    def stop(self, tree: Tree) -> dict[str, float]:
        """Return what was used since."""
        return {"cpu_time_s": max(0.0, cpu_seconds(tree) - self._before)}


def cpu_seconds(tree: Tree) -> float:
    """Return all CPU time of a tree so far: the kernel adds that of children that have ended."""
    total = 0.0
    for process in {tree.runner, *tree.living()}:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
