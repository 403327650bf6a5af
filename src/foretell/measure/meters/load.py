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
    trace_columns = ("other_cpu_time_s",)

    def start(self, tree: Tree) -> None:
        """Remember what all processes had used."""
        self._account = CpuAccount(tree)
        self._started, self._before = time.monotonic(), _used_s()

    def sample(self, tree: Tree) -> None:
        """Remember what processes have used that may end before the next sample."""
        self._account.look()

    def reading(self, tree: Tree) -> dict[str, float]:
        """Return the CPU time that others have used so far."""
        return {"other_cpu_time_s": max(0.0, self._others_s())}

    def stop(self, tree: Tree) -> dict[str, float]:
        """Return the mean number of cores that others kept busy."""
        wall_s = max(time.monotonic() - self._started, 1e-3)
        return {"other_load": round(max(0.0, self._others_s() / wall_s), 3)}

    def _others_s(self) -> float:
        busy, own = self._before
        busy_after, own_after = _used_s()
        return (busy_after - busy) - (own_after - own) - self._account.used_s()


def _used_s() -> tuple[float, float]:
    """Return the CPU time so far of all processes, and of the supervisor."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    busy = sum(times[:8]) - idle  # guests are counted among users already
    own = psutil.Process(os.getpid()).cpu_times()  # the supervisor's samples are ours, too
    return busy, own.user + own.system
