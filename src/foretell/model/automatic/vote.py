"""The weight of each member of an ensemble, by its rehearsed error on the question asked.

Weights are the inverse squares of errors, and the outer quarters of the predictions are left out.
With few folds it is mostly chance which member looks best, and one that fails must do no harm.
Inside the data, where every configuration is held out once, many of them leave less to chance: the
power of the error grows with their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foretell.model.automatic.folds import Fold
from foretell.model.passports.calibration import relative_error
from foretell.model.passports.measured_range import MeasuredRange
from foretell.model.passports.questions import QuestionKind
from foretell.model.techniques._base import Array, State
from foretell.model.techniques._state import read_array

_POWER = 2.0
#: Inside the data, the power that many configurations tend to, and how many it takes for half.
_MOST_POWER, _POINTS_FOR_HALF = 6.0, 60
#: How much of the squared distance between votes their log mean is lowered by. The least relative
#: error is expected one variance below the median, and members share errors that they do not show.
_LOWERED = 3.0
_TRIM = 0.25  # of the weight, on each side
_LEAST_ERROR = 0.003  # smaller errors count as equal
_NO_VOTE = 1e-80  # so small a share leaves no weight
#: How much the folds of a column count; the rest is the mean over all columns.
_OWN = {QuestionKind.BETWEEN: 0.75, QuestionKind.BEYOND: 1.0}
#: How much inside folds count for questions between levels, and the other way round.
_INSIDE_IN_BETWEEN = 0.3
_BETWEEN_IN_INSIDE = 0.3


@dataclass(frozen=True, eq=False)
class Vote:
    """Log errors of the members on each question.

    There is one row for inside, one per column for between, and two per column for beyond: below,
    above. The log errors inside count more if many configurations were held out.
    """

    measured: MeasuredRange
    inside: Array
    between: Array
    beyond: Array

    @classmethod
    def of(
        cls, measured: MeasuredRange, folds: Sequence[Fold], errors: Sequence[Array], n_members: int
    ) -> Vote:
        """Average the log errors of each member over the folds of each question.

        ``errors``: the mean relative error of each member on each fold.
        """
        logs = [np.log(np.maximum(e, _LEAST_ERROR)) for e in errors]
        marked = list(zip(folds, logs, strict=True))

        def mean(kind: QuestionKind, column: int | None = None, direction: int = 0) -> Array | None:
            found = [
                log
                for fold, log in marked
                if fold.kind == kind
                and (column is None or column in fold.columns)
                and direction in (0, fold.direction)
            ]
            return np.mean(found, axis=0) if found else None

        unknown = np.zeros(n_members)
        inside = mean(QuestionKind.INSIDE)
        between = _first(mean(QuestionKind.BETWEEN), inside, unknown)
        beyond = _first(mean(QuestionKind.BEYOND), between, unknown)
        inside = _first(inside, unknown)
        n_columns = len(measured.low)
        power = _inside_power(fold for fold in folds if fold.kind == QuestionKind.INSIDE)
        own_between = [
            _INSIDE_IN_BETWEEN * inside
            + (1 - _INSIDE_IN_BETWEEN)
            * _mixed(_OWN[QuestionKind.BETWEEN], mean(QuestionKind.BETWEEN, j), between)
            for j in range(n_columns)
        ]
        own_beyond = [
            _mixed(_OWN[QuestionKind.BEYOND], mean(QuestionKind.BEYOND, j, direction), beyond)
            for j in range(n_columns)
            for direction in (-1, 1)
        ]
        return cls(
            measured,
            power / _POWER * ((1 - _BETWEEN_IN_INSIDE) * inside + _BETWEEN_IN_INSIDE * between),
            np.array(own_between).reshape(n_columns, n_members),
            np.array(own_beyond).reshape(2 * n_columns, n_members),
        )

    def counted(self, inside: Sequence[float], beyond: Sequence[float]) -> Vote:
        """Return the vote in which members have several votes, a part of one, or none."""
        more_inside, more_beyond = (
            np.log(np.maximum(votes, _NO_VOTE)) / _POWER for votes in (inside, beyond)
        )
        return replace(
            self,
            inside=self.inside - more_inside,
            between=self.between - more_inside,
            beyond=self.beyond - more_beyond,
        )

    def rehearsed(self, fold: Fold, votes: Array) -> Array:
        """Return the combined votes on a fold, weighted as for the question it rehearses."""
        columns = list(fold.columns)
        scores = self.inside
        if fold.kind == QuestionKind.BETWEEN:
            scores = self.between[columns].mean(axis=0)
        elif fold.kind == QuestionKind.BEYOND:
            above = 1 if fold.direction > 0 else 0
            scores = self.beyond[[2 * c + above for c in columns]].mean(axis=0)
        weights = np.tile(_weights(scores[None]), (len(votes), 1))
        return self._combined(votes, weights, np.full(len(votes), fold.kind == QuestionKind.BEYOND))

    def combined(self, x: Array, votes: Array, weights: Array) -> Array:
        """Return one log prediction for each row."""
        return self._combined(votes, weights, (self._distance(x) != 0).any(axis=1))

    def _combined(self, votes: Array, weights: Array, is_beyond: NDArray[np.bool_]) -> Array:
        """Combine votes; beyond the data, members that stay constant disagree for a reason."""
        return np.where(is_beyond, trimmed_mean(votes, weights), lowered(votes, weights))

    def _distance(self, x: Array) -> Array:
        """Return how far outside rows are along columns whose effect members know."""
        distance = self.measured.distance(x)
        distance[:, self.measured.is_constant] = 0.0
        return distance

    def weights(self, x: Array) -> Array:
        """Return the weight of each member for each row."""
        distance = self._distance(x)
        above, below = distance > 0, distance < 0
        asked = np.stack([below, above], axis=2).reshape(len(x), -1).astype(float)
        is_beyond = asked.any(axis=1)
        scores = np.tile(self.inside, (len(x), 1))
        between = self.measured.between(x, distance).astype(float)
        between[is_beyond] = 0.0
        is_between = between.any(axis=1)
        scores[is_between] = _average(between[is_between], self.between)
        scores[is_beyond] = _average(asked[is_beyond], self.beyond)
        return _weights(scores)

    @property
    def inside_weights(self) -> Array:
        """The weight of each member at known values."""
        weights: Array = _weights(self.inside[None])[0]
        return weights

    def to_state(self) -> State:
        """Return plain arrays."""
        levels = self.measured.levels
        return State(
            {},
            {
                "low": self.measured.low,
                "high": self.measured.high,
                "levels": np.concatenate([*levels, np.zeros(0)]),
                "n_levels": np.array([len(v) for v in levels], dtype=np.int64),
                "inside": self.inside,
                "between": self.between,
                "beyond": self.beyond,
            },
        )

    @classmethod
    def from_state(cls, state: State, n_columns: int, n_members: int) -> Vote:
        """Rebuild, or raise ValueError."""
        n_levels = read_array(state, "n_levels", shape=(n_columns,), dtype=np.int64)
        if n_levels.min(initial=0) < 0:
            raise ValueError("the number of levels of a column cannot be negative")
        levels = read_array(state, "levels", shape=(int(n_levels.sum()),))
        measured = MeasuredRange(
            read_array(state, "low", shape=(n_columns,)),
            read_array(state, "high", shape=(n_columns,)),
            tuple(np.split(levels, np.cumsum(n_levels)[:-1])) if n_columns else (),
        )
        return cls(
            measured,
            read_array(state, "inside", shape=(n_members,)),
            read_array(state, "between", shape=(n_columns, n_members)),
            read_array(state, "beyond", shape=(2 * n_columns, n_members)),
        )


def relative_errors(log_predictions: Array, log_y: Array, weight: Array) -> Array:
    """Return the mean relative error of each member, one per column."""
    errors: Array = weight @ relative_error(log_predictions, log_y[:, None]) / weight.sum()
    return errors


def lowered(votes: Array, weights: Array) -> Array:
    """Return the log prediction of each row that is expected to have the least relative error.

    A prediction that is too high may be off by any factor, one that is too low by 100 % at most. So
    the less the members agree on a row, the lower its prediction, by their mean distance at most.
    """
    middle = trimmed_mean(votes, weights)
    distance = (weights * np.abs(votes - middle[:, None])).sum(axis=1)
    less: Array = middle - np.minimum(_LOWERED * distance**2, distance)
    return less


def trimmed_mean(votes: Array, weights: Array) -> Array:
    """Return the weighted mean of the middle half of the weight of each row.

    >>> trimmed_mean(np.array([[1.0, 2.0, 3.0, 90.0]]), np.full((1, 4), 0.25))
    array([2.5])
    """
    order = np.argsort(votes, axis=1, kind="stable")
    ordered = np.take_along_axis(votes, order, axis=1)
    weight = np.take_along_axis(weights, order, axis=1)
    upper = np.cumsum(weight, axis=1)
    kept = np.minimum(upper, 1 - _TRIM) - np.maximum(upper - weight, _TRIM)
    kept = np.maximum(kept, 0.0)
    mean: Array = (kept * ordered).sum(axis=1) / kept.sum(axis=1)
    return mean


def _weights(scores: Array) -> Array:
    weights = np.exp(-_POWER * (scores - scores.min(axis=1, keepdims=True)))
    normal: Array = weights / weights.sum(axis=1, keepdims=True)
    return normal


def _inside_power(folds: Iterable[Fold]) -> float:
    """Return the power of errors inside the data, by how many points were held out."""
    n_points = len({int(point) for fold in folds for point in fold.test})
    return max(_POWER, _MOST_POWER * n_points / (n_points + _POINTS_FOR_HALF))


def _first(*candidates: Array | None) -> Array:
    return next(c for c in candidates if c is not None)


def _mixed(share: float, own: Array | None, all_: Array) -> Array:
    return all_ if own is None else share * own + (1 - share) * all_


def _average(asked: NDArray[np.float64], scores: Array) -> Array:
    """Average the scores of the questions that each row asks."""
    mean: Array = asked @ scores / asked.sum(axis=1, keepdims=True)
    return mean
