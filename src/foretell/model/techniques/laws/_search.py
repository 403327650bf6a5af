"""The search for the sums of few terms that explain measured times best.

All candidates at once are fitted first, with coefficients of zero or more, which leaves a few dozen
of them. Terms are then removed one by one, and exchanged, as long as the evidence grows: the fit,
less a price for each coefficient and for unusual shapes. A search that adds one term after the
other gets stuck instead: a wrong first term is never given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array
from foretell.model.techniques.linear._least_squares import solve_nonnegative, triangle

#: Terms that removal starts from.
_MOST_AT_START = 24
#: Removal goes on past a minimum as long as it loses no more than this.
_SLACK = 3.0
_ROUNDS_OF_EXCHANGE, _TRIED_INSTEAD = 3, 4
#: Laws whose evidence is worse by more than this are left out of the average.
_WORSE = 6.0
_MOST_LAWS = 30
#: Smaller relative errors count as this large: nothing is measured more exactly.
_LEAST_ERROR = 1e-3
#: How much the surprise of a term counts against it when all candidates are fitted at once.
_RELUCTANCE = 0.02
_TINY = 1e-300
_EPSILON = float(np.finfo(float).eps)
#: Of a category with many levels, only the simplest candidates get a coefficient for each.
_MOST_COEFFICIENTS = 6_000
ALL_ROWS = -1


class Part(NamedTuple):
    """A candidate in a law: one coefficient for all rows, or one for each level of a category."""

    term: int
    category: int = ALL_ROWS


class Law(NamedTuple):
    """A sum of parts, and minus twice the log of its evidence, up to a constant."""

    cost: float
    parts: tuple[Part, ...]
    coefficients: Array  # of the parts in order, of each level where a part has several


@dataclass
class Search:
    """Sums of terms for one table.

    Attributes
    ----------
    matrix
        The candidates, divided by the target: their weighted sum is to be 1 in every row.
    weight
        How much each row counts.
    levels
        For each category the rows of each of its levels.
    surprise
        How unlikely each candidate is before any data are seen.
    """

    matrix: Array
    weight: Array
    levels: Sequence[Sequence[NDArray[np.bool_]]]
    surprise: Array
    found: dict[frozenset[Part], Law] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._root = np.sqrt(self.weight)
        self._all_rows = np.ones(len(self.weight), dtype=bool)
        self._weighted = self.matrix * self._root[:, None]
        self._surprise: list[float] = self.surprise.tolist()
        self._n_rows, self._total = len(self.weight), float(self.weight.sum())
        self._price = float(np.log(self._n_rows))  # of a coefficient
        self._blocks: dict[Part, Array] = {}

    def whole(self) -> Law:
        """Return the law of all candidates at once, most of which get no coefficient."""
        return self._solve(self._start(range(len(self.levels)), most=None))

    def laws(self, *, in_haste: bool = False) -> list[tuple[float, Law]]:
        """Return the best laws of few terms, each with its share of the evidence.

        In haste, what removal of terms has found is not improved by exchanging them.
        """
        self._remove(self._start(range(len(self.levels))))
        if not in_haste:
            self._remove(self._start(()))
            self._improve()
        best = self._best.cost
        distinct = {law.parts: law for law in self.found.values() if law.cost <= best + _WORSE}
        kept = sorted(distinct.values(), key=lambda law: (law.cost, law.parts))[:_MOST_LAWS]
        share = np.exp([(best - law.cost) / 2 for law in kept])
        return list(zip((share / share.sum()).tolist(), kept, strict=True))

    def _improve(self) -> None:
        for _ in range(_ROUNDS_OF_EXCHANGE):
            before = self._best
            self._exchange(before)
            if self._best.parts == before.parts:
                return

    @property
    def _best(self) -> Law:
        return min(self.found.values(), key=lambda law: law.cost)

    def _rows_of(self, category: int) -> Sequence[NDArray[np.bool_]]:
        return [self._all_rows] if category == ALL_ROWS else self.levels[category]

    def _columns(self, parts: Iterable[Part]) -> Array:
        return np.concatenate([self._block(part) for part in parts], axis=1)

    def _block(self, part: Part) -> Array:
        """Return the columns of one part, which is in many laws that are tried."""
        if part not in self._blocks:
            column = self._weighted[:, part.term]
            own = [np.where(rows, column, 0.0) for rows in self._rows_of(part.category)]
            self._blocks[part] = np.column_stack(own)
        return self._blocks[part]

    def _n_terms(self, category: int) -> int:
        """Return how many candidates may have a coefficient for each level: the simplest ones."""
        n_terms: int = self.matrix.shape[1]
        return min(n_terms, max(1, _MOST_COEFFICIENTS // len(self._rows_of(category))))

    def _owners(self, parts: Sequence[Part]) -> NDArray[np.int64]:
        """Return the part of each column."""
        counts = [len(self._rows_of(part.category)) for part in parts]
        return np.repeat(np.arange(len(parts)), counts)

    def _start(self, categories: Iterable[int], most: int | None = _MOST_AT_START) -> list[Part]:
        """Fit all candidates at once, and return those that count most."""
        blocks = [(rows, of) for of in (ALL_ROWS, *categories) for rows in self._rows_of(of)]
        n_terms = [self._n_terms(of) for _, of in blocks]
        term = np.concatenate([np.arange(n) for n in n_terms])
        category = np.repeat([of for _, of in blocks], n_terms)
        columns = [
            self._weighted[:, :n] * rows[:, None]
            for (rows, _), n in zip(blocks, n_terms, strict=True)
        ]
        solution = non_negative(columns, self._root, 1 + _RELUCTANCE * self.surprise[term])
        total: dict[Part, float] = {}
        for i in np.flatnonzero(solution > 0):
            part = Part(int(term[i]), int(category[i]))
            total[part] = total.get(part, 0.0) + float(solution[i])
        ranked = sorted(total, key=lambda part: (-total[part], part.term))
        return ranked[:most] or [Part(0)]

    def _solve(self, parts: Sequence[Part]) -> Law:
        """Fit some parts; what gets no coefficient is left out."""
        key = frozenset(parts)
        if key not in self.found:
            blocks, owner = [self._block(part) for part in parts], self._owners(parts)
            solution = non_negative(blocks, self._root)
            used = np.bincount(owner, solution > 0, len(parts)) > 0
            kept = tuple(part for part, is_used in zip(parts, used, strict=True) if is_used)
            residual = self._root - np.concatenate(blocks, axis=1) @ solution
            variance = float(residual @ residual) / self._total
            cost = self._n_rows * np.log(variance + _LEAST_ERROR**2)
            cost += self._price * np.count_nonzero(solution)
            cost += sum([self._surprise[part.term] for part in kept])
            law = Law(float(cost), kept, solution[used[owner]])
            self.found[key] = self.found.setdefault(frozenset(kept), law)
        return self.found[key]

    def _remove(self, parts: Sequence[Part]) -> None:
        """Remove one part after the other, each time the one that is missed least."""
        law = self._solve(parts)
        while len(law.parts) > 1:
            losses = self._losses(law)
            trials = [
                self._solve([part for j, part in enumerate(law.parts) if j != i])
                for i in np.argsort(losses, kind="stable")[:2]
            ]
            trials += [
                self._solve([*law.parts[:i], Part(part.term), *law.parts[i + 1 :]])
                for i, part in enumerate(law.parts)
                if part.category != ALL_ROWS and Part(part.term) not in law.parts
            ]
            smaller = [t for t in trials if len(t.coefficients) < len(law.coefficients)]
            best = min(smaller, key=lambda t: t.cost, default=None)
            if best is None or best.cost > law.cost + _SLACK:
                return
            law = best

    def _losses(self, law: Law) -> Array:
        """Return by how much the evidence falls, to first order, without each part."""
        columns, owner = self._columns(law.parts), self._owners(law.parts)
        in_use = law.coefficients > 0
        columns, owner, solution = columns[:, in_use], owner[in_use], law.coefficients[in_use]
        scale = np.linalg.norm(columns, axis=0)
        inverse = np.linalg.pinv((columns / scale).T @ (columns / scale), hermitian=True)
        residual = self._root - columns @ solution
        rss = float(residual @ residual) + _LEAST_ERROR**2 * self._total
        value = solution * scale
        more = np.zeros(len(law.parts))
        counts = np.bincount(owner, minlength=len(law.parts))
        for size in np.unique(counts[counts > 0]):  # all parts of as many coefficients at once
            parts = np.flatnonzero(counts == size)
            own = np.flatnonzero(counts[owner] == size).reshape(len(parts), size)
            blocks = inverse[own[:, :, None], own[:, None, :]]
            spread, directions = np.linalg.eigh(blocks)
            along = np.einsum("pi,pij->pj", value[own], directions)
            is_free = spread > size * _EPSILON * spread.max(axis=1, keepdims=True)
            more[parts] = (along**2 / np.where(is_free, spread, np.inf)).sum(axis=1)
        price = self._price * counts + self.surprise[[part.term for part in law.parts]]
        losses: Array = self._n_rows * np.log1p(np.maximum(more, 0.0) / rss) - price
        return losses

    def _exchange(self, law: Law) -> None:
        """Try other terms in the place of each part, and one more term."""
        for i, part in enumerate(law.parts):
            rest = [*law.parts[:i], *law.parts[i + 1 :]]
            self._extend(rest, part.category)
            for category in (ALL_ROWS, *range(len(self.levels))):
                if category != part.category:
                    self._solve([*rest, Part(part.term, category)])
        for category in (ALL_ROWS, *range(len(self.levels))):
            self._extend(list(law.parts), category)

    def _extend(self, parts: list[Part], category: int) -> None:
        """Add the terms that would explain most of what some parts leave over."""
        n_terms = self._n_terms(category)
        gain = np.zeros(n_terms)
        basis, residual = None, self._root
        if parts:
            law = self._solve(parts)
            used = self._columns(law.parts)[:, law.coefficients > 0]
            basis = np.linalg.qr(used)[0]
            residual = self._root - basis @ (basis.T @ self._root)
        for rows in self._rows_of(category):
            columns = self._weighted[:, :n_terms] * rows[:, None]
            along = residual @ columns
            if basis is not None:
                columns = columns - basis @ (basis.T @ columns)
            size = np.einsum("ij,ij->j", columns, columns)
            is_new = size > 1e-10
            gain += np.where(is_new & (along > 0), along**2 / np.where(is_new, size, 1.0), 0.0)
        price = self.surprise[:n_terms] * float(residual @ residual) / len(self.weight)
        for term in np.argsort(price - gain, kind="stable")[:_TRIED_INSTEAD].tolist():
            part = Part(term, category)
            if gain[term] > 0 and part not in parts:
                self._solve([*parts, part])


def non_negative(blocks: Sequence[Array], target: Array, reluctance: Array | None = None) -> Array:
    """Find coefficients of zero or more whose sum of columns is nearest to the target.

    ``blocks``: the columns, side by side.
    """
    whole = np.concatenate([*blocks, target[:, None]], axis=1)
    upper = triangle(whole) if len(whole) > whole.shape[1] else whole
    matrix, goal = upper[:, :-1], upper[:, -1]
    norms = np.sqrt(np.add.reduce(matrix * matrix, axis=0))
    scale = norms if reluctance is None else norms * reluctance
    varies = norms > _TINY
    if not varies.all():
        matrix, scale = matrix[:, varies], scale[varies]
    solution = np.zeros(len(norms))
    solution[varies] = np.maximum(solve_nonnegative(matrix / scale, goal), 0.0) / scale
    return solution
