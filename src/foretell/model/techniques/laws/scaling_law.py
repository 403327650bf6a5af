"""ScalingLaw: a sum of terms that are never negative, such as a + b·data/nodes + c·log(1 + nodes).

Times are sums of parts: work divided among nodes, overhead of each, a constant. None of these is
negative, which keeps a sum of many candidates from bending between the measurements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import (
    Array,
    Hyperparameter,
    Params,
    Regressor,
    State,
    Technique,
    TrainingRows,
)
from foretell.model.techniques._nested import join_states
from foretell.model.techniques._state import read_array, read_texts
from foretell.model.techniques._values import boolean
from foretell.model.techniques.laws._formula import (
    Clip,
    Expression,
    Inverse,
    Log1p,
    Number,
    add,
    linear,
    multiply,
)
from foretell.model.techniques.laws.power_law import (
    ROUNDS,
    outlier_weights,
    prediction_band,
    read_axes,
    read_band,
    require_positive,
)
from foretell.model.techniques.linear._least_squares import triangle
from foretell.model.techniques.points.axes import Axes

#: More base terms get no products: there would be thousands.
_MOST_MULTIPLIED = 30
#: With so few rows, products of terms cannot be told apart.
_FEW_ROWS = 10
_STEPS_PER_COLUMN = 30
_LEAST_SHARE = 1e-10  # terms that contribute less are rounding errors of the solver
_MOST_SHOWN = 6
#: Terms are constant from this many times the mean on, and below this share of it.
_FAR = 1e80
_NONE = -1

RISING, FALLING, LOG_RISING, LOG_FALLING, DECAYING = "a", "1/a", "log(1+a)", "log(1+1/a)", "1/(1+a)"
LEVEL, NO_LEVEL = "level", "no level"


@dataclass(frozen=True)
class Base:
    """One candidate: a shape of one column, or of one category.

    Attributes
    ----------
    columns
        The column; for ``NO_LEVEL`` all indicators of the category.
    owner
        The first column of what it belongs to: only those of different owners are multiplied.
    offset, scale, least
        The shape is of a = (value + offset) / scale, at least so large.
    """

    shape: str
    columns: tuple[int, ...]
    owner: int
    offset: float = 0.0
    scale: float = 1.0
    least: float = 0.0

    def values(self, x: Array) -> Array:
        """Return the term of each row, never negative."""
        if self.shape == LEVEL:
            return np.asarray(x[:, self.columns[0]] != 0, dtype=np.float64)
        if self.shape == NO_LEVEL:
            return np.asarray((x[:, self.columns] == 0).all(axis=1), dtype=np.float64)
        a: Array = np.clip((x[:, self.columns[0]] + self.offset) / self.scale, self.least, _FAR)
        if self.shape == DECAYING:
            return 1 / (1 + a)
        if self.shape in (FALLING, LOG_FALLING):
            a = 1 / a
        return np.log1p(a) if self.shape in (LOG_RISING, LOG_FALLING) else a

    def expression(self, columns: Sequence[Expression]) -> Expression:
        """Return the term, given what each column is."""
        of = [columns[column] for column in self.columns]
        if self.shape == LEVEL:
            return of[0]
        if self.shape == NO_LEVEL:
            return add([Number(1.0), *(multiply([Number(-1.0), part]) for part in of)])
        shifted = add([of[0], Number(self.offset)])
        a: Expression = Clip(multiply([Number(1 / self.scale), shifted]), self.least, _FAR)
        if self.shape == DECAYING:
            return Inverse(add([Number(1.0), a]))
        if self.shape in (FALLING, LOG_FALLING):
            a = Inverse(a)
        return Log1p(a) if self.shape in (LOG_RISING, LOG_FALLING) else a

    def text(self, names: Sequence[str]) -> tuple[float, str]:
        """Return a factor, and what is written after it: such as 0.125 and ``·nodes``."""
        name = names[self.columns[0]]
        if self.shape == LEVEL:
            return 1.0, f"·[{name}]"
        if self.shape == NO_LEVEL:
            return 1.0, "·[no level]"
        value = f"({name} {'+' if self.offset > 0 else '-'} {abs(self.offset):.4g})"
        value = value if self.offset else name
        size = f"{self.scale:.4g}"
        if self.shape == RISING:
            return 1 / self.scale, f"·{value}"
        if self.shape == FALLING:
            return self.scale, f"/{value}"
        if self.shape == DECAYING:
            return 1.0, f"/(1 + {value}/{size})"
        ratio = f"{value}/{size}" if self.shape == LOG_RISING else f"{size}/{value}"
        return 1.0, f"·log(1 + {ratio})"


def base_terms(axes: Axes) -> list[Base]:
    """Return the candidates, in an order that depends on the axes alone."""
    terms = []
    for k, column in enumerate(axes.first.tolist()):
        if axes.is_log[k]:
            shapes = [RISING, FALLING]
            shapes += [LOG_RISING, LOG_FALLING] if axes.has_curve[k] else []
            with np.errstate(over="ignore"):  # in a hostile file, for the caller to find
                offset, scale, least = axes.offset[k], np.exp(axes.mean[k]), 1 / _FAR
        else:
            shapes, least = [RISING, DECAYING], 0.0
            # Rounded, so that the smallest value of a column that starts at 0 is 0.
            scale = axes.deviation[k] * (axes.high[k] - axes.low[k])
            smallest = axes.mean[k] + axes.deviation[k] * axes.low[k]
            offset = -round(float(smallest / scale), 12) * scale
        numbers = float(offset), float(scale), least
        terms += [Base(shape, (column,), column, *numbers) for shape in shapes]
    for group in axes.groups:
        terms += [Base(LEVEL, (column,), group[0]) for column in group]
        terms.append(Base(NO_LEVEL, group, group[0]))
    return terms


@dataclass(frozen=True, eq=False)
class ScalingLawRegressor(Regressor):
    """A sum of terms.

    Attributes
    ----------
    pairs
        The base terms whose product each term is; -1 stands for the number 1.
    weights
        The coefficient of each term.
    contributions
        The share of each term in predictions, averaged over the training rows.
    low, high
        Bounds of the predictions.
    """

    axes: Axes
    pairs: NDArray[np.int64]
    weights: Array
    contributions: Array
    low: float
    high: float
    remarks: tuple[str, ...] = ()

    @cached_property
    def _base(self) -> list[Base]:
        return base_terms(self.axes)

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        with np.errstate(over="ignore"):
            total = _matrix(self._base, self.pairs, x) @ self.weights
        return np.clip(total, self.low, self.high)

    def _members(self, pair: NDArray[np.int64]) -> list[Base]:
        return [self._base[i] for i in pair if i != _NONE]

    def limits(self) -> tuple[float, float]:
        """Return the ends of the band of predictions."""
        return self.low, self.high

    def importances(self) -> Array | None:
        """Return the share of each column: those of its terms, which columns share equally."""
        shares = np.zeros(self.axes.n_columns)
        for pair, contribution in zip(self.pairs, self.contributions, strict=True):
            members = self._members(pair)
            for member in members:
                columns = list(member.columns)
                shares[columns] += contribution / len(members) / len(columns)
        total = shares.sum()
        return shares / total if total > 0 else None

    def notes(self) -> list[str]:
        """Say so when there were no products."""
        return list(self.remarks)

    def expression(self, columns: Sequence[Expression]) -> Expression:
        """Return the prediction, given what each column is."""
        terms = [
            multiply(member.expression(columns) for member in self._members(pair))
            for pair in self.pairs
        ]
        return Clip(linear(self.weights.tolist(), terms, 0.0), self.low, self.high)

    def formula(self, names: Sequence[str], target: str) -> str:
        """Return the law as a line to read, in the units of the table, largest terms first."""
        order = np.argsort(-self.contributions, kind="stable")
        seen = [i for i in order if self.contributions[i] > 0]
        terms = []
        for i in seen[:_MOST_SHOWN]:
            parts = [member.text(names) for member in self._members(self.pairs[i])]
            parts.sort(key=lambda part: part[1].startswith("/"))  # data/nodes, not /nodes·data
            weight = self.weights[i] * np.prod([factor for factor, _ in parts])
            terms.append(f"{weight:.4g}" + "".join(text for _, text in parts))
        n_more = len(seen) - _MOST_SHOWN
        if n_more > 0:
            terms.append(f"{n_more} more term{'s' if n_more > 1 else ''}")
        return f"{target} ≈ {' + '.join(terms)}"

    def to_state(self) -> State:
        """Return plain values and arrays."""
        axes = join_states({"axes": self.axes.to_state()})
        values = {"low": self.low, "high": self.high, "notes": list(self.remarks)}
        arrays = {name: getattr(self, name) for name in ("pairs", "weights", "contributions")}
        return State({**axes.values, **values}, {**axes.arrays, **arrays})

    @classmethod
    def from_state(cls, state: State, n_features: int) -> ScalingLawRegressor:
        """Rebuild, or raise ValueError."""
        axes = read_axes(state, n_features)
        if not (axes.high > axes.low).all():
            raise ValueError("an axis has no range")
        base = base_terms(axes)
        if not all(0 < term.scale < np.inf for term in base):
            raise ValueError("the unit of a column is out of range")
        pairs = read_array(state, "pairs", shape=(None, 2), dtype=np.int64)
        if not (len(pairs) and pairs.min() >= _NONE and pairs.max() < len(base)):
            raise ValueError("a term is of no base term")
        if len(np.unique(pairs, axis=0)) < len(pairs):  # a small file could ask for gigabytes
            raise ValueError("a term stands twice")
        weights = read_array(state, "weights", shape=(len(pairs),))
        contributions = read_array(state, "contributions", shape=(len(pairs),))
        if (weights < 0).any() or (contributions < 0).any():
            raise ValueError("terms must not be negative")
        notes = read_texts(state, "notes")
        return cls(axes, pairs, weights, contributions, *read_band(state), notes)


class ScalingLawTechnique(Technique):
    """Minimize the relative error over sums of terms with coefficients of zero or more."""

    name = "ScalingLaw"
    regressor = ScalingLawRegressor
    needs_units = True
    weighs_rows = True
    hyperparameters = (
        Hyperparameter(
            "interactions", True, boolean, grid=(True, False), prior="choice(True,False)"
        ),
    )

    def prepare(self, rows: TrainingRows) -> TrainingRows:
        """Refuse targets that are not positive."""
        return require_positive(rows)

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> ScalingLawRegressor:
        """Fit, and fit again with less weight on what is far off."""
        rows = prepared
        axes = Axes.of(rows.x, rows.groups)
        base = base_terms(axes)
        pairs, notes = _candidates(base, len(rows.y), interactions=params["interactions"])
        matrix = _matrix(base, pairs, rows.x)
        unit = float(np.exp(np.mean(np.log(rows.y))))
        relative = matrix / (rows.y / unit)[:, None]
        solution = _robust_solution(relative, rows.weight)
        fitted = relative @ solution
        shares = (rows.weight / np.where(fitted > 0, fitted, 1.0)) @ relative * solution
        shares /= rows.weight.sum()
        kept = {
            tuple(pairs[i].tolist()): (solution[i] * unit, shares[i])
            for i in np.flatnonzero(shares > _LEAST_SHARE * shares.sum())
        }
        _add_unseen(kept, base, rows)
        weights, contributions = np.array(list(kept.values()), dtype=np.float64).T.copy()
        return ScalingLawRegressor(
            axes,
            np.array(list(kept), dtype=np.int64).reshape(-1, 2),
            weights,
            contributions,
            *prediction_band(rows.y),
            notes,
        )


def _candidates(
    base: Sequence[Base], n_rows: int, *, interactions: bool
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the pairs of base terms to choose from, and a note when products were left out."""
    pairs = [(_NONE, _NONE), *((i, _NONE) for i in range(len(base)))]
    n_terms = sum(term.shape != NO_LEVEL for term in base)
    notes: tuple[str, ...] = ()
    if interactions and n_rows <= _FEW_ROWS:
        notes = (f"{n_rows} rows are too few to tell products of terms apart",)
    elif interactions and n_terms > _MOST_MULTIPLIED:
        notes = (f"{n_terms} terms are too many to multiply with one another",)
    elif interactions:
        both = combinations(range(len(base)), 2)
        pairs += [(i, j) for i, j in both if base[i].owner != base[j].owner]
    return np.array(pairs, dtype=np.int64), notes


def _matrix(base: Sequence[Base], pairs: NDArray[np.int64], x: Array) -> Array:
    """Return the terms of each row."""
    used = sorted(set(pairs.ravel().tolist()) - {_NONE})
    values = {i: base[i].values(x) for i in used}
    values[_NONE] = np.ones(len(x))
    matrix = np.empty((len(x), len(pairs)))
    for k, (i, j) in enumerate(pairs.tolist()):
        np.multiply(values[i], values[j], out=matrix[:, k])
    return matrix


def _robust_solution(relative: Array, multiplicity: Array) -> Array:
    solution = _solve(relative, multiplicity)
    for _ in range(ROUNDS):
        weight = outlier_weights(relative @ solution - 1, multiplicity)
        solution = _solve(relative, multiplicity * weight)
    return solution


def _solve(relative: Array, weight: Array) -> Array:
    """Find coefficients of zero or more whose sum of columns is nearest to 1 in every row."""
    from scipy.optimize import lsq_linear, nnls

    whole = np.column_stack([relative, np.ones(len(relative))]) * np.sqrt(weight)[:, None]
    upper = triangle(whole) if len(whole) > whole.shape[1] else whole
    norms = np.linalg.norm(upper[:, :-1], axis=0)
    varies = norms > 0
    matrix, target = upper[:, :-1][:, varies] / norms[varies], upper[:, -1]
    try:
        found = nnls(matrix, target, maxiter=_STEPS_PER_COLUMN * matrix.shape[1])[0]
    except RuntimeError:  # it ran in circles, as it may among nearly dependent columns
        found = np.maximum(lsq_linear(matrix, target, bounds=(0, np.inf), method="trf").x, 0)
    solution = np.zeros(len(norms))
    solution[varies] = found / norms[varies]
    return solution


def _add_unseen(
    kept: dict[tuple[int, ...], tuple[float, float]], base: Sequence[Base], rows: TrainingRows
) -> None:
    """Give a level never seen the average of those seen, in place.

    Where a selection dropped the column of a level, rows without one were seen, and fitted.
    """
    for unseen, term in enumerate(base):
        if term.shape != NO_LEVEL or term.values(rows.x).any():
            continue
        share = {
            i: float(rows.weight @ base[i].values(rows.x) / rows.weight.sum())
            for i in range(unseen - len(term.columns), unseen)
        }
        averages: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for pair, (weight, _) in kept.items():
            for position, i in enumerate(pair):
                if i in share:
                    average = (*pair[:position], unseen, *pair[position + 1 :])
                    averages[average] += share[i] * weight
        kept.update({pair: (weight, 0.0) for pair, weight in averages.items()})
