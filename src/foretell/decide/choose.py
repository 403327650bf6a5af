"""Choosing: which of many configurations matter, block by block, and which of them is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foretell.decide.assess import Array, Figures, join
from foretell.decide.objective import LIMITS, Question
from foretell.spaces.quantities import COST, ENERGY, TIME

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

N_RUNNERS_UP = 2
#: Two configurations are as good as one another when their objectives differ by less.
_TOLERANCE = 1e-12
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
            n = 1 + N_RUNNERS_UP if certainty == self.asked else 1
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
    scale = np.maximum(np.abs(points).max(axis=0, initial=0.0), 1e-300)
    left = np.argsort(
        (points / scale).sum(axis=1), kind="stable"
    )  # the first of them is never beaten
    kept = []
    while len(left):
        first = left[0]
        kept.append(first)
        left = left[(points[left] < points[first]).any(axis=1)]
    return np.sort(np.array(kept, dtype=np.int64))


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
