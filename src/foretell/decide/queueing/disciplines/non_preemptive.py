"""Non-preemptive priority: a job that runs is finished first."""

from __future__ import annotations

from foretell.decide.queueing.disciplines._base import Discipline
from foretell.decide.queueing.service._base import Complex
from foretell.decide.queueing.streams import arriving_work, busy_rate, total_rate, work_rate


class NonPreemptive(Discipline):
    """Cobham's queue: the next job is the oldest of the highest class, when the engine is free."""

    def _free(self, k: int) -> tuple[float, float]:
        """Return the shares of time free of classes above k, and of k and above."""
        above = work_rate(self.above(k), 1)
        return 1 - above, 1 - above - self.streams[k].load

    def mean_wait(self, k: int) -> float:
        """Return the mean time until a job of class k runs."""
        a, b = self._free(k)
        return work_rate(self.streams, 2) / (2 * a * b)

    def mean_response(self, k: int) -> float:
        """Return the mean wait and the mean time of a job."""
        return self.mean_wait(k) + self.streams[k].service.mean

    def response_transform(self, k: int, s: Complex) -> Complex:
        """Return the transform of the wait, times that of the time of a job."""
        own, below = self.streams[k], self.streams[:k]
        y = s + total_rate(self.above(k)) - busy_rate(self.above(k), s)
        idle = 1 - work_rate(self.streams, 1)
        residual = total_rate(below) - arriving_work(below, y)
        entered = s - own.rate_per_s + own.rate_per_s * own.service.transform(y)
        found: Complex = (idle * y + residual) / entered * own.service.transform(s)
        return found
