"""How much others used the machine during a run."""

from __future__ import annotations

import os
import time

import psutil

from foretell.measure.meters._base import Meter, Tree
from foretell.measure.meters.cpu_time import cpu_seconds


class LoadMeter(Meter):
    """Cores kept busy by other processes than the job, on average over the run."""

    columns = ("other_load",)

    def start(self, tree: Tree) -> None:
        """Remember what everybody had used."""
        self._before = self._now(tree)

    def stop(self, tree: Tree) -> dict[str, float]:
        """Return the mean number of cores that others kept busy."""
        started_s, busy, own = self._before
        ended_s, busy_after, own_after = self._now(tree)
        wall_s = max(ended_s - started_s, 1e-3)
        others = (busy_after - busy) - (own_after - own)
        return {"other_load": round(max(0.0, others / wall_s), 3)}

    def _now(self, tree: Tree) -> tuple[float, float, float]:
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        busy = sum(times[:8]) - idle  # guests are counted among users already
        own = psutil.Process(os.getpid()).cpu_times()  # the supervisor's samples are ours, too
        return time.monotonic(), busy, cpu_seconds(tree) + own.user + own.system
