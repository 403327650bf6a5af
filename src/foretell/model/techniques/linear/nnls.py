"""NNLS: least squares whose coefficients are never negative."""

from __future__ import annotations

import numpy as np

from foretell.model.techniques._base import Hyperparameter, Params, Technique, TrainingRows
from foretell.model.techniques._values import boolean
from foretell.model.techniques.linear._least_squares import (
    LinearRegressor,
    Reductions,
    solve_nonnegative,
)


class NNLSTechnique(Technique):
    """Minimize the squared error over coefficients of zero or more; the intercept is free."""

    name = "NNLS"
    regressor = LinearRegressor
    hyperparameters = (
        Hyperparameter(
            "fit_intercept", True, boolean, grid=(True, False), prior="choice(True,False)"
        ),
    )

    def merges_repeats(self, params: Params) -> bool:
        """Repeats shift the squared error by a constant, which moves no minimum."""
        return True

    def prepare(self, rows: TrainingRows) -> Reductions:
        """Reduce the rows once for each value of ``fit_intercept`` that is asked for."""
        return Reductions(rows)

    def fit(self, prepared: Reductions, params: Params, seed: int) -> LinearRegressor:
        """Solve with columns of length one; scaling back keeps every sign."""
        problem = prepared.problem(fit_intercept=params["fit_intercept"])
        varies = problem.norms > 0
        slopes = np.zeros(len(varies))
        size = float(np.linalg.norm(problem.target)) or 1.0
        scaled = problem.factor[:, varies] / problem.norms[varies]
        slopes[varies] = (
            solve_nonnegative(scaled, problem.target / size) * size / problem.norms[varies]
        )
        return problem.model(slopes)
