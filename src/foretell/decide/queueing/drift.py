"""Drift of a queue, by CUSUM: jobs come more often, or take longer, than was expected."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

#: A change by this factor, up or down, is looked for.
_CHANGE = 1.5
#: The logarithm of the odds for a change at which it is told. By chance that happens about once in
#: exp(10) = 22,000 jobs. One job counts for at most 1, so that it takes at least ten.
_CERTAIN, _MOST_OF_ONE = 10.0, 1.0
#: With less evidence than this, the change has hardly begun, and jobs do not count for its factor.
_BEGUN = 2.0
#: The standard error of the factor at which it is told, relative to it.
_CLOSE = 0.15
#: Times never vary by less than this, for the model of them is not so good.
_LEAST_SCV = 0.05


@dataclass
class _Side:
    """The evidence for a change in one direction, and the ratios since it began."""

    factor: float
    evidence: float = 0.0
    n: int = 0
    total: float = 0.0

    def add(self, ratio: float, shape: float) -> float | None:
        """Take a ratio; return by which factor these have changed, once that is certain."""
        step = shape * (ratio * (1 - 1 / self.factor) - math.log(self.factor))
        self.evidence += min(step, _MOST_OF_ONE)
        self.n, self.total = self.n + 1, self.total + ratio
        if self.evidence < _BEGUN:
            self.n, self.total = 0, 0.0
        self.evidence = max(self.evidence, 0.0)
        is_close = self.n * shape >= _CLOSE**-2
        return self.total / self.n if self.evidence >= _CERTAIN and is_close else None

    def clear(self) -> None:
        """Begin again."""
        self.evidence, self.n, self.total = 0.0, 0, 0.0


@dataclass
class Drift:
    """Follows times between arrivals, or times of jobs, each relative to the mean expected.

    They are compared as gamma-distributed ones: exactly so between Poisson arrivals.

    Attributes
    ----------
    scv
        How they vary, (standard deviation / mean)².
    factor
        By how much they have changed so far.

    >>> drift = Drift(scv=1.0)
    >>> [round(found, 6) for _ in range(100) if (found := drift.add(3.0))]
    [3.0]
    """

    scv: float
    factor: float = 1.0
    _sides: tuple[_Side, _Side] = field(
        default_factory=lambda: (_Side(_CHANGE), _Side(1 / _CHANGE)), repr=False
    )

    def add(self, ratio: float) -> float | None:
        """Take a ratio; return the factor of all changes so far when there is a new one."""
        shape = 1 / max(self.scv, _LEAST_SCV)
        found = [side.add(ratio / self.factor, shape) for side in self._sides]
        change = next((f for f in found if f is not None), None)
        if change is None:
            return None
        self.factor *= change
        for side in self._sides:
            side.clear()
        return self.factor
