"""Sprints of a simulated engine: faster after a while, as long as a bucket of joules lasts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class SprintPower:
    """How fast an engine sprints, and what it draws.

    Attributes
    ----------
    speedup
        How many times faster work is done in a sprint.
    base_w, sprint_w, idle_w
        What a busy engine draws, one that sprints, and one without a job.
    budget_j, refill_w
        How many joules above ``base_w`` the bucket holds, and how fast it fills again.
    """

    speedup: float = 1.0
    base_w: float = 0.0
    sprint_w: float = 0.0
    idle_w: float = 0.0
    budget_j: float = math.inf
    refill_w: float = 0.0

    @property
    def extra_w(self) -> float:
        """What a sprint draws above a busy engine."""
        return max(self.sprint_w - self.base_w, 0.0)


class Stay(NamedTuple):
    """A job in the engine until it ends: at base speed, in a sprint, and at base speed again."""

    before_s: float
    sprint_s: float
    after_s: float

    @property
    def length_s(self) -> float:
        """How long it takes, if nobody evicts the job."""
        return self.before_s + self.sprint_s + self.after_s

    def cut(self, elapsed_s: float) -> Stay:
        """Return the part of it that has passed."""
        before_s = min(self.before_s, elapsed_s)
        sprint_s = min(self.sprint_s, elapsed_s - before_s)
        return Stay(before_s, sprint_s, elapsed_s - before_s - sprint_s)

    def work(self, speedup: float) -> float:
        """Return what is done in it, in seconds at base speed."""
        return self.before_s + speedup * self.sprint_s + self.after_s


class Bucket:
    """The joules that sprints may still spend; full at first.

    A sprint lasts until its job leaves the engine or the bucket is empty, and then does not start
    again for this stay, even if the bucket fills.

    >>> bucket = Bucket(SprintPower(speedup=2, base_w=100, sprint_w=200, budget_j=1000))
    >>> stay = bucket.plan(0.0, left_s=50.0, sprint_in_s=10.0)
    >>> stay, stay.length_s
    (Stay(before_s=10.0, sprint_s=10.0, after_s=20.0), 40.0)
    """

    def __init__(self, power: SprintPower) -> None:
        self.power = power
        self.level_j = power.budget_j
        self.sprinted_s = 0.0
        self._at_s = 0.0
        self._drain_w = power.extra_w - power.refill_w

    def plan(self, now_s: float, left_s: float, sprint_in_s: float) -> Stay:
        """Plan a stay: the work that is left, and the time until its sprint begins."""
        if left_s <= sprint_in_s:
            return Stay(left_s, 0.0, 0.0)
        self._refill(now_s)
        speedup, work_s = self.power.speedup, left_s - sprint_in_s
        drain_w = self._drain_w
        longest_s = self._filled(sprint_in_s) / drain_w if drain_w > 0 else math.inf
        sprint_s = min(work_s / speedup, longest_s)
        return Stay(sprint_in_s, sprint_s, max(work_s - speedup * sprint_s, 0.0))

    def spend(self, now_s: float, stay: Stay) -> None:
        """Take what a stay used that ends now."""
        if stay.sprint_s <= 0:
            return
        self._refill(now_s - stay.sprint_s - stay.after_s)
        used_j = self._drain_w * stay.sprint_s
        self.level_j = max(min(self.level_j - used_j, self.power.budget_j), 0.0)
        self.sprinted_s += stay.sprint_s
        self._at_s = now_s - stay.after_s

    def _refill(self, now_s: float) -> None:
        self.level_j = self._filled(now_s - self._at_s)
        self._at_s = now_s

    def _filled(self, passed_s: float) -> float:
        return min(self.level_j + self.power.refill_w * passed_s, self.power.budget_j)
