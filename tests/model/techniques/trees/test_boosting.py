from __future__ import annotations

import json

import numpy as np
import pytest
import xgboost

from foretell.model.techniques import TrainingRows, complete
from foretell.model.techniques.trees import boosting
from foretell.model.techniques.trees.boosting import XGBoostTechnique, distinct_columns
from foretell.testing import merged


def data(n=300, seed=0):
    random = np.random.default_rng(seed)
    x = random.uniform(1, 10, size=(n, 3))
    return x, 30 * x[:, 0] / x[:, 1] + x[:, 2] ** 2 + random.normal(size=n)


def fit(x, y, weight=None, seed=3, **options):
    technique = XGBoostTechnique()
    rows = TrainingRows(x, y, np.ones(len(y)) if weight is None else weight)
    params = complete(technique, {"n_estimators": 40, "max_depth": 6, **options})
    return technique.fit(technique.prepare(rows), params, seed)


def rebuilt(fitted, n_features):
    return XGBoostTechnique.regressor.from_state(fitted.to_state(), n_features)


def derived(x):
    """Add columns that no tree can tell from the first ones."""
    return np.hstack([x, 1 / x, x**2, np.log(x)])


def test_options_reach_xgboost():
    x, y = data()
    options = {
        "learning_rate": 0.3,
        "max_depth": 4,
        "gamma": 2.0,
        "lambda": 3.0,
        "alpha": 0.5,
        "min_child_weight": 5,
        "subsample": 0.7,
        "colsample_bytree": 0.6,
    }
    settings = {"tree_method": "hist", "nthread": 1, "verbosity": 0, "seed": 3, **options}
    reference = xgboost.train(settings, xgboost.QuantileDMatrix(x, label=y), num_boost_round=40)
    np.testing.assert_allclose(
        fit(x, y, **options).predict(x), reference.inplace_predict(x), rtol=1e-3
    )


@pytest.mark.parametrize(
    "options", [{}, {"subsample": 0.6}, {"subsample": 0.6, "colsample_bytree": 0.5}]
)
@pytest.mark.parametrize("n_trees", [1, 15])
def test_first_trees_are_the_smaller_model(options, n_trees):
    x, y = data()
    small = fit(x, y, **options, n_estimators=n_trees)
    cut = fit(x, y, **options).at(n_trees)
    assert cut.predict(x).tolist() == small.predict(x).tolist()
    assert cut.importances().tolist() == small.importances().tolist()
    assert rebuilt(cut, 3).n_trees == n_trees


def test_more_trees_than_fitted_are_refused():
    x, y = data()
    with pytest.raises(ValueError, match="between 1 and the 40 fitted"):
        fit(x, y).at(41)


def test_saved_form_predicts_the_same_also_at_the_thresholds():
    x, y = data()
    fitted = fit(derived(x), y, max_depth=100, gamma=0)
    saved = rebuilt(fitted, 12)
    at_splits = np.repeat(derived(x)[:1], len(saved.threshold), axis=0)
    for nudge in (0, 1, 2):  # the threshold of ours, of XGBoost, and beyond
        value = saved.threshold.astype(np.float32)
        for _ in range(nudge):
            value = np.nextafter(value, np.float32(np.inf))
        at_splits[np.arange(len(value)), saved.feature] = value
        expected = fitted.predict(at_splits)
        np.testing.assert_allclose(saved.predict(at_splits), expected, rtol=1e-5)


def test_columns_in_the_same_or_reverse_order_are_left_out():
    x, _ = data()
    x = x[:200].astype(np.float32)
    assert distinct_columns(derived(x)).tolist() == [0, 1, 2]


def test_columns_that_differ_in_ties_are_kept():
    x = np.array([1.0, 2, 3, 4], dtype=np.float32)
    coarse = np.array([1.0, 1, 3, 4], dtype=np.float32)
    assert distinct_columns(np.column_stack([x, coarse])).tolist() == [0, 1]


def test_reversed_columns_are_kept_where_bins_break_the_symmetry():
    x = np.linspace(1, 10, 1000, dtype=np.float32)
    assert distinct_columns(np.column_stack([x, -x, 2 * x])).tolist() == [0, 1]


@pytest.mark.parametrize("n_rows", [250, 2000])  # below and above the number of bins
def test_leaving_columns_out_changes_no_training_prediction(n_rows):
    x, y = data(n_rows)
    many = derived(x)
    settings = {"tree_method": "hist", "nthread": 1, "max_depth": 6, "eta": 0.1, "gamma": 0.25}
    matrix = xgboost.QuantileDMatrix(many.astype(np.float32), label=y - y.mean())
    reference = xgboost.train({**settings, "base_score": 0.0}, matrix, num_boost_round=40)
    fitted = fit(many, y)
    assert len(fitted.columns) == (3 if n_rows < 256 else 6)
    expected = reference.inplace_predict(many.astype(np.float32)) + y.mean()
    np.testing.assert_allclose(fitted.predict(many), expected, rtol=1e-5)


@pytest.mark.parametrize("depth", [3, 0])
def test_nodes_summed_on_their_own_give_the_trees_of_subtracted_ones(monkeypatch, depth):
    x, y = data(2000)
    summed = fit(x, y, max_depth=depth)
    monkeypatch.setattr(boosting, "_ROWS_TO_SUBTRACT", 1)
    np.testing.assert_allclose(summed.predict(x), fit(x, y, max_depth=depth).predict(x), rtol=1e-6)


def test_xgboost_keeps_no_more_nodes_to_subtract_from_than_have_many_rows():
    x, y = data(640)
    (tree,) = json.loads(fit(x, y).booster.save_config())["learner"]["gradient_booster"]["updater"]
    assert int(tree["hist_train_param"]["max_cached_hist_node"]) == 10


def test_features_keep_their_place_when_columns_are_left_out():
    x, y = data(200)
    shuffled = np.column_stack([x[:, 0], x[:, 0] ** 2, x[:, 1], x[:, 2]])
    fitted = fit(shuffled, y)
    assert fitted.columns.tolist() == [0, 2, 3]
    shares = fitted.importances()
    assert shares[1] == 0 and (shares[[0, 2, 3]] > 0).all()
    np.testing.assert_allclose(
        rebuilt(fitted, 4).predict(shuffled), fitted.predict(shuffled), rtol=1e-5
    )


def test_all_columns_stay_when_trees_draw_columns():
    x, y = data(200)
    assert fit(derived(x), y, colsample_bytree=0.5).columns.tolist() == list(range(12))


def test_importances_are_shares_of_splits():
    x, y = data()
    fitted = fit(x, y)
    counts = fitted.booster.get_score(importance_type="weight")
    expected = np.array([counts[f"f{j}"] for j in range(3)])
    np.testing.assert_allclose(fitted.importances(), expected / expected.sum())
    np.testing.assert_allclose(rebuilt(fitted, 3).importances(), expected / expected.sum())


def test_model_without_splits_predicts_the_mean():
    fitted = fit(np.ones((10, 2)), np.arange(10.0))
    assert fitted.importances() is None
    np.testing.assert_allclose(rebuilt(fitted, 2).predict(np.ones((1, 2))), 4.5)


def test_small_differences_between_large_targets_are_learned():
    x, y = data()
    shifted = fit(x, y + 1e9)
    np.testing.assert_allclose(shifted.predict(x) - 1e9, fit(x, y).predict(x), rtol=1e-4)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize(("gamma", "alpha"), [(0, 0), (2.0, 0), (2.0, 0.5)])
def test_unit_of_the_target_is_of_no_account(scale, gamma, alpha):
    x, y = data()
    expected = fit(x, y, gamma=gamma, alpha=alpha)
    scaled = fit(x, y * scale, gamma=gamma * scale**2, alpha=alpha * scale)
    np.testing.assert_allclose(scaled.predict(x) / scale, expected.predict(x), rtol=1e-4)
    np.testing.assert_allclose(rebuilt(scaled, 3).predict(x), scaled.predict(x), rtol=1e-5)


def test_times_of_milliseconds_are_learned_beside_hours():
    random = np.random.default_rng(0)
    x = random.uniform(size=(400, 4))
    y = 10 ** (6 * x[:, 0] - 2) * (1 + x[:, 1])
    fitted = fit(x, y, n_estimators=400, gamma=0)
    assert np.median(np.abs(fitted.predict(x) / y - 1)) < 0.01


@pytest.mark.parametrize("scale", [1e-310, 1e-60, 1e-25, 1e25, 1e60])
def test_penalties_beyond_single_precision_count_as_none_or_all(scale):
    x, y = data()
    fitted = fit(x, y * scale, alpha=0.1)
    without = fit(x, y, gamma=0).predict(x) if scale > 1 else y.mean()
    np.testing.assert_allclose(fitted.predict(x) / scale, without, rtol=1e-4)


def test_repeats_are_merged_unless_runs_are_drawn():
    technique = XGBoostTechnique()
    assert technique.merges_repeats(complete(technique, {}))
    assert not technique.merges_repeats(complete(technique, {"subsample": 0.9}))
    x, _ = data(100)
    random = np.random.default_rng(1)
    x = np.repeat(x, random.integers(1, 9, size=100), axis=0)
    y = x[:, 0] * x[:, 1] + random.normal(size=len(x))
    few = merged(TrainingRows(x, y, np.ones(len(y))))
    penalties = {"gamma": 1.0, "alpha": 0.5}  # in units of the target, which deviates less merged
    for options in ({}, {"min_child_weight": 6}, {"colsample_bytree": 0.5}, penalties):
        apart, together = fit(x, y, **options), fit(few.x, few.y, few.weight, **options)
        np.testing.assert_allclose(together.predict(x), apart.predict(x), rtol=1e-4)


def test_features_beyond_single_precision_are_refused_in_fits_only():
    x, y = data()
    fitted = fit(x, y)
    with pytest.raises(ValueError, match=r"above 3\.4e38"):
        fit(x * 1e40, y)
    far = np.full((1, 3), 1e300)
    np.testing.assert_allclose(rebuilt(fitted, 3).predict(far), fitted.predict(far), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "value"), [("subsample", 0), ("subsample", 1.1), ("lambda", -1), ("max_depth", 0.5)]
)
def test_illegal_options_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}: must be"):
        complete(XGBoostTechnique, {name: value})


def test_depth_zero_is_no_limit():
    x, y = data()
    unlimited = fit(x, y, max_depth=0).predict(x)
    assert unlimited == pytest.approx(fit(x, y, max_depth=100).predict(x))
    assert not np.allclose(unlimited, fit(x, y, max_depth=2).predict(x))
