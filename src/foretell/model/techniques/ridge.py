"""LRRidge: least squares with a penalty on the size of the coefficients."""

from __future__ import annotations

import numpy as np

from foretell.model.techniques._base import Hyperparameter, Params, Technique, TrainingRows
from foretell.model.techniques._linear import LeastSquares, LinearRegressor, reduce_rows, triangle
from foretell.model.techniques._values import real

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

    def prepare(self, rows: TrainingRows) -> LeastSquares:
        """Reduce the rows once; each alpha is then solved on as many rows as columns."""
        return reduce_rows(rows, centered=True)

    def fit(self, prepared: LeastSquares, params: Params, seed: int) -> LinearRegressor:
        """Solve for one alpha.

        A singular value decomposition would make each alpha cheaper still, but it mixes columns:
        next to one in bytes cubed, nothing is left of one in cores.
        """
        from scipy.linalg import solve_triangular

        n_features = len(prepared.norms)
        penalty = np.sqrt(params["alpha"]) * np.eye(n_features)
        system = np.vstack([prepared.factor, penalty])
        target = np.concatenate([prepared.target, np.zeros(n_features)])
        upper = triangle(np.column_stack([system, target]))
        kept = np.abs(np.diagonal(upper)[:n_features]) > _DEPENDENT * np.linalg.norm(system, axis=0)
        if not kept.all():
            upper = triangle(np.column_stack([system[:, kept], target]))
        n_kept = int(kept.sum())
        slopes = np.zeros(n_features)
        slopes[kept] = solve_triangular(upper[:n_kept, :n_kept], upper[:n_kept, -1])
        return prepared.model(slopes)
