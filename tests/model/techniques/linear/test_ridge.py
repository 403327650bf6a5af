from __future__ import annotations

import tracemalloc
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from foretell.model.techniques import TrainingRows, complete
from foretell.model.techniques.linear import _least_squares
from foretell.model.techniques.linear.ridge import RidgeTechnique


def fit(x, y, alpha, weight=None):
    technique = RidgeTechnique()
    rows = TrainingRows(x, y, np.ones(len(y)) if weight is None else weight)
    return technique.fit(technique.prepare(rows), {"alpha": alpha}, seed=0)


def exact_predictions(x, y, alpha):
    """Solve the normal equations in rational numbers, where nothing is rounded."""
    n, p = x.shape
    rows = [[Fraction(float(v)) for v in row] for row in x]
    target = [Fraction(float(v)) for v in y]
    x_mean = [sum(row[j] for row in rows) / n for j in range(p)]
    y_mean = sum(target) / n
    rows = [[v - m for v, m in zip(row, x_mean, strict=True)] for row in rows]
    system = [
        [
            sum(row[j] * row[k] for row in rows) + (Fraction(alpha) if j == k else 0)
            for k in range(p)
        ]
        + [sum(row[j] * (t - y_mean) for row, t in zip(rows, target, strict=True))]
        for j in range(p)
    ]
    for c in range(p):
        for r in range(p):
            if r != c:
                f = system[r][c] / system[c][c]
                system[r] = [u - f * v for u, v in zip(system[r], system[c], strict=True)]
    slopes = [system[j][p] / system[j][j] for j in range(p)]
    return np.array(
        [float(y_mean + sum(b * v for b, v in zip(slopes, r, strict=True))) for r in rows]
    )


@pytest.mark.parametrize("alpha", [0.0001, 0.1, 10.0])
def test_weighted_fit_equals_scikit_learn(alpha):
    random = np.random.default_rng(0)
    x = random.normal(loc=3, size=(80, 6))
    y = random.normal(size=80) + x @ np.arange(6.0)
    weight = random.integers(1, 6, size=80).astype(float)
    reference = Ridge(alpha=alpha).fit(x, y, sample_weight=weight)
    slopes, intercept = fit(x, y, alpha, weight).coefficients()
    np.testing.assert_allclose(slopes, reference.coef_, rtol=1e-8)
    np.testing.assert_allclose(intercept, reference.intercept_, rtol=1e-8)


def test_more_features_than_rows_equals_scikit_learn():
    random = np.random.default_rng(1)
    x, y = random.normal(size=(8, 20)), random.normal(size=8)
    reference = Ridge(alpha=0.5, solver="svd").fit(x, y)
    np.testing.assert_allclose(fit(x, y, 0.5).coefficients()[0], reference.coef_, rtol=1e-8)


def wide(n, p):
    random = np.random.default_rng(1)
    return random.normal(loc=2, size=(n, p)), random.normal(size=n)


@pytest.mark.parametrize("alpha", [0.0001, 0.1, 10.0])
def test_many_more_features_than_rows_equals_scikit_learn(alpha):
    x, y = wide(32, 3648)
    weight = np.random.default_rng(0).integers(1, 6, size=32).astype(float)
    reference = Ridge(alpha=alpha).fit(x, y, sample_weight=weight)
    slopes, intercept = fit(x, y, alpha, weight).coefficients()
    np.testing.assert_allclose(slopes, reference.coef_, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(intercept, reference.intercept_, rtol=1e-8)


def test_many_more_features_than_rows_are_reduced_once():
    x, y = wide(32, 3648)
    prepared = RidgeTechnique().prepare(TrainingRows(x, y, np.ones(32)))
    assert prepared.factor.shape == (32, 31)  # centered rows have one dimension less


def test_slopes_without_penalty_are_the_smallest_where_rows_are_few_and_repeated():
    x, y = wide(6, 20)
    x, y = np.repeat(x, 2, axis=0), np.repeat(y, 2)
    centered = x - x.mean(axis=0)
    expected = np.linalg.pinv(centered, rcond=1e-10) @ (y - y.mean())
    np.testing.assert_allclose(fit(x, y, 0.0).coefficients()[0], expected, rtol=1e-8)


@pytest.mark.parametrize("alpha", [0.01, 10.0])
def test_small_columns_survive_also_where_rows_are_few(alpha):
    random = np.random.default_rng(2)
    size, cores = random.uniform(1e9, 1e10, size=12), random.integers(1, 65, size=12) * 1.0
    base = [cores, 1 / cores, size, np.log(cores), np.log(size), 1 / size]
    x = np.column_stack(
        [*base, *(a * b for a, b in combinations_with_replacement(base, 2)), size**3]
    )
    y = 5e-9 * size / cores + 10 + 3 * np.log(cores) + random.normal(size=12)
    expected = exact_predictions(x, y, alpha)
    np.testing.assert_allclose(fit(x, y, alpha).predict(x), expected, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.01, 10.0])
def test_small_columns_survive_beside_bytes_cubed(alpha):
    random = np.random.default_rng(2)
    size = random.uniform(1e9, 1e10, size=40)
    cores = random.integers(1, 65, size=40).astype(float)
    x = np.column_stack([size, cores, 1 / cores, np.log(cores), size * cores, size**3])
    y = 5e-9 * size / cores + 10 + 3 * np.log(cores) + random.normal(size=40)
    expected = exact_predictions(x, y, alpha)
    np.testing.assert_allclose(fit(x, y, alpha).predict(x), expected, rtol=1e-9)


def test_dependent_columns_of_any_size_leave_predictions_sound():
    random = np.random.default_rng(3)
    a, b = random.uniform(1, 2, size=(2, 50)) * 1e18
    x = np.column_stack([a, 3 * a, b, a + b])
    y = 3 + a / 1e18 - b / 1e18
    fitted = fit(x[:40], y[:40], 0.1)
    np.testing.assert_allclose(fitted.predict(x[40:]), y[40:], rtol=1e-9)


def test_equal_columns_share_their_coefficient():
    x = np.arange(10.0)[:, None]
    slopes, _ = fit(np.hstack([x, x]), 2 * x[:, 0], 0.1).coefficients()
    np.testing.assert_allclose(slopes[0], slopes[1])


def test_constant_column_gets_no_coefficient():
    random = np.random.default_rng(4)
    x = np.column_stack([random.normal(size=30), np.full(30, 0.1 + 1e6)])
    slopes, intercept = fit(x, 2 * x[:, 0] + 5, 0.0).coefficients()
    np.testing.assert_allclose(slopes, [2, 0], atol=1e-12)
    np.testing.assert_allclose(intercept, 5)


def test_alpha_zero_is_least_squares_also_with_dependent_columns():
    random = np.random.default_rng(5)
    x = random.normal(size=(30, 3))
    y = random.normal(size=30)
    reference = Ridge(alpha=0, solver="svd").fit(x, y).predict(x)
    np.testing.assert_allclose(fit(x, y, 0.0).predict(x), reference)
    np.testing.assert_allclose(
        fit(np.hstack([x, x[:, :1]]), y, 0.0).predict(np.hstack([x, x[:, :1]])), reference
    )


def test_rows_are_reduced_block_by_block(monkeypatch):
    random = np.random.default_rng(6)
    x = random.normal(size=(500, 4))
    y = random.normal(size=500)
    at_once = fit(x, y, 1.0).coefficients()
    monkeypatch.setattr(_least_squares, "_BLOCK_VALUES", 50)
    in_blocks = fit(x, y, 1.0).coefficients()
    np.testing.assert_allclose(in_blocks[0], at_once[0], rtol=1e-10)
    assert in_blocks[1] == pytest.approx(at_once[1], rel=1e-10)


def test_memory_of_the_reduction_does_not_grow_with_rows():
    rows = TrainingRows(np.ones((100_000, 10)), np.arange(100_000.0), np.ones(100_000))
    tracemalloc.start()
    RidgeTechnique().prepare(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.x.nbytes  # a centered copy alone would take as much


def test_infinite_features_are_refused():
    with pytest.raises(ValueError, match="not finite"), np.errstate(invalid="ignore"):
        fit(np.array([[1.0], [np.inf]]), np.array([1.0, 2.0]), 0.1)


def test_negative_alpha_is_refused():
    with pytest.raises(ValueError, match="alpha: must be at least 0, not -1"):
        complete(RidgeTechnique, {"alpha": -1})
