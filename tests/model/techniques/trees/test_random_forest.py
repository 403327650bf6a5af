from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from foretell.model.techniques import TrainingRows, complete
from foretell.model.techniques.trees.random_forest import RandomForestTechnique

DEEP = {"max_depth": None, "min_samples_split": 2, "max_features": "sqrt"}


def data(n=120):
    random = np.random.default_rng(0)
    x = random.uniform(1, 10, size=(n, 5))
    return x, 30 * x[:, 0] / x[:, 1] + x[:, 2] ** 2 + random.normal(size=n)


def fit(x, y, seed=3, **options):
    technique = RandomForestTechnique()
    rows = TrainingRows(x, y, np.ones(len(y)))
    return technique.fit(technique.prepare(rows), complete(technique, options), seed)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {"n_estimators": 5, "max_depth": 3, "min_samples_split": 0.1}),
        (
            {"n_estimators": 20, **DEEP},
            {"n_estimators": 20, "max_features": "sqrt"},
        ),
        (
            {"n_estimators": 9, "max_depth": None, "min_samples_leaf": 0.05},
            {"n_estimators": 9, "min_samples_leaf": 0.05, "min_samples_split": 0.1},
        ),
    ],
)
def test_forest_is_that_of_scikit_learn(options, settings):
    x, y = data()
    reference = RandomForestRegressor(random_state=3, **settings).fit(x, y)
    fitted = fit(x, y, **options)
    rebuilt = RandomForestTechnique.regressor.from_state(fitted.to_state(), 5)
    new = np.random.default_rng(1).uniform(0, 11, size=(300, 5))
    np.testing.assert_allclose(fitted.predict(new), reference.predict(new), rtol=1e-12)
    np.testing.assert_allclose(rebuilt.predict(new), reference.predict(new), rtol=1e-12)
    np.testing.assert_allclose(rebuilt.importances(), reference.feature_importances_, rtol=1e-12)


def test_share_of_all_runs_to_split_is_that_of_scikit_learn():
    x, y = data()
    reference = RandomForestRegressor(5, random_state=3, min_samples_split=1.0).fit(x, y)
    found = fit(x, y, max_depth=None, min_samples_split=1.0).predict(x)
    np.testing.assert_allclose(found, reference.predict(x), rtol=1e-12)


@pytest.mark.parametrize("exponent", [-60, 60])
def test_unit_of_the_target_is_of_no_account(exponent):
    x, y = data()
    fitted, scaled = fit(x, y, **DEEP), fit(x, np.ldexp(y, exponent), **DEEP)
    expected = np.ldexp(fitted.predict(x), exponent)
    rebuilt = RandomForestTechnique.regressor.from_state(scaled.to_state(), 5)
    assert scaled.predict(x).tolist() == expected.tolist()
    np.testing.assert_allclose(rebuilt.predict(x), expected, rtol=1e-12)
    assert scaled.at(2).predict(x).tolist() == np.ldexp(fitted.at(2).predict(x), exponent).tolist()


@pytest.mark.parametrize("n_trees", [1, 7, 20])
def test_first_trees_are_the_smaller_forest(n_trees):
    x, y = data()
    small = fit(x, y, n_estimators=n_trees, **DEEP)
    cut = fit(x, y, n_estimators=20, **DEEP).at(n_trees)
    assert cut.predict(x).tolist() == small.predict(x).tolist()
    assert cut.importances().tolist() == small.importances().tolist()
    saved = RandomForestTechnique.regressor.from_state(cut.to_state(), 5)
    assert saved.n_trees == n_trees


def test_more_trees_than_fitted_are_refused():
    x, y = data()
    with pytest.raises(ValueError, match="between 1 and the 5 fitted"):
        fit(x, y).at(6)
