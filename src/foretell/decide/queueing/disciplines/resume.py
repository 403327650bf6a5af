"""Preemptive resume: a job that is interrupted goes on where it was."""

from __future__ import annotations

from foretell.decide.queueing.disciplines._preemptive import Preemptive, Two
from foretell.decide.queueing.service._base import Complex
from foretell.decide.queueing.streams import Stream, busy_rate, total_rate


class Resume(Preemptive):
    """No work is lost: a completion time is the time of the job and the busy periods inside it."""

    def _completion_moments(self, own: Stream, rate_above: float, away: Two) -> Two:
        first, second, _ = own.service.moments
        stretch = 1 + rate_above * away[0]
        return first * stretch, second * stretch**2 + first * rate_above * away[1]

    def _completion(self, own: Stream, s: Complex, rate_above: float, away: Complex) -> Complex:
        return own.service.transform(s + rate_above * (1 - away))

    def _busy(self, k: int, s: Complex) -> Complex:
        """Return the busy period of the classes above k.

        No order of jobs changes it, unless the engine takes time to make way.
        """
        above = self.above(k)
        if any(stream.evict_s for stream in above):
            return super()._busy(k, s)
        return busy_rate(above, s) / total_rate(above) if above else busy_rate(above, s)
