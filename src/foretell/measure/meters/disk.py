"""Bytes that the process tree read from and wrote to disks."""

from __future__ import annotations

import psutil

from foretell.measure.meters._base import Meter, Tree


class DiskMeter(Meter):
    """What reached the disks: bytes from the page cache are not read again, and do not count."""

    columns = ("read_bytes", "written_bytes")
    trace_columns = columns

    def missing(self) -> str | None:
        """Say so where the kernel does not count bytes."""
        if not hasattr(psutil.Process, "io_counters"):
            return "this system does not count what a process reads and writes"
        try:
            psutil.Process().io_counters()
        except (psutil.Error, OSError) as error:
            return f"the kernel does not count what a process reads and writes ({error})"
        return None

    def start(self, tree: Tree) -> None:
        """Remember what was read and written before."""
        self._before = _bytes(tree)

    def reading(self, tree: Tree) -> dict[str, float]:
        """Return what was read and written so far."""
        read, written = (
            float(max(0, after - before))
            for after, before in zip(_bytes(tree), self._before, strict=True)
        )
        return {"read_bytes": read, "written_bytes": written}

    def stop(self, tree: Tree) -> dict[str, float]:
        """Return what was read and written since the start."""
        return self.reading(tree)


def _bytes(tree: Tree) -> tuple[int, int]:
    """Add up all processes; the kernel adds what a child did to its parent when the child ends."""
    counters = tree.each(lambda process: process.io_counters()).values()
    return sum(c.read_bytes for c in counters), sum(c.write_bytes for c in counters)
