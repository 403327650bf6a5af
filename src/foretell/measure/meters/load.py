"""How much others used the machine during a run."""

from __future__ import annotations

import os
import time

import psutil

from foretell.measure.meters._base import Meter, Tree
from foretell.measure.meters.cpu_time import CpuAccount


class LoadMeter(Meter):
    """Cores kept busy by other processes than the job, on average over the run."""

    columns = ("other_load",)

    def start(self, tree: Tree) -> None:
        """Remember what everybody had used."""
        self._account = CpuAccount(tree)
        self._before = _now()

    def sample(self, tree: Tree) -> None:
        """Keep what processes of the job have used that may end unseen."""
        self._account.look()

    def stop(self, tree: Tree) -> dict[str, float]:
        """Return the mean number of cores that others kept busy."""
        started_s, busy, own = self._before
        ended_s, busy_after, own_after = _now()
        wall_s = max(ended_s - started_s, 1e-3)
        others = (busy_after - busy) - (own_after - own) - self._account.used_s()
        return {"other_load": round(max(0.0, others / wall_s), 3)}


def _now() -> tuple[float, float, float]:
    """Return the time, and the CPU time so far of all processes and of the supervisor."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    busy = sum(times[:8]) - idle  # guests are counted among users already
    own = psutil.Process(os.getpid()).cpu_times()  # the supervisor's samples are ours, too
    return time.monotonic(), busy, own.user + own.system
