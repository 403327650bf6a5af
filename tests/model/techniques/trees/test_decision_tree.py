from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from foretell.model.techniques import TrainingRows, complete
from foretell.model.techniques.trees.decision_tree import DecisionTreeTechnique
from foretell.testing import merged


def data(n=150, seed=0):
    random = np.random.default_rng(seed)
    x = random.uniform(1, 10, size=(n, 5))
    return x, 30 * x[:, 0] / x[:, 1] + x[:, 2] ** 2 + random.normal(size=n)


def fit(x, y, weight=None, seed=0, **options):
    technique = DecisionTreeTechnique()
    rows = TrainingRows(x, y, np.ones(len(y)) if weight is None else weight)
    return technique.fit(technique.prepare(rows), complete(technique, options), seed)


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {"max_depth": 3, "min_samples_split": 0.01, "min_samples_leaf": 0.01}),
        (
            {"max_depth": "none", "min_samples_split": 0.043, "min_samples_leaf": 3},
            {"min_samples_split": 0.043, "min_samples_leaf": 3},
        ),
        (
            {"criterion": "mae", "min_samples_leaf": 0.02, "min_samples_split": 12},
            {
                "criterion": "absolute_error",
                "max_depth": 3,
                "min_samples_leaf": 0.02,
                "min_samples_split": 12,
            },
        ),
        (
            {"max_depth": 8, "max_features": "sqrt", "min_samples_leaf": 1},
            {"max_depth": 8, "max_features": "sqrt", "min_samples_split": 0.01},
        ),
        (
            {"max_depth": 8, "max_features": 0.5, "min_samples_leaf": 1},
            {"max_depth": 8, "max_features": 0.5, "min_samples_split": 0.01},
        ),
        (
            {"max_depth": 8, "max_features": 99, "min_samples_leaf": 1},
            {"max_depth": 8, "max_features": 5, "min_samples_split": 0.01},
        ),
    ],
)
def test_tree_is_that_of_scikit_learn(options, settings):
    x, y = data()
    reference = DecisionTreeRegressor(random_state=4, **settings).fit(x, y)
    fitted = fit(x, y, seed=4, **options)
    rebuilt = DecisionTreeTechnique.regressor.from_state(fitted.to_state(), 5)
    new = np.random.default_rng(1).uniform(0, 11, size=(500, 5))
    expected = reference.predict(new)
    assert fitted.predict(new).tolist() == expected.tolist()
    np.testing.assert_allclose(rebuilt.predict(new), expected, rtol=1e-12)
    np.testing.assert_allclose(rebuilt.importances(), reference.feature_importances_, rtol=1e-12)


@pytest.mark.parametrize("criterion", ["mse", "mae"])
@pytest.mark.parametrize("exponent", [-990, -60, 60])
def test_unit_of_the_target_is_of_no_account(criterion, exponent):
    x, y = data()
    options = {"criterion": criterion, "max_depth": None, "min_samples_leaf": 1}
    fitted, scaled = fit(x, y, **options), fit(x, np.ldexp(y, exponent), **options)
    expected = np.ldexp(fitted.predict(x), exponent)
    rebuilt = DecisionTreeTechnique.regressor.from_state(scaled.to_state(), 5)
    assert scaled.predict(x).tolist() == rebuilt.predict(x).tolist() == expected.tolist()


@pytest.mark.parametrize("alias", ["mse", "friedman_mse", "Squared_Error"])
def test_names_of_the_squared_error_mean_the_same(alias):
    assert complete(DecisionTreeTechnique, {"criterion": alias})["criterion"] == "squared_error"


@pytest.mark.parametrize(
    ("written", "read"),
    [("auto", None), (None, None), (1.0, None), (1, 1), (3.0, 3), (0.3, 0.3), ("LOG2", "log2")],
)
def test_max_features_is_a_word_a_count_or_a_share(written, read):
    found = complete(DecisionTreeTechnique, {"max_features": written})["max_features"]
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_features", 0), ("max_features", "most"), ("min_samples_split", 1), ("max_depth", 0)],
)
def test_illegal_options_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}: must be"):
        complete(DecisionTreeTechnique, {name: value})


def test_one_is_a_share_of_runs_to_split_but_a_count_in_a_leaf():
    read = complete(DecisionTreeTechnique, {"min_samples_split": 1.0, "min_samples_leaf": 1.0})
    assert (read["min_samples_split"], read["min_samples_leaf"]) == (1.0, 1)
    assert isinstance(read["min_samples_split"], float)
    assert isinstance(read["min_samples_leaf"], int)
    x, y = data()
    reference = DecisionTreeRegressor(random_state=0, max_depth=3, min_samples_split=1.0)
    found = fit(x, y, min_samples_split=1.0, min_samples_leaf=1).predict(x)
    assert found.tolist() == reference.fit(x, y).predict(x).tolist()
    assert len(set(found)) == 2  # only the root holds all runs


@pytest.mark.parametrize(
    ("split", "leaf", "is_exact"),
    [
        (2, 1, True),
        (2, 0.03, True),
        (8, 4, True),
        (9, 4, False),  # a node of 8 runs could be split by its leaves, but not by its own limit
        (3, 0.03, False),  # the limit on leaves may round to one run
        (0.05, 0.025, True),
        (0.06, 0.025, False),
        (1.0, 0.5, True),
        (1.0, 0.4, False),
        (0.05, 3, False),  # which of the two limits binds depends on the number of runs
    ],
)
def test_limits_decide_whether_repeats_may_be_merged(split, leaf, is_exact):
    options = {"min_samples_split": split, "min_samples_leaf": leaf, "max_depth": None}
    technique = DecisionTreeTechnique()
    assert technique.merges_repeats(complete(technique, options)) == is_exact
    if not is_exact:
        return
    for seed in range(5):
        random = np.random.default_rng(seed)
        x, _ = data(40, seed)
        x = np.repeat(x, random.integers(1, 9, size=40), axis=0)
        rows = TrainingRows(x, random.uniform(1, 9, size=len(x)), np.ones(len(x)))
        few = merged(rows)
        apart = fit(rows.x, rows.y, **options)
        together = fit(few.x, few.y, few.weight, **options)
        np.testing.assert_allclose(together.predict(few.x), apart.predict(few.x), rtol=1e-9)


@pytest.mark.parametrize("share", [0.5, 0.51, 0.99])
def test_leaves_of_half_the_runs_and_more_hold_when_merged(share):
    x = np.array([[1.0], [2.0], [3.0]])
    y = np.array([1.0, 2.0, 9.0])
    weight = np.array([3.0, 2.0, 5.0])
    options = {"min_samples_leaf": share, "min_samples_split": 2}
    apart = fit(np.repeat(x, [3, 2, 5], axis=0), np.repeat(y, [3, 2, 5]), **options)
    assert fit(x, y, weight, **options).predict(x).tolist() == apart.predict(x).tolist()
    assert len(set(apart.predict(x))) == (2 if share == 0.5 else 1)


def test_limit_on_leaves_is_not_lost_to_rounding_when_merged():
    assert 7 / 25 * 25 > 7  # so a share of the weight would refuse the leaf of 7 runs
    x, weight = np.array([[1.0], [2.0]]), np.array([7.0, 18.0])
    options = {"min_samples_leaf": 7, "min_samples_split": 2}
    assert fit(x, np.array([1.0, 9.0]), weight, **options).predict(x).tolist() == [1.0, 9.0]


@pytest.mark.parametrize("options", [{"criterion": "mae"}, {"max_features": "sqrt"}])
def test_repeats_are_not_merged_where_the_tree_would_change(options):
    technique = DecisionTreeTechnique()
    assert technique.merges_repeats(complete(technique, {}))
    assert not technique.merges_repeats(complete(technique, options))


def test_tree_without_splits_has_no_importances():
    fitted = fit(np.ones((10, 2)), np.arange(10.0))
    assert fitted.importances() is None
    rebuilt = DecisionTreeTechnique.regressor.from_state(fitted.to_state(), 2)
    assert rebuilt.importances() is None
    assert rebuilt.predict(np.ones((1, 2))).tolist() == [4.5]


def test_features_beyond_single_precision_are_refused():
    with pytest.raises(ValueError, match=r"above 3\.4e38"):
        fit(np.array([[1.0], [1e40]]), np.array([1.0, 2.0]))


def test_poisson_is_scikit_learns_poisson():
    random = np.random.default_rng(0)
    x = random.uniform(1, 10, (80, 2))
    y = np.exp(0.3 * x[:, 0]) + x[:, 1]
    technique = DecisionTreeTechnique()
    params = complete(technique, {"criterion": "poisson", "max_depth": 3})
    ours = technique.fit(technique.prepare(TrainingRows(x, y, np.ones(80))), params, 0)
    theirs = DecisionTreeRegressor(
        criterion="poisson", max_depth=3, min_samples_split=0.01, min_samples_leaf=0.01,
        random_state=0,
    ).fit(x.astype(np.float32), y)  # fmt: skip
    assert ours.predict(x) == pytest.approx(theirs.predict(x.astype(np.float32)))
