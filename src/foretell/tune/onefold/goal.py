"""What a search is for: the limits that a trial must keep, and the score of those that do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from foretell.errors import Option, UsageError, suggest
from foretell.tune.onefold.inference import Inference, is_within
from foretell.tune.onefold.trials import Rung, Trial
from foretell.wording import number, percent

Objective = Literal["time", "ratio", "energy-ratio"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


@dataclass(frozen=True)
class Goal:
    """The objective of a search and its limits.

    Attributes
    ----------
    objective
        ``time``: the least training time of a trial that keeps all limits. ``ratio``: the least
        training time x inference time / accuracy; ``energy-ratio`` the same of energies.

    >>> goal = Goal("time", accuracy=0.9)
    >>> rungs = [Rung(0, 1, 2, 0.1, accuracy=0.8, train_s=3.0)]
    >>> goal.violations(0.8, None)
    ['accuracy 80.0 % is below 90.0 %']
    """

    objective: Objective = "time"
    accuracy: float | None = None
    p99_s: float | None = None

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            given = str(self.objective)
            raise UsageError(
                f"no such objective. {suggest(given, OBJECTIVES)}",
                option=Option("objective", given),
            )
        if self.accuracy is not None and not 0 < self.accuracy <= 1:
            raise UsageError(
                "a target accuracy is above 0 and at most 1: write 95 % as 0.95",
                option=Option("accuracy", str(self.accuracy)),
            )
        if self.p99_s is not None and not 0 < self.p99_s < math.inf:
            raise UsageError("must be above 0", option=Option("p99_s", str(self.p99_s)))
        if self.objective == "time" and self.accuracy is None:
            raise UsageError(
                "the least training time needs a target accuracy",
                option=Option("objective", "time"),
                remedy=("give ", Option("accuracy", "0.95"), " or ", Option("objective", "ratio")),
            )

    @property
    def is_ratio(self) -> bool:
        """Whether inference is part of the score."""
        return self.objective != "time"

    def is_reached(self, accuracy: float) -> bool:
        """Whether a trial needs no more training: only where time is all that counts."""
        return not self.is_ratio and self.accuracy is not None and accuracy >= self.accuracy

    def violations(self, accuracy: float | None, inference: Inference | None) -> list[str]:
        """List the limits that are broken, in words."""
        found = []
        if self.accuracy is not None and (accuracy is None or accuracy < self.accuracy):
            found.append(f"accuracy {percent(accuracy)} is below {percent(self.accuracy)}")
        if inference is not None and not is_within(inference.p99_s, self.p99_s):
            found.append(f"p99 {ms(inference.p99_s)} is over {ms(self.p99_s)}")
        return found

    def is_kept(self, trial: Trial) -> bool:
        """Whether a trial was trained and keeps all limits; of p99 it must be known."""
        is_known = self.p99_s is None or trial.inference is not None
        return (
            bool(trial.rungs) and is_known and not self.violations(trial.accuracy, trial.inference)
        )

    def value(self, trial: Trial) -> float:
        """Return what is to be minimized: seconds, or the ratio."""
        return self._value(trial.rungs, trial.inference)

    def score(self, rungs: Sequence[Rung], inference: Inference | None, *, is_last: bool) -> float:
        """Return the score to compare trials of one rung by; less is better.

        From 0 to 1 for trials that keep all limits, in the order of their values; from 1 to 3 for
        others, in the order of what they lack. A ratio is compared as it is until the end.
        """
        lacks = self._lacks(rungs[-1].accuracy, inference)
        if lacks == 0 or (self.is_ratio and not is_last):
            return _bounded(self._value(rungs, inference))
        # Of trials that lack the same, the faster is better.
        return 1 + lacks + 1e-9 * _bounded(self._value(rungs, inference))

    def _value(self, rungs: Sequence[Rung], inference: Inference | None) -> float:
        train_s = sum(rung.train_s for rung in rungs)
        if not self.is_ratio:
            return train_s
        assert inference is not None
        accuracy = rungs[-1].accuracy
        if accuracy <= 0:
            return math.inf
        if self.objective == "ratio":
            return train_s * inference.mean_s / accuracy
        assert inference.energy_j is not None
        return sum(rung.energy_j or 0.0 for rung in rungs) * inference.energy_j / accuracy

    def lacks(self, trial: Trial) -> float:
        """Return how far a trial is from keeping its limits, as a share of them."""
        return self._lacks(trial.accuracy or 0.0, trial.inference)

    def _lacks(self, accuracy: float, inference: Inference | None) -> float:
        lacks = 0.0
        if self.accuracy is not None and accuracy < self.accuracy:
            lacks += (self.accuracy - accuracy) / self.accuracy
        return lacks + self.over(inference)

    def over(self, inference: Inference | None) -> float:
        """Return how far a latency is over its limit, from 0 to 1; 0 if it is not over it."""
        if inference is None or self.p99_s is None or is_within(inference.p99_s, self.p99_s):
            return 0.0
        return _bounded(inference.p99_s / self.p99_s - 1)


def _bounded(value: float) -> float:
    """Map a number from 0 to infinity to one from 0 to 1; the order stays."""
    return 1.0 if math.isinf(value) else value / (1 + value)


def ms(seconds: float | None) -> str:
    """Write a latency.

    >>> ms(0.0123), ms(2.5), ms(float("inf"))
    ('12.3 ms', '2.5 s', 'without end')
    """
    if seconds is None:
        return "–"
    if math.isinf(seconds):
        return "without end"
    return f"{number(1000 * seconds, 3)} ms" if seconds < 1 else f"{number(seconds, 3)} s"
