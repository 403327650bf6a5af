"""Which hyperparameters give the same model: such points of a search share one fit."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from foretell.model.techniques import Params, Regressor, Technique

Result = TypeVar("Result")

#: What each worker remembers at most.
_MOST_RESULTS = 100_000


class Point:
    """One set of hyperparameters of a technique, and what its fits depend on."""

    def __init__(self, technique: Technique, params: Params) -> None:
        self.technique = technique
        self.params = params
        self.merges = technique.merges_repeats(params)
        self._known: dict[tuple[int, int], tuple[str, float]] = {}

    @property
    def length(self) -> float:
        """The value of the technique's path, 0 if it has none."""
        path = self.technique.path
        return 0.0 if path is None else float(self.params[path])

    def depends_on(self, n_runs: int, n_features: int) -> tuple[str, float]:
        """Return what a fit on so many runs and features depends on, except the path; its limit.

        Points with the same two values, and the same value of the path, give the same model.
        """
        size = (n_runs, n_features)
        if size not in self._known:
            settings = dict(self.technique.settings(self.params, n_runs, n_features))
            limit = settings.pop(self.technique.limit or "", None)
            settings.pop(self.technique.path or "", None)
            text = json.dumps([self.technique.name, self.merges, settings], sort_keys=True)
            self._known[size] = text, math.inf if limit is None else float(limit)
        return self._known[size]


def serves(limit: float, reached: float, other: float) -> bool:
    """Whether a fit under a limit is the same under another one: it stayed below both.

    >>> serves(20, 7, 10), serves(20, 7, 7), serves(5, 5, 10)
    (True, False, False)
    """
    return other == limit or reached < min(limit, other)


class SharedResults(Generic[Result]):
    """Results of fits, by what they depend on and by the limit they were made under."""

    def __init__(self) -> None:
        self._made: dict[Hashable, list[tuple[float, float, Result]]] = {}

    def find(self, key: Hashable, limit: float) -> Result | None:
        """Return the result of a fit that is the same as this one, if one was made."""
        for made_under, reached, result in self._made.get(key, ()):
            if serves(made_under, reached, limit):
                return result
        return None

    def add(self, key: Hashable, limit: float, reached: float, result: Result) -> None:
        """Remember a result, and forget the oldest ones if there are too many."""
        if key not in self._made and len(self._made) >= _MOST_RESULTS:
            del self._made[next(iter(self._made))]
        self._made.setdefault(key, []).append((limit, reached, result))


def groups(points: Sequence[Point], n_runs: int, n_features: int) -> list[list[Point]]:
    """Group points whose fits may be the same: they differ at most in path and limit."""
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(point.depends_on(n_runs, n_features)[0], []).append(point)
    return list(found.values())


def fit_group(
    group: Sequence[Point], n_runs: int, n_features: int, fit: Callable[[Params], Regressor]
) -> list[Regressor]:
    """Fit the points of one group with as few fits as possible.

    A fit at the largest value of the path serves all smaller ones, and a fit that stayed below
    its limit serves other limits.
    """
    limits = [point.depends_on(n_runs, n_features)[1] for point in group]
    made: list[tuple[float, Point, Regressor]] = []
    fitted: dict[float, Regressor] = {}
    for limit in sorted(set(limits), reverse=True):
        longest = max(
            (p for p, own in zip(group, limits, strict=True) if own == limit),
            key=lambda point: point.length,
        )
        found = (
            regressor
            for under, point, regressor in made
            if serves(under, regressor.reached(), limit) and point.length >= longest.length
        )
        if (regressor := next(found, None)) is None:
            regressor = fit(longest.params)
            made.append((limit, longest, regressor))
        fitted[limit] = regressor
    cut: dict[tuple[int, float], Regressor] = {}
    for point, limit in zip(group, limits, strict=True):
        key = (id(fitted[limit]), point.length)
        if key not in cut:
            path = point.technique.path
            whole = fitted[limit]
            cut[key] = whole if path is None else whole.at(point.params[path])
    return [cut[id(fitted[own]), p.length] for p, own in zip(group, limits, strict=True)]
