"""LRRidge: least squares with a penalty on the size of the coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foretell.model.techniques._base import Array, Hyperparameter, Params, Technique, TrainingRows
from foretell.model.techniques._values import real
from foretell.model.techniques.linear._least_squares import (
    LeastSquares,
    LinearRegressor,
    reduce_rows,
    triangle,
)

# What a column keeps after the earlier ones explain it, below which only rounding is left.
_DEPENDENT = 1e-13


class RidgeTechnique(Technique):
    """Minimize the squared error plus ``alpha`` times the squared coefficients.

    The intercept is not penalized, as in scikit-learn.
    """

    name = "LRRidge"
    regressor = LinearRegressor
    hyperparameters = (
        Hyperparameter(
            "alpha",
            0.1,
            real(least=0),
            grid=(0.01, 0.1, 1.0, 10.0),
            prior="loguniform(0.0001,10)",
        ),
    )

    def merges_repeats(self, params: Params) -> bool:
        """Repeats shift the squared error by a constant, which moves no minimum."""
        return True

    def prepare(self, rows: TrainingRows) -> _Reduced:
        """Reduce the rows once, and where they are fewer than the features, those as well."""
        problem = reduce_rows(rows, centered=True)
        n_rows, n_features = problem.factor.shape
        if n_rows < n_features:
            return _reduce_features(problem)
        return _Reduced(problem, problem.factor, problem.target)

    def fit(self, prepared: _Reduced, params: Params, seed: int) -> LinearRegressor:
        """Solve for one alpha.

        A singular value decomposition would make each alpha cheaper still, but it mixes columns:
        next to one in bytes cubed, nothing is left of one in cores.
        """
        from scipy.linalg import solve_triangular

        n_unknowns = prepared.factor.shape[1]
        penalty = np.sqrt(params["alpha"]) * np.eye(n_unknowns)
        system = np.vstack([prepared.factor, penalty])
        target = np.concatenate([prepared.target, np.zeros(n_unknowns)])
        upper = triangle(np.column_stack([system, target]))
        kept = np.abs(np.diagonal(upper)[:n_unknowns]) > _DEPENDENT * np.linalg.norm(system, axis=0)
        if not kept.all():
            upper = triangle(np.column_stack([system[:, kept], target]))
        n_kept = int(kept.sum())
        solution = np.zeros(n_unknowns)
        solution[kept] = solve_triangular(upper[:n_kept, :n_kept], upper[:n_kept, -1])
        return prepared.model(solution)


@dataclass(frozen=True, eq=False)
class _Reduced:
    """A problem of few rows in few unknowns: the slopes, or their weights on a basis.

    The basis is orthonormal, so that the penalty on weights is that on slopes.
    """

    problem: LeastSquares
    factor: Array
    target: Array
    basis: Array | None = None  # one column per unknown

    def model(self, solution: Array) -> LinearRegressor:
        return self.problem.model(solution if self.basis is None else self.basis @ solution)


def _reduce_features(problem: LeastSquares) -> _Reduced:
    """Reduce the unknowns to one per row: slopes of no effect on any row only add to the penalty.

    Features in the order of their size, and rows by pivoting, keep every feature to its own
    precision (Higham, Accuracy and Stability of Numerical Algorithms, theorem 19.6).
    """
    from scipy.linalg import qr

    order = np.argsort(-problem.norms, kind="stable")
    sorted_basis, upper, pivots = qr(problem.factor[:, order].T, mode="economic", pivoting=True)
    basis = np.empty(sorted_basis.shape)
    basis[order] = sorted_basis
    # What earlier rows explain up to rounding, such as the last one of those that were centered.
    left = np.abs(basis * np.diagonal(upper))
    kept = (left > _DEPENDENT * problem.norms[:, None]).any(axis=0)
    factor = np.asarray(upper.T[:, kept], dtype=np.float64)
    return _Reduced(problem, factor, problem.target[pivots], basis[:, kept])
