"""Choosing: which of many configurations is best, and which others matter for the answer."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.plan.assess import Array, Figures, join
from foretell.decide.question.objective import EVEN, LIMITS, Question
from foretell.spaces.quantities import COST, ENERGY, TIME
from foretell.spaces.rows import is_in

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

N_RUNNERS_UP = 2
#: How many of the best are kept to find the runners-up among: some of them may read the same.
N_KEPT = 12
#: Rounding errors do not break a limit.
_TOLERANCE = 1e-12
#: How many good points are compared with all others first, which leaves few to compare in pairs.
_N_GOOD_POINTS = 256
_FRONT = (TIME, COST, ENERGY)


@dataclass(frozen=True)
class PlanChooser:
    """Ranks configurations by their scores, within limits that must hold with a probability.

    ``measured``: if given, all other configurations are doubtful; by default only those outside the
    data are.
    """

    question: Question
    minimize: str
    kinds: Sequence[str]
    measured: pd.DataFrame | None = None

    def holds(self, figures: Figures, certainty: float, but: str | None = None) -> Mask:
        """Say which configurations keep all limits with a probability, except perhaps one limit."""
        found = np.ones(len(figures), dtype=bool)
        for word, most in self.question.limits.items():
            if word != but:
                found &= figures.at(LIMITS[word], certainty) <= most * (1 + _TOLERANCE)
        return found

    def scores(self, figures: Figures) -> Array:
        """Return what configurations are compared by; less is better.

        It is the prediction of the objective; if it is doubtful, it is what the objective exceeds
        with the probability of the risk. A cautious plan leaves the data, or what was measured,
        only for what is better even at its pessimistic end. Unless far configurations are allowed,
        every plan is cautious about these.
        """
        score = figures.value(self.minimize)
        is_doubtful = self.is_doubtful(figures)
        if self.question.risk != EVEN and is_doubtful.any():
            score = np.where(is_doubtful, self._end(figures, self.question.compared), score)
        if not self.question.allow_far and figures.is_far.any():
            score = np.where(figures.is_far, self._end(figures, self.question.pessimistic), score)
        return score

    def _end(self, figures: Figures, probability: float) -> Array:
        """Return the end of an interval; infinite without one, because it may be anything."""
        found = figures.at(self.minimize, probability)
        return np.where(np.isnan(found), np.inf, found)

    def is_doubtful(self, figures: Figures) -> Mask:
        """Say for which configurations a prediction alone is not enough."""
        if self.measured is None:
            return figures.is_outside
        return ~is_in(figures.frame, self.measured)

    def best(self, figures: Figures, among: Mask, n: int = 1, by: Array | None = None) -> Rows:
        """Return the best of some rows: by their scores, then by prediction, time and nodes.

        Without intervals, scores may all be infinite. ``by``: what to compare instead of scores.
        """
        rows = np.flatnonzero(among)
        keys = [figures.bill.nodes[rows]]
        keys += [figures.value(TIME)[rows]] if TIME in self.kinds else []
        keys += [figures.value(self.minimize)[rows]]
        objective = (self.scores(figures) if by is None else by)[rows]
        if len(rows) > 8 * n:  # sorting a million for a few is slow
            near = objective <= np.partition(objective, n - 1)[n - 1]
            rows, objective, keys = rows[near], objective[near], [k[near] for k in keys]
        return rows[np.lexsort((*keys, objective))][:n]

    def worth_keeping(self, figures: Figures) -> Rows:
        """Return the rows that can matter for any part of the answer."""
        kept = [self.best_unsupported(figures), self.closest(figures), self.front(figures)]
        kept.append(self.best_doubtful(figures))
        for certainty in self.question.certainties:
            n = N_KEPT if certainty == self.question.confidence else 1
            kept.append(self.chosen(figures, certainty, n))
        kept += [self.without(figures, word) for word in self.question.limits]
        return np.unique(np.concatenate(kept))

    def allowed(self, figures: Figures) -> Mask:
        """Say which configurations may be chosen, if limits are kept."""
        return figures.is_supported | self.question.allow_far

    def closest(self, figures: Figures) -> Rows:
        """Return the row that exceeds the limits least; of several, the best."""
        excess = np.ones(len(figures))  # as a factor
        for word, most in self.question.limits.items():
            excess = np.maximum(excess, figures.at(LIMITS[word], self.question.confidence) / most)
        excess = np.where(self.allowed(figures), excess, np.inf)
        if not len(excess) or not np.isfinite(excess.min()):
            return np.zeros(0, dtype=np.int64)
        return self.best(figures, excess <= excess.min() * (1 + _TOLERANCE))

    def front(self, figures: Figures) -> Rows:
        """Return the rows that no other beats in time, cost and energy at once.

        Predictions far outside the data are no part of it, unless they are allowed to decide.
        """
        rows = np.flatnonzero(~figures.is_far | self.question.allow_far)
        kinds = [kind for kind in _FRONT if kind in self.kinds] or [self.minimize]
        points = np.column_stack([figures.value(kind)[rows] for kind in kinds])
        return rows[pareto(points)]

    def chosen(self, figures: Figures, certainty: float, n: int = 1) -> Rows:
        """Return the best rows that may be chosen and keep all limits with a probability."""
        return self.best(figures, self.allowed(figures) & self.holds(figures, certainty), n)

    def without(self, figures: Figures, word: str) -> Rows:
        """Return the row that would be chosen without one of the limits."""
        among = self.holds(figures, self.question.confidence, but=word)
        return self.best(figures, self.allowed(figures) & among)

    def best_unsupported(self, figures: Figures) -> Rows:
        """Return the row with the best prediction that no interval supports and keeps limits."""
        among = self.holds(figures, self.question.confidence) & ~figures.is_supported
        return self.best(figures, among, by=figures.value(self.minimize))

    def best_doubtful(self, figures: Figures) -> Rows:
        """Return the doubtful row with the best prediction, of those that may be chosen."""
        among = self.allowed(figures) & self.holds(figures, self.question.confidence)
        among &= self.is_doubtful(figures)
        return self.best(figures, among, by=figures.value(self.minimize))


def pareto(points: Array) -> Rows:
    """Return the rows that no other row equals or beats in every column; of equals, the first.

    >>> pareto(np.array([[1.0, 9.0], [2.0, 9.0], [3.0, 1.0], [1.0, 9.0]])).tolist()
    [0, 2]
    """
    rows = np.arange(len(points))
    if points.shape[1] < 3:
        points = np.column_stack([points, *[np.zeros(len(points))] * (3 - points.shape[1])])
    if len(points) > _N_GOOD_POINTS:
        rows = _not_beaten(points)
    order = rows[np.lexsort((rows, *points[rows].T[::-1]))]
    kept, staircase = [], _Staircase()
    for row, (_, second, third) in zip(order.tolist(), points[order].tolist(), strict=True):
        if staircase.admits(second, third):
            kept.append(row)
    return np.sort(np.array(kept, dtype=np.int64))


def _not_beaten(points: Array) -> Rows:
    """Drop the points that some good points beat, so that few are left to compare in pairs."""
    scale = np.maximum(np.abs(points).max(axis=0), 1e-300)
    best = np.argsort((points / scale).sum(axis=1), kind="stable")
    spread = best[:: max(1, len(best) // _N_GOOD_POINTS)][:_N_GOOD_POINTS]
    left = np.arange(len(points))
    for row in np.unique(np.concatenate([best[:8], spread])):
        good, others = points[row], points[left]
        left = left[~((good <= others).all(axis=1) & (good < others).any(axis=1))]
    return left


class _Staircase:
    """Pairs of numbers of which none equals or beats another, in rising order of the first."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._thirds: list[float] = []

    def admits(self, second: float, third: float) -> bool:
        """Add a pair and return True, unless one that is there equals or beats it."""
        place = bisect_right(self._seconds, second)
        if place and self._thirds[place - 1] <= third:
            return False
        start = end = bisect_left(self._seconds, second)
        while end < len(self._seconds) and self._thirds[end] >= third:
            end += 1
        self._seconds[start:end] = [second]
        self._thirds[start:end] = [third]
        return True


@dataclass
class Shortlist:
    """The configurations that matter, of all that were seen so far.

    ``keep``: says which rows matter.
    """

    chooser: PlanChooser
    keep: Callable[[PlanChooser, Figures], Rows] = PlanChooser.worth_keeping
    figures: Figures | None = None
    n_seen: int = 0
    n_far: int = 0

    def add(self, figures: Figures) -> None:
        """Look at more configurations, and keep those that matter."""
        self.n_seen += len(figures)
        self.n_far += int((~figures.is_supported).sum())
        joined = join([figures] if self.figures is None else [self.figures, figures])
        self.figures = joined.take(self.keep(self.chooser, joined))
