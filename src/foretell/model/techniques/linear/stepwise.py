"""Stepwise: features enter and leave a least-squares fit by t-tests, after Draper and Smith."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from foretell.model.techniques._base import Array, Hyperparameter, Params, Technique, TrainingRows
from foretell.model.techniques._state import require_runs
from foretell.model.techniques._values import boolean, real, whole
from foretell.model.techniques.linear._least_squares import LinearRegressor, Reductions

# A column enters only if the used ones leave at least this share of its length unexplained
# (a variance inflation of 1e8); with less, coefficients would be large, opposed and arbitrary.
_LEAST_SHARE = 1e-4

# Residuals below this share of the target are rounding error: the fit is perfect, and ends.
_PERFECT = 1e-11

# Correlations this close count as equal, so that the order of rows cannot decide between them.
_TIE = 1e-9


class StepwiseTechnique(Technique):
    """Add the feature most correlated with the residuals, drop the least significant, repeat."""

    name = "Stepwise"
    regressor = LinearRegressor
    hyperparameters = (
        Hyperparameter("p_to_add", 0.05, real(above=0, below=1)),
        Hyperparameter("p_to_remove", 0.1, real(above=0, below=1)),
        Hyperparameter("fit_intercept", True, boolean),
        Hyperparameter("max_iter", 100, whole(least=1)),
    )

    def prepare(self, rows: TrainingRows) -> Reductions:
        """Reduce the rows once; every fit on a subset of columns follows from the reduction."""
        return Reductions(require_runs(rows, self.name))

    def fit(self, prepared: Reductions, params: Params, seed: int) -> LinearRegressor:
        """Step until no feature enters or leaves."""
        if params["p_to_remove"] < params["p_to_add"]:
            add, remove = params["p_to_add"], params["p_to_remove"]
            raise ValueError(
                f"p_to_remove must be at least p_to_add ({add}), not {remove}: a feature would "
                f"leave as soon as it enters; write p_to_remove = {add} or more, or p_to_add = "
                f"{remove} or less"
            )
        steps = _Steps(prepared, has_intercept=params["fit_intercept"])
        fit, note = steps.run(params)
        slopes = np.zeros(len(steps.problem.norms))
        slopes[fit.columns] = fit.slopes
        notes = [note] if note else []
        if not fit.columns:
            constant = "the mean" if params["fit_intercept"] else "0"
            notes.append(f"no feature passes p_to_add {params['p_to_add']:g}: predicts {constant}")
        return steps.problem.model(slopes, *notes)


@dataclass(frozen=True, eq=False)
class _Fit:
    columns: list[int]
    slopes: Array
    t_values: Array
    n_free: int  # degrees of freedom


class _Steps:
    """The search over subsets of columns of one reduced problem."""

    def __init__(self, reductions: Reductions, *, has_intercept: bool) -> None:
        self.problem = reductions.problem(fit_intercept=has_intercept)
        self.centered = reductions.problem(
            fit_intercept=True
        )  # correlations are about the mean either way
        self.n_free = len(reductions.rows.y) - int(has_intercept)

    def run(self, params: Params) -> tuple[_Fit, str]:
        """Return the last fit, and a note unless it came to rest."""
        fit = _Fit([], np.zeros(0), np.zeros(0), self.n_free)
        seen = {frozenset[int]()}
        for _ in range(params["max_iter"]):
            before = fit
            fit = self._add(fit, _critical(params["p_to_add"]))
            fit = self._drop(fit, _critical(params["p_to_remove"]))
            if fit is before:
                return fit, ""
            if frozenset(fit.columns) in seen:
                return fit, "stopped because the same features would enter and leave forever"
            seen.add(frozenset(fit.columns))
        return fit, f"stopped after max_iter {params['max_iter']} steps"

    def _add(self, fit: _Fit, critical: Callable[[int], float]) -> _Fit:
        larger = next((f for f in map(self._solve, self._candidates(fit)) if f is not None), None)
        if larger is None or abs(larger.t_values[-1]) <= critical(larger.n_free):
            return fit
        return larger

    def _drop(self, fit: _Fit, critical: Callable[[int], float]) -> _Fit:
        if not fit.columns:
            return fit
        weakest = int(np.argmin(np.abs(fit.t_values)))
        if abs(fit.t_values[weakest]) >= critical(fit.n_free):
            return fit
        smaller = self._solve([*fit.columns[:weakest], *fit.columns[weakest + 1 :]])
        return fit if smaller is None else smaller

    def _candidates(self, fit: _Fit) -> Iterator[list[int]]:
        """Give the used columns with one more, the most correlated with the residuals first."""
        residual = self._residual(fit, self.centered.factor, self.centered.target)
        unused = self.centered.norms > 0  # the others are constant
        unused[fit.columns] = False
        perfect = _PERFECT * np.linalg.norm(self.problem.target)
        if np.linalg.norm(self._residual(fit, self.problem.factor, self.problem.target)) <= perfect:
            return
        shared = np.abs(residual @ self.centered.factor)
        correlation = np.where(unused, shared, -1.0) / np.where(unused, self.centered.norms, 1.0)
        while (best := correlation.max(initial=-1.0)) > 0:
            column = int(np.argmax(correlation >= best * (1 - _TIE)))
            correlation[column] = -1.0
            yield [*fit.columns, column]

    def _residual(self, fit: _Fit, factor: Array, target: Array) -> Array:
        return target - factor[:, fit.columns] @ fit.slopes

    def _solve(self, columns: list[int]) -> _Fit | None:
        """Fit by least squares; None where columns are dependent or leave nothing to test with."""
        from scipy.linalg import solve_triangular

        n_free = self.n_free - len(columns)
        if n_free < 1:
            return None
        norms = self.problem.norms[columns]
        q, upper = np.linalg.qr(self.problem.factor[:, columns] / norms)
        if upper.shape[0] < len(columns) or (np.abs(np.diagonal(upper)) < _LEAST_SHARE).any():
            return None
        slopes = solve_triangular(upper, q.T @ self.problem.target) / norms
        fit = _Fit(columns, slopes, np.zeros(0), n_free)
        residual = self._residual(fit, self.problem.factor, self.problem.target)
        deviation = np.sqrt(residual @ residual / n_free)
        inverse = solve_triangular(upper, np.eye(len(columns)))
        errors = deviation * np.linalg.norm(inverse, axis=1) / norms
        t_values = np.divide(slopes, errors, out=np.full(len(slopes), np.inf), where=errors > 0)
        return _Fit(columns, slopes, t_values, n_free)


def _critical(p_value: float) -> Callable[[int], float]:
    """Return the two-sided t bound of a significance level, by degrees of freedom."""
    from scipy.special import stdtrit

    return lambda n_free: float(stdtrit(n_free, 1 - p_value / 2))
