"""Linear models, and the reduction of many rows to a small problem of the same solution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array, Regressor, State, TrainingRows
from foretell.model.techniques._state import read_array, read_number, read_texts
from foretell.model.techniques.linear._columns_met import columns_met

# Values factorized at once, whatever the number of rows: small enough to stay in cache.
_BLOCK_VALUES = 1 << 17

# A centered column this small against its mean is rounding error: the column is constant.
_CONSTANT = 1e-12

# Matrices of fewer columns are many, and small.
_FEW_COLUMNS = 128

# Active-set steps per column; the usual fit needs about one.
_STEPS_PER_COLUMN = 30

# Terms that contribute less than this share are rounding errors, which differ between processors.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class LinearRegressor(Regressor):
    """A weighted sum of the features plus an intercept."""

    slopes: Array
    intercept: float
    remarks: tuple[str, ...] = ()

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        return x @ self.slopes + self.intercept

    def coefficients(self) -> tuple[Array, float]:
        """Return the weight of each feature, and the intercept."""
        return self.slopes, self.intercept

    def to_state(self) -> State:
        """Return the coefficients and the intercept."""
        values = {"intercept": self.intercept, "notes": list(self.remarks)}
        return State(values, {"coefficients": self.slopes})

    @classmethod
    def from_state(cls, state: State, n_features: int) -> LinearRegressor:
        """Rebuild from a file, or raise ValueError."""
        return cls(
            read_array(state, "coefficients", shape=(n_features,)),
            read_number(state, "intercept"),
            read_texts(state, "notes"),
        )


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A least-squares problem of few rows with the same solutions as the one on all rows.

    Attributes
    ----------
    factor
        What the features became: at most one row more than columns, upper triangular.
    x_mean, y_mean
        What was subtracted before; zeros when the problem has no intercept.
    """

    factor: Array
    target: Array
    x_mean: Array
    y_mean: float

    @cached_property
    def norms(self) -> Array:
        """Length of each column, as weighted and centered."""
        lengths: Array = np.linalg.norm(self.factor, axis=0)
        return lengths

    def model(self, slopes: Array, *notes: str) -> LinearRegressor:
        """Add the intercept, and drop terms that are only rounding errors."""
        is_rounding = np.abs(slopes) * self.norms <= _ROUNDING * np.linalg.norm(self.target)
        slopes = np.where(is_rounding, 0.0, slopes)
        return LinearRegressor(slopes, intercept(self.y_mean, slopes, self.x_mean), notes)


def intercept(y: float, slopes: Array, x: Array) -> float:
    """Return the intercept of a linear model that passes through a point.

    >>> intercept(0.3, np.array([0.1, 0.2]), np.ones(2))
    0.0
    """
    terms = np.append(-slopes * x, y)
    value = float(terms.sum())
    return value if abs(value) > _ROUNDING * np.abs(terms).sum() else 0.0


def reduce_rows(rows: TrainingRows, *, centered: bool) -> LeastSquares:
    """Factorize weighted rows block by block, in memory that does not grow with their number.

    QR keeps every column to its own precision. Gram matrices would square the condition number,
    and features such as x³ and 1/x already leave few digits.
    """
    n_rows, n_features = rows.x.shape
    if n_rows == 0:
        raise ValueError("there are no rows to fit on")
    total = rows.weight.sum()
    x_mean = rows.weight @ rows.x / total if centered else np.zeros(n_features)
    y_mean = float(rows.weight @ rows.y / total) if centered else 0.0
    step = max(2 * (n_features + 1), _BLOCK_VALUES // (n_features + 1))
    upper = np.empty((0, n_features + 1))
    for start in range(0, n_rows, step):
        part = slice(start, start + step)
        block = np.column_stack([rows.x[part] - x_mean, rows.y[part] - y_mean])
        block *= np.sqrt(rows.weight[part])[:, None]
        upper = triangle(np.vstack([upper, block]))
    if not np.isfinite(upper).all():
        raise ValueError("features or target are not finite, or too large to square")
    factor = upper[:, :-1]
    is_constant = np.linalg.norm(factor, axis=0) <= _CONSTANT * np.sqrt(total) * np.abs(x_mean)
    factor[:, is_constant] = 0.0
    return LeastSquares(factor, upper[:, -1], x_mean, y_mean)


def triangle(matrix: Array) -> Array:
    """Return the triangular factor of a matrix."""
    factor: Array = np.linalg.qr(matrix, mode="raw")[0].T[: matrix.shape[1]]
    if matrix.shape[1] > _FEW_COLUMNS:
        return np.triu(factor)
    return np.where(_is_upper(*factor.shape), factor, 0.0)


@lru_cache(maxsize=128)  # to make one takes as long as to factorize a small matrix
def _is_upper(n_rows: int, n_columns: int) -> NDArray[np.bool_]:
    return ~np.tri(n_rows, n_columns, -1, dtype=bool)


def solve_nonnegative(matrix: Array, target: Array) -> Array:
    """Solve a least-squares problem over coefficients of zero or more."""
    from scipy.optimize import lsq_linear, nnls

    n_columns = matrix.shape[1]
    solution = np.zeros(n_columns)
    if n_columns == 0:
        return solution
    met = columns_met(matrix, target)
    try:
        part = nnls(matrix[:, met], target, maxiter=_STEPS_PER_COLUMN * n_columns)[0]
    except RuntimeError:  # it ran in circles, as it may among nearly dependent columns
        return np.asarray(lsq_linear(matrix, target, bounds=(0, np.inf), method="trf").x)
    solution[met] = part
    return solution


class Reductions:
    """The reduced problem with an intercept and without one, each made when first asked for."""

    def __init__(self, rows: TrainingRows) -> None:
        self.rows = rows
        self._made: dict[bool, LeastSquares] = {}

    def problem(self, *, fit_intercept: bool) -> LeastSquares:
        """Return one or the other."""
        if fit_intercept not in self._made:
            self._made[fit_intercept] = reduce_rows(self.rows, centered=fit_intercept)
        return self._made[fit_intercept]
