"""Folds: each rehearses one question on what was measured, with the rows that would answer it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foretell.model.passports.questions import QuestionKind
from foretell.model.techniques._base import Array
from foretell.model.techniques.points.axes import Groups

Rows = NDArray[np.int64]

FEWEST_LEVELS = 4  # of a column that is cut
_LEAST_LEFT = 3  # levels that stay in training
_MOST_POINTS = 120
#: Of more points than this, more are rehearsed: few would not show how well many do.
_MANY_POINTS, _MOST_OF_MANY = 2_000, 1_000
_MOST_BEYOND, _MOST_BETWEEN, _MOST_UNKNOWN = 10, 6, 6
_BETWEEN_PER_COLUMN = 3
_INSIDE_FOLDS = 5
_BEYOND_SHARES = (1 / 6, 1 / 3)
_LEVELS_PER_BLOCK = 12
#: With fewer points than this, two rounds of inside folds.
_FEW_POINTS = 110


@dataclass(frozen=True, eq=False)
class Fold:
    """Points to fit on and points to predict.

    Attributes
    ----------
    columns
        The columns that were cut, all at the same place; none for inside. For an unknown level, the
        indicator that test points must not show.
    direction
        1 where the largest values are predicted, -1 where the smallest are.
    """

    kind: QuestionKind
    columns: tuple[int, ...]
    direction: int
    train: Rows
    test: Rows

    def asked(self, x: Array) -> Array:
        """Return the rows to predict, without the level that is held out."""
        rows: Array = x[self.test]
        if self.kind == QuestionKind.UNKNOWN:
            rows[:, list(self.columns)] = 0.0
        return rows


def plan_folds(x: Array, numeric: list[int], groups: Groups, seed: int) -> list[Fold]:
    """Plan the folds of every question that the points can answer.

    ``numeric``: the columns that may be cut, which are not indicators.
    """
    random = np.random.default_rng(seed)
    use = np.arange(len(x))
    most = _MOST_POINTS if len(x) <= _MANY_POINTS else _MOST_OF_MANY
    if len(x) > most:
        use = np.sort(random.permutation(len(x))[:most])
    beyond = [f for j in numeric for f in _beyond(x, use, j)]
    between = [f for j in numeric for f in _between(x, use, j)]
    unknown = [f for group in groups for f in _unknown(x, use, group)]
    return [
        *_thinned(_joined(beyond), _MOST_BEYOND),
        *_thinned(_joined(between), _MOST_BETWEEN),
        *_thinned(unknown, _MOST_UNKNOWN),
        *_inside(use, random),
    ]


def _beyond(x: Array, use: Rows, column: int) -> list[Fold]:
    values = x[use, column]
    levels = np.unique(values)
    if len(levels) < FEWEST_LEVELS:
        return []
    counts = {
        min(max(1, round(len(levels) * s)), len(levels) - _LEAST_LEFT) for s in _BEYOND_SHARES
    }
    folds = []
    for direction in (1, -1):
        for count in sorted(counts):
            held = values >= levels[-count] if direction > 0 else values <= levels[count - 1]
            # A logarithm learned from positive values alone cannot predict at zero.
            loses_sign = values[held].min() <= 0 < values[~held].min(initial=np.inf)
            if (~held).sum() >= _LEAST_LEFT and not loses_sign:
                folds.append(Fold(QuestionKind.BEYOND, (column,), direction, use[~held], use[held]))
    return folds


def _between(x: Array, use: Rows, column: int) -> list[Fold]:
    values = x[use, column]
    levels = np.unique(values)
    if len(levels) < FEWEST_LEVELS:
        return []
    inner = levels[1:-1]
    block = max(1, len(levels) // _LEVELS_PER_BLOCK)
    starts = np.linspace(0, len(inner) - block, _BETWEEN_PER_COLUMN).round().astype(int)
    folds = []
    for start in np.unique(starts):
        held = np.isin(values, inner[start : start + block])
        folds.append(Fold(QuestionKind.BETWEEN, (column,), 0, use[~held], use[held]))
    return folds


def _unknown(x: Array, use: Rows, group: tuple[int, ...]) -> list[Fold]:
    """Leave out one level after the other; some other level must stay."""
    held = {column: x[use, column] != 0 for column in group}
    return [
        Fold(QuestionKind.UNKNOWN, (column,), 0, use[~own], use[own])
        for column, own in held.items()
        if own.any() and (~own).sum() >= _LEAST_LEFT
    ]


def _inside(use: Rows, random: np.random.Generator) -> list[Fold]:
    n_folds = min(_INSIDE_FOLDS, len(use))
    folds = []
    for _ in range(2 if len(use) < _FEW_POINTS else 1):
        shuffled = random.permutation(len(use))
        for k in range(n_folds):
            held = np.zeros(len(use), dtype=bool)
            held[shuffled[k::n_folds]] = True
            if (~held).sum() > 1:
                folds.append(Fold(QuestionKind.INSIDE, (), 0, use[~held], use[held]))
    return folds


def _joined(folds: list[Fold]) -> list[Fold]:
    """Join folds that hold out the same points: slots that are 8 × nodes ask the same question."""
    kept: dict[tuple[int, bytes], Fold] = {}
    for fold in folds:
        key = fold.direction, fold.test.tobytes()
        if key in kept:
            fold = replace(fold, columns=kept[key].columns + fold.columns)
        kept[key] = fold
    return list(kept.values())


def _thinned(folds: list[Fold], most: int) -> list[Fold]:
    if len(folds) <= most:
        return folds
    chosen = np.unique(np.linspace(0, len(folds) - 1, most).round().astype(int))
    return [folds[i] for i in chosen]
