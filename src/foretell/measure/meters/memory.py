"""Peak resident memory of the whole process tree."""

from __future__ import annotations

import psutil

from foretell.measure.meters._base import Meter, Tree


class MemoryMeter(Meter):
    """The largest sum over all processes at any sample, or the peak of one that the kernel reports.

    Memory that processes share counts in each of them.
    """

    columns = ("peak_memory_bytes",)
    trace_columns = ("memory_bytes",)

    def start(self, tree: Tree) -> None:
        """Forget the run before."""
        self._peak = self._now = 0
        self._runner = _resident(tree.runner)

    def sample(self, tree: Tree) -> None:
        """Add up what all processes hold now."""
        self._now = resident_bytes(tree)
        self._peak = max(self._peak, self._now)

    def reading(self, tree: Tree) -> dict[str, float]:
        """Return the sum of the last sample."""
        return {"memory_bytes": float(self._now)}

    def stop(self, tree: Tree) -> dict[str, float]:
        """Return the peak; of a job too short to sample, what the kernel reports of its process."""
        # A child starts as a copy of the runner, and the kernel counts that, too.
        alone = tree.child_peak_bytes
        peak = max(self._peak, alone if alone > self._runner else 0)
        return {"peak_memory_bytes": float(peak)} if peak else {}


def resident_bytes(tree: Tree) -> int:
    """Return what all processes of a tree hold in memory now."""
    if tree.is_job:
        return sum(tree.each(_resident).values())
    # A program begins as a copy of the process that starts it, and that is not the job yet.
    words = tree.each(lambda process: process.cmdline())
    starter = words.get(tree.runner)
    return sum(_resident(process) for process, own in words.items() if own != starter)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
