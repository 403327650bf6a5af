from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
import scipy.optimize

from foretell.model.techniques import TrainingRows
from foretell.model.techniques.linear.nnls import NNLSTechnique


def fit(x, y, fit_intercept=True, weight=None):
    technique = NNLSTechnique()
    rows = TrainingRows(x, y, np.ones(len(y)) if weight is None else weight)
    return technique.fit(technique.prepare(rows), {"fit_intercept": fit_intercept}, seed=0)


def best_of_all_subsets(x, y, fit_intercept, weight):
    """Find the best fit among all subsets of columns whose free solution is non-negative."""
    root = np.sqrt(weight)
    fixed = np.ones((len(y), int(fit_intercept)))
    best = (np.inf, None)
    p = x.shape[1]
    for chosen in chain.from_iterable(combinations(range(p), k) for k in range(p + 1)):
        columns = np.hstack([fixed, x[:, chosen]]) * root[:, None]
        columns /= np.linalg.norm(columns, axis=0)
        solution = np.linalg.lstsq(columns, y * root, rcond=None)[0]
        if (solution[fixed.shape[1] :] >= 0).all():
            error = np.sum((columns @ solution - y * root) ** 2)
            best = min(best, (error, columns @ solution / root), key=lambda b: b[0])
    return best[1]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_fit_is_the_best_non_negative_one(fit_intercept, seed):
    random = np.random.default_rng(seed)
    x = random.normal(size=(30, 5)) * [1, 1e6, 1e-3, 10, 1e9]
    y = x @ (random.normal(size=5) / [1, 1e6, 1e-3, 10, 1e9]) - 4 + random.normal(size=30)
    weight = random.integers(1, 5, size=30).astype(float)
    fitted = fit(x, y, fit_intercept, weight)
    slopes, intercept = fitted.coefficients()
    assert (slopes >= 0).all() and (slopes == 0).any()
    assert (intercept == 0) != fit_intercept
    expected = best_of_all_subsets(x, y, fit_intercept, weight)
    np.testing.assert_allclose(fitted.predict(x), expected, rtol=1e-8, atol=1e-8)


def test_intercept_may_be_negative():
    x = np.array([[1.0], [2.0], [3.0]])
    slopes, intercept = fit(x, np.array([-8.0, -6.0, -4.0])).coefficients()
    np.testing.assert_allclose([slopes[0], intercept], [2, -10])


def test_features_that_only_hurt_leave_the_mean():
    x = np.array([[1.0], [2.0], [3.0]])
    fitted = fit(x, np.array([9.0, 6.0, 3.0]))
    assert fitted.predict(x).tolist() == [6.0, 6.0, 6.0]


def test_constant_column_gets_no_coefficient():
    x = np.column_stack([np.full(20, 1e7 + 0.3), np.arange(20.0)])
    slopes, intercept = fit(x, 3 * np.arange(20.0) + 1).coefficients()
    np.testing.assert_allclose([*slopes, intercept], [0, 3, 1], atol=1e-12)


def test_solver_that_runs_in_circles_is_replaced(monkeypatch):
    random = np.random.default_rng(9)
    x, y = random.uniform(size=(40, 4)), random.uniform(size=40)
    expected = fit(x, y).predict(x)

    def circle(*args, **kwargs):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr(scipy.optimize, "nnls", circle)
    replaced = fit(x, y)
    np.testing.assert_allclose(replaced.predict(x), expected, rtol=1e-4)
    assert (replaced.coefficients()[0] >= 0).all()
