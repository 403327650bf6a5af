from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from foretell.model.techniques import TrainingRows, complete
from foretell.model.techniques.linear._least_squares import Reductions
from foretell.model.techniques.linear.stepwise import StepwiseTechnique, _Steps


def fit(x, y, **options):
    technique = StepwiseTechnique()
    rows = TrainingRows(x, y, np.ones(len(y)))
    return technique.fit(technique.prepare(rows), complete(technique, options), seed=0)


def least_squares(x, y, columns, *, intercept=True):
    """Give coefficients, p-values and residuals of ordinary least squares, from the textbook."""
    design = np.column_stack([np.ones(len(y))] * intercept + [x[:, columns]])
    slopes = np.linalg.lstsq(design, y, rcond=None)[0]
    residuals = y - design @ slopes
    n_free = len(y) - design.shape[1]
    covariance = residuals @ residuals / n_free * np.linalg.inv(design.T @ design)
    t = slopes / np.sqrt(np.diag(covariance))
    p = 2 * stats.t.sf(np.abs(t), n_free)
    return slopes, p[int(intercept) :], residuals


def by_the_textbook(x, y, *, enter=0.05, leave=0.1, intercept=True):
    used, residuals = [], y
    while True:
        before = list(used)
        unused = [j for j in range(x.shape[1]) if j not in used]
        if unused:
            best = max(unused, key=lambda j: abs(np.corrcoef(x[:, j], residuals)[0, 1]))
            _, p, after = least_squares(x, y, [*used, best], intercept=intercept)
            if p[-1] < enter:
                used, residuals = [*used, best], after
        if used:
            _, p, _ = least_squares(x, y, used, intercept=intercept)
            if p.max() > leave:
                used.pop(int(np.argmax(p)))
                residuals = least_squares(x, y, used, intercept=intercept)[2] if used else y
        if used == before:
            return used


def problem(seed, n=40, p=8):
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, p)) @ random.normal(size=(p, p)) + 5
    truth = np.where(random.uniform(size=p) < 0.5, random.normal(size=p), 0)
    return x, x @ truth + 3 + random.normal(scale=2, size=n)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_features_are_those_of_the_textbook(seed, intercept):
    x, y = problem(seed)
    used = by_the_textbook(x, y, intercept=intercept)
    slopes, constant = fit(x, y, fit_intercept=intercept).coefficients()
    assert sorted(used) == np.flatnonzero(slopes).tolist()
    expected, _, _ = least_squares(x, y, used, intercept=intercept)
    np.testing.assert_allclose(slopes[used], expected[int(intercept) :], rtol=1e-7)
    assert constant == pytest.approx(expected[0] if intercept else 0.0)


def test_some_textbook_problem_has_a_feature_that_enters_and_leaves():
    # x0 is nearly the sum of the two causes, so it enters first and is useless once both are in.
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, 200))
    x = np.column_stack([a + b + random.normal(scale=0.3, size=200), a, b])
    y = a + b + random.normal(scale=0.1, size=200)
    assert np.argmax([abs(np.corrcoef(column, y)[0, 1]) for column in x.T]) == 0
    slopes, _ = fit(x, y).coefficients()
    assert np.flatnonzero(slopes).tolist() == [1, 2] == sorted(by_the_textbook(x, y))


@pytest.mark.parametrize("seed", range(5))
def test_order_of_rows_does_not_matter(seed):
    x, y = problem(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    straight, mixed = fit(x, y).coefficients(), fit(x[order], y[order]).coefficients()
    np.testing.assert_allclose(mixed[0], straight[0], rtol=1e-9)
    assert mixed[1] == pytest.approx(straight[1])


@pytest.mark.parametrize("seed", range(5))
def test_first_of_equally_correlated_columns_enters(seed):
    x, y = problem(seed)
    slopes, _ = fit(np.hstack([x, 3 * x + 1]), y).coefficients()
    assert np.count_nonzero(slopes[:8]) > 0
    assert np.count_nonzero(slopes[8:]) == 0


@pytest.mark.parametrize(("intercept", "constant"), [(True, 5.5), (False, 0.0)])
def test_no_accepted_feature_leaves_the_constant_and_a_note(intercept, constant):
    x = np.array([1.0, -1, 1, -1, 1, -1, 1, -1, 1, -1])[:, None]
    y = np.arange(1.0, 11)
    fitted = fit(x, y, fit_intercept=intercept)
    assert fitted.predict(x).tolist() == [constant] * 10
    assert len(fitted.notes()) == 1
    assert "no feature passes p_to_add 0.05" in fitted.notes()[0]


def test_nearly_equal_columns_do_not_enter_together():
    random = np.random.default_rng(2)
    a, noise = random.uniform(1, 10, size=60), random.normal(size=60)
    x = np.column_stack([a, a + 1e-7 * noise])  # their difference explains all the noise
    slopes, _ = fit(x, 3 * a + noise).coefficients()
    assert np.count_nonzero(slopes) == 1
    assert slopes.sum() == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_perfect_fit_takes_no_further_feature(seed):
    x = np.random.default_rng(seed).uniform(1, 10, size=(50, 6))
    fitted = fit(x, 2 * x[:, 1] - x[:, 4] + 7, p_to_add=0.5, p_to_remove=0.6)
    slopes, intercept = fitted.coefficients()
    np.testing.assert_allclose([*slopes, intercept], [0, 2, 0, 0, -1, 0, 7], atol=1e-9)
    assert np.count_nonzero(slopes) == 2
    assert fitted.notes() == []


def test_constant_column_never_enters():
    x = np.column_stack([np.full(20, 3.3), np.arange(20.0)])
    slopes, _ = fit(x, np.arange(20.0) + 1, fit_intercept=False).coefficients()
    assert slopes[0] == 0


def test_too_few_rows_to_test_a_feature_leave_the_mean():
    fitted = fit(np.array([[1.0], [2.0]]), np.array([1.0, 2.0]))
    assert fitted.predict(np.array([[9.0]])).tolist() == [1.5]


def test_steps_that_run_in_circles_end_with_a_note():
    x, y = problem(0)
    rows = TrainingRows(x, y, np.ones(len(y)))
    steps = _Steps(Reductions(rows), has_intercept=True)
    easy_in_hard_to_stay = {"p_to_add": 0.99, "p_to_remove": 1e-12, "max_iter": 1000}
    _, note = steps.run(easy_in_hard_to_stay)
    assert "enter and leave" in note


def test_max_iter_ends_the_steps_with_a_note():
    random = np.random.default_rng(4)
    x = random.normal(size=(50, 3))
    fitted = fit(x, x @ [3.0, 2.0, 1.0] + 0.01 * random.normal(size=50), max_iter=1)
    assert np.count_nonzero(fitted.coefficients()[0]) == 1
    assert fitted.notes() == ["stopped after max_iter 1 steps"]


def test_removing_must_be_no_easier_than_adding():
    x, y = problem(0)
    rule = r"p_to_remove must be at least p_to_add \(0.2\), not 0.1: .* write "
    with pytest.raises(ValueError, match=rule + r"p_to_remove = 0.2 or more, or p_to_add = 0.1"):
        fit(x, y, p_to_add=0.2)


@pytest.mark.parametrize("value", [0, 1, "often"])
def test_levels_that_are_no_probability_are_refused(value):
    with pytest.raises(ValueError, match="p_to_add: must be"):
        complete(StepwiseTechnique, {"p_to_add": value})
