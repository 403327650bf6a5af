"""Choosing: which of many configurations matter, block by block, and which of them is best."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foretell.decide.plan.assess import Array, Figures, join
from foretell.decide.question.objective import LIMITS, Question
from foretell.spaces.quantities import COST, ENERGY, TIME

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

N_RUNNERS_UP = 2
#: So many of the best are kept to find them among, for some may read the same.
N_KEPT = 12
#: What exceeds a limit by less keeps it.
_TOLERANCE = 1e-12
#: So many good points are held against all others, before those that are left are compared.
_N_KILLERS = 256
_FRONT = (TIME, COST, ENERGY)


@dataclass(frozen=True)
class Chooser:
    """Ranks configurations by an objective, within limits that hold with a probability.

    Attributes
    ----------
    minimize
        The kind of quantity to minimize.
    kinds
        All that are known.
    """

    question: Question
    minimize: str
    kinds: Sequence[str]

    @cached_property
    def asked(self) -> int:
        """The place of the confidence that was asked for, among all certainties."""
        return self.question.certainties.index(self.question.confidence)

    def holds(self, figures: Figures, certainty: int, but: str | None = None) -> Mask:
        """Say which configurations keep all limits with a certainty; one may be left out."""
        found = np.ones(len(figures), dtype=bool)
        for word, most in self.question.limits.items():
            if word != but:
                found &= figures.at(LIMITS[word], certainty) <= most * (1 + _TOLERANCE)
        return found

    def excess(self, figures: Figures) -> Array:
        """Return by which factor the limit that is missed most is missed."""
        ratios = [
            figures.at(LIMITS[word], self.asked) / most
            for word, most in self.question.limits.items()
        ]
        excess: Array = np.max([np.ones(len(figures)), *ratios], axis=0)
        return excess

    def best(self, figures: Figures, among: Mask, n: int = 1) -> Rows:
        """Return the best rows of some: by the objective, then by time, then by nodes."""
        rows = np.flatnonzero(among)
        keys = [figures.bill.nodes[rows]]
        keys += [figures.value(TIME)[rows]] if TIME in self.kinds else []
        objective = figures.value(self.minimize)[rows]
        if len(rows) > 8 * n:  # sorting a million for a few is slow
            near = objective <= np.partition(objective, n - 1)[n - 1]
            rows, objective, keys = rows[near], objective[near], [k[near] for k in keys]
        return rows[np.lexsort((*keys, objective))][:n]

    def worth_keeping(self, figures: Figures) -> Rows:
        """Return the rows that can matter for any part of the answer."""
        allowed = self._allowed(figures)
        kept = [self.best(figures, ~allowed & self.holds(figures, self.asked))]
        for certainty in range(len(self.question.certainties)):
            n = N_KEPT if certainty == self.asked else 1
            kept.append(self.best(figures, allowed & self.holds(figures, certainty), n))
        for word in self.question.limits:
            kept.append(self.best(figures, allowed & self.holds(figures, self.asked, but=word)))
        kept.append(self.closest(figures))
        kept.append(self.front(figures))
        return np.unique(np.concatenate(kept))

    def _allowed(self, figures: Figures) -> Mask:
        return np.ones(len(figures), dtype=bool) if self.question.allow_far else ~figures.is_far

    def closest(self, figures: Figures) -> Rows:
        """Return the row that misses the limits least; of several, the best."""
        excess = np.where(self._allowed(figures), self.excess(figures), np.inf)
        if not len(excess) or not np.isfinite(excess.min()):
            return np.zeros(0, dtype=np.int64)
        return self.best(figures, excess <= excess.min() * (1 + _TOLERANCE))

    def front(self, figures: Figures) -> Rows:
        """Return the rows that no other beats in time, cost and energy at once."""
        rows = np.flatnonzero(self._allowed(figures))
        kinds = [kind for kind in _FRONT if kind in self.kinds] or [self.minimize]
        points = np.column_stack([figures.value(kind)[rows] for kind in kinds])
        return rows[pareto(points)]

    def chosen(self, figures: Figures, certainty: int, n: int = 1) -> Rows:
        """Return the best rows that may be chosen and keep all limits with a certainty."""
        return self.best(figures, self._allowed(figures) & self.holds(figures, certainty), n)

    def without(self, figures: Figures, word: str) -> Rows:
        """Return the row that would be chosen without a limit."""
        among = self._allowed(figures) & self.holds(figures, self.asked, but=word)
        return self.best(figures, among)

    def far_ones(self, figures: Figures) -> Rows:
        """Return the best row far outside the data that keeps all limits."""
        return self.best(figures, figures.is_far & self.holds(figures, self.asked))


def pareto(points: Array) -> Rows:
    """Return the rows that no other row equals or beats in every column; of equals, the first.

    >>> pareto(np.array([[1.0, 9.0], [2.0, 9.0], [3.0, 1.0], [1.0, 9.0]])).tolist()
    [0, 2]
    """
    rows = np.arange(len(points))
    if points.shape[1] < 3:
        points = np.column_stack([points, *[np.zeros(len(points))] * (3 - points.shape[1])])
    if len(points) > _N_KILLERS:
        rows = _not_beaten(points)
    order = rows[np.lexsort((rows, *points[rows].T[::-1]))]
    kept, staircase = [], _Staircase()
    for row, (_, second, third) in zip(order.tolist(), points[order].tolist(), strict=True):
        if staircase.admits(second, third):
            kept.append(row)
    return np.sort(np.array(kept, dtype=np.int64))


def _not_beaten(points: Array) -> Rows:
    """Leave out what some of the best points beat, to have fewer to compare."""
    scale = np.maximum(np.abs(points).max(axis=0), 1e-300)
    best = np.argsort((points / scale).sum(axis=1), kind="stable")
    killers = best[:: max(1, len(best) // _N_KILLERS)][:_N_KILLERS]
    left = np.arange(len(points))
    for killer in np.unique(np.concatenate([best[:8], killers])):
        beaten = (points[killer] <= points[left]).all(axis=1) & (
            (points[killer] < points[left]).any(axis=1)
        )
        left = left[~beaten]
    return left


class _Staircase:
    """Pairs of which none equals or beats another, by their first number; the second one falls."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._thirds: list[float] = []

    def admits(self, second: float, third: float) -> bool:
        """Take a pair in, unless one that is there equals or beats it."""
        place = bisect_right(self._seconds, second)
        if place and self._thirds[place - 1] <= third:
            return False
        end = bisect_left(self._seconds, second)
        while end < len(self._seconds) and self._thirds[end] >= third:
            end += 1
        start = bisect_left(self._seconds, second)
        self._seconds[start:end] = [second]
        self._thirds[start:end] = [third]
        return True


@dataclass
class Shortlist:
    """All that matters of the configurations seen so far."""

    chooser: Chooser
    figures: Figures | None = None
    n_seen: int = 0
    n_far: int = 0

    def add(self, figures: Figures) -> None:
        """See more configurations."""
        self.n_seen += len(figures)
        self.n_far += int(figures.is_far.sum())
        parts = [figures] if self.figures is None else [self.figures, figures]
        joined = join(parts)
        self.figures = joined.take(self.chooser.worth_keeping(joined))
