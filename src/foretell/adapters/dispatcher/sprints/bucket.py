"""The budget of sprints: a bucket of joules above base that sprints empty and time fills."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping


class Bucket:
    """Joules for sprints: b ← min(most, b + refill·Δt), less what sprinting takes.

    Parameters
    ----------
    most_j
        What a full bucket has; infinite for sprints without a limit.
    refill_w, drain_w
        How fast time fills it, always, and how fast a sprint empties it.
    level_j
        What it has now; by default it is full.

    >>> moment = 0.0
    >>> bucket = Bucket(100, refill_w=10, drain_w=60, clock=lambda: moment)
    >>> bucket.left_s
    2.0
    >>> bucket.start(); moment = 1.0; bucket.stop(); bucket.level_j
    50.0
    >>> moment = 2.0; bucket.level_j
    60.0
    """

    def __init__(
        self,
        most_j: float,
        refill_w: float,
        drain_w: float,
        level_j: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most_j, self._refill_w, self._drain_w = most_j, refill_w, drain_w
        self._clock, self._at = clock, clock()
        self._level_j = most_j if level_j is None else min(most_j, max(0.0, level_j))
        self.is_sprinting = False

    @property
    def level_j(self) -> float:
        """The joules in it now; below 0 if a sprint went on for too long."""
        if math.isinf(self.most_j):
            return math.inf
        passed_s = self._clock() - self._at
        rate_w = self._refill_w - (self._drain_w if self.is_sprinting else 0.0)
        return min(self.most_j, self._level_j + rate_w * passed_s)

    @property
    def left_s(self) -> float:
        """How long a sprint from now on can last."""
        net_w = self._drain_w - self._refill_w
        level = self.level_j
        if math.isinf(level) or net_w <= 0:  # as in simulations, also from an empty bucket
            return math.inf
        return max(0.0, level / net_w)

    def start(self) -> None:
        """Begin a sprint."""
        self._settle(is_sprinting=True)

    def stop(self) -> None:
        """End a sprint."""
        self._settle(is_sprinting=False)

    def _settle(self, *, is_sprinting: bool) -> None:
        self._level_j, self._at = self.level_j, self._clock()
        self.is_sprinting = is_sprinting


def level_after(record: Mapping[str, float], now: float, refill_w: float, drain_w: float) -> float:
    """Return what a bucket has long after a record of it, whose process may have been killed.

    A sprint that was under way then is taken to have lasted until now.
    """
    rate_w = refill_w - (drain_w if record["is_sprinting"] else 0.0)
    return max(0.0, record["budget_j"] + rate_w * max(0.0, now - record["at"]))
