"""ScalingLaw: a sum of few terms that are never negative, such as a + b·data/nodes + c·nodes.

Times are sums of parts: work divided among nodes, overhead of each, a constant. None of these is
negative, and few of them explain a table. A term multiplies shapes of up to three columns, and may
have a coefficient of its own for each level of a category. Laws that explain the data about equally
well are averaged, weighted by their evidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import (
    Array,
    Hyperparameter,
    LogTechnique,
    Params,
    Regressor,
    State,
    TrainingRows,
)
from foretell.model.techniques._state import join_states, read_array, read_texts
from foretell.model.techniques._values import boolean, one_of
from foretell.model.techniques.laws._formula import Clip, Expression, linear, multiply
from foretell.model.techniques.laws._search import ALL_ROWS, Law, Search, non_negative
from foretell.model.techniques.laws._terms import (
    ALL_SHAPES,
    MOST_FACTORS,
    NO_LEVEL,
    NONE,
    SLOW_SHAPES,
    Base,
    Terms,
    base_terms,
    candidate_terms,
    surprise,
    term_values,
)
from foretell.model.techniques.laws.power_law import (
    ROUNDS,
    outlier_weights,
    prediction_band,
    read_axes,
    read_band,
)
from foretell.model.techniques.points.axes import Axes

#: With this many rows or fewer, products of columns cannot be told apart.
_FEW_ROWS = 10
_MOST_COLUMNS = 3
_LEAST_SHARE = 1e-10  # terms that contribute less are rounding errors of the solver
_MOST_SHOWN = 6


@dataclass(frozen=True, eq=False)
class ScalingLawRegressor(Regressor):
    """A sum of terms.

    Attributes
    ----------
    terms
        The base terms whose product each term is; -1 stands for the number 1.
    laws
        The coefficients of each term in each of the laws that explain the data about equally well.
    evidence
        The share of each law in the evidence. Their weighted mean is the prediction.
    contributions
        The share of each term in predictions, averaged over the training rows.
    low, high
        Bounds of the predictions.
    """

    axes: Axes
    terms: Terms
    laws: Array
    evidence: Array
    contributions: Array
    low: float
    high: float
    remarks: tuple[str, ...] = ()

    @cached_property
    def _base(self) -> list[Base]:
        return base_terms(self.axes)

    @cached_property
    def weights(self) -> Array:
        """The coefficient of each term."""
        weights: Array = self.evidence @ self.laws
        return weights

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        with np.errstate(over="ignore"):
            total = term_values(self._base, self.terms, x) @ self.weights
        return np.clip(total, self.low, self.high)

    def alternatives(self, x: Array) -> tuple[Array, Array] | None:
        """Return what each law predicts, and its share of the evidence."""
        if len(self.evidence) == 1:
            return None
        with np.errstate(over="ignore"):
            values = term_values(self._base, self.terms, x) @ self.laws.T
        return np.clip(values, self.low, self.high), self.evidence

    def _members(self, term: NDArray[np.int64]) -> list[Base]:
        return [self._base[i] for i in term if i != NONE]

    def limits(self) -> tuple[float, float]:
        """Return the ends of the band of predictions."""
        return self.low, self.high

    def importances(self) -> Array | None:
        """Return the share of each column: those of its terms, which columns share equally."""
        shares = np.zeros(self.axes.n_columns)
        for term, contribution in zip(self.terms, self.contributions, strict=True):
            members = self._members(term)
            for member in members:
                columns = list(member.columns)
                shares[columns] += contribution / len(members) / len(columns)
        total = shares.sum()
        return shares / total if total > 0 else None

    def expression(self, columns: Sequence[Expression]) -> Expression:
        """Return the prediction, given what each column is."""
        terms = [
            multiply(member.expression(columns) for member in self._members(term))
            for term in self.terms
        ]
        return Clip(linear(self.weights.tolist(), terms, 0.0), self.low, self.high)

    def formula(self, names: Sequence[str], target: str) -> str:
        """Return the law as a line to read, in the units of the table, largest terms first."""
        order = np.argsort(-self.contributions, kind="stable")
        seen = [i for i in order if self.contributions[i] > 0]
        terms = []
        for i in seen[:_MOST_SHOWN]:
            parts = [member.text(names) for member in self._members(self.terms[i])]
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
        arrays = {
            name: getattr(self, name) for name in ("terms", "laws", "evidence", "contributions")
        }
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
        terms = read_array(state, "terms", shape=(None, MOST_FACTORS), dtype=np.int64)
        if not (len(terms) and terms.min() >= NONE and terms.max() < len(base)):
            raise ValueError("a term refers to a base term that does not exist")
        if len(np.unique(terms, axis=0)) < len(terms):  # a small file could ask for gigabytes
            raise ValueError("a term stands twice")
        evidence = read_array(state, "evidence", shape=(None,))
        laws = read_array(state, "laws", shape=(len(evidence), len(terms)))
        contributions = read_array(state, "contributions", shape=(len(terms),))
        if min(part.min(initial=0.0) for part in (laws, evidence, contributions)) < 0:
            raise ValueError("terms must not be negative")
        notes = read_texts(state, "notes")
        return cls(axes, terms, laws, evidence, contributions, *read_band(state), notes)


class ScalingLawTechnique(LogTechnique):
    """Minimize the relative error over sums of few terms with coefficients of zero or more."""

    name = "ScalingLaw"
    regressor = ScalingLawRegressor
    hyperparameters = (
        Hyperparameter(
            "interactions", True, boolean, grid=(True, False), prior="choice(True,False)"
        ),
        Hyperparameter("terms", "few", one_of(("few", "many"))),
    )

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> ScalingLawRegressor:
        """Give little weight to what is far off, then search for laws."""
        return _fit(prepared, params, in_haste=False)

    def refit(
        self, rows: TrainingRows, params: Params, seed: int, start: Regressor | None
    ) -> ScalingLawRegressor:
        """Search less thoroughly."""
        return _fit(self.prepare(rows), params, in_haste=True)


def _fit(rows: TrainingRows, params: Params, *, in_haste: bool) -> ScalingLawRegressor:
    axes = Axes.of(rows.x, rows.groups)
    base = base_terms(axes)
    is_short = len(rows.y) <= _FEW_ROWS
    few = params["interactions"] and is_short
    products = params["interactions"] and not few
    # The evidence of so few rows prefers one term to another by chance.
    is_sparse = params["terms"] == "few" and not is_short
    most_columns, shapes = (_MOST_COLUMNS, ALL_SHAPES) if is_sparse else (2, SLOW_SHAPES)
    terms = candidate_terms(base, rows.x, most_columns if products else 1, shapes)
    unit = float(np.exp(np.average(np.log(rows.y), weights=rows.weight)))
    relative = term_values(base, terms, rows.x) / (rows.y / unit)[:, None]
    weight = rows.weight if in_haste else _robust_weights(relative, rows.weight)
    categories = _categories(base, rows)
    search = Search(relative, weight, [c.rows for c in categories], surprise(base, terms))
    found = search.laws(in_haste=in_haste) if is_sparse else [(1.0, search.whole())]
    evidence, laws = zip(*found, strict=True)
    by_term = [_by_term(law, terms, categories) for law in laws]
    chosen = list(dict.fromkeys(term for own in by_term for term in own))
    table = np.array([[own.get(term, 0.0) for term in chosen] for own in by_term])
    kept = np.array(chosen, dtype=np.int64).reshape(-1, MOST_FACTORS)
    return ScalingLawRegressor(
        axes,
        kept,
        unit * table,
        np.array(evidence),
        _contributions(term_values(base, kept, rows.x) * (np.array(evidence) @ table), weight),
        *prediction_band(rows.y),
        (f"{len(rows.y)} rows are too few to tell products of columns apart",) if few else (),
    )


@dataclass(frozen=True, eq=False)
class _Category:
    """The levels of a category that were seen: their base terms, rows, and shares of all rows.

    ``unseen`` is the base term of a level never seen; None where rows without a level were seen,
    because a selection dropped its column.
    """

    base: list[int]
    rows: list[NDArray[np.bool_]]
    shares: Array
    unseen: int | None


def _categories(base: Sequence[Base], rows: TrainingRows) -> list[_Category]:
    """Find the categories whose levels may have coefficients of their own."""
    found = []
    for i, term in enumerate(base):
        if term.shape != NO_LEVEL:
            continue
        of_level = {k: base[k].values(rows.x) != 0 for k in range(i - len(term.columns), i + 1)}
        seen = {k: own for k, own in of_level.items() if own.any()}
        if len(seen) > 1:
            shares = np.array([rows.weight[own].sum() for own in seen.values()])
            found.append(
                _Category(
                    list(seen),
                    list(seen.values()),
                    shares / rows.weight.sum(),
                    None if i in seen else i,
                )
            )
    return found


def _by_term(
    law: Law, terms: Terms, categories: Sequence[_Category]
) -> dict[tuple[int, ...], float]:
    """Return the coefficient of each term; a level never seen gets the mean of those seen."""
    found: defaultdict[tuple[int, ...], float] = defaultdict(float)
    coefficients = iter(law.coefficients.tolist())
    for part in law.parts:
        term = terms[part.term].tolist()
        if part.category == ALL_ROWS:
            found[tuple(term)] += next(coefficients)
            continue
        category, at = categories[part.category], term.index(NONE)
        own = [next(coefficients) for _ in category.base]
        of_level = dict(zip(category.base, own, strict=True))
        if category.unseen is not None:
            of_level[category.unseen] = float(category.shares @ own)
        for level, coefficient in of_level.items():
            found[(*term[:at], level, *term[at + 1 :])] += coefficient
    return {term: coefficient for term, coefficient in found.items() if coefficient > 0}


def _robust_weights(relative: Array, multiplicity: Array) -> Array:
    """Return how much each row counts: less if even all candidates at once do not explain it."""
    weight = multiplicity
    for _ in range(ROUNDS):
        root = np.sqrt(weight)
        solution = non_negative([relative * root[:, None]], root)
        weight = multiplicity * outlier_weights(relative @ solution - 1, multiplicity)
    return weight


def _contributions(values: Array, weight: Array) -> Array:
    """Return the mean share of each term in the predictions of the training rows."""
    total = values.sum(axis=1, keepdims=True)
    shares: Array = weight @ (values / np.where(total > 0, total, 1.0)) / weight.sum()
    shares[shares <= _LEAST_SHARE * shares.sum()] = 0.0
    return shares
