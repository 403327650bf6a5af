from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest

from foretell.model.techniques import TrainingRows, complete
from foretell.model.techniques.trees import _levels, boosting
from foretell.model.techniques.trees._levels import Levels, LevelTrees, is_built
from foretell.model.techniques.trees.boosting import BoostedTrees, XGBoostTechnique

needs_compiler = pytest.mark.skipif(not is_built(), reason="no C compiler built the trees")


def grid(n=600, n_values=12, seed=0):
    """Rows of few values, with products that a tree can tell apart, and repeats as weights."""
    random = np.random.default_rng(seed)
    x = random.integers(1, n_values + 1, size=(n, 3)).astype(float)
    x = np.column_stack([x, x[:, 0] * x[:, 1], x[:, 1] / x[:, 2], -x[:, 0]])
    y = 1000 * x[:, 0] / x[:, 1] + 40 * x[:, 2] ** 2 + random.normal(0, 30, size=n)
    return TrainingRows(x, y, random.integers(1, 4, size=n).astype(float))


def fit(rows, **options):
    technique = XGBoostTechnique()
    params = complete(technique, {"n_estimators": 40, "max_depth": 0, **options})
    return technique.fit(technique.prepare(rows), params, 0)


def fit_with_xgboost(monkeypatch, rows, **options):
    with monkeypatch.context() as patch:
        patch.setattr(boosting, "is_built", lambda: False)
        fitted = fit(rows, **options)
    assert isinstance(fitted, BoostedTrees)
    return fitted


def between(rows, seed=1):
    """New rows: at the values of the columns, and between them."""
    random = np.random.default_rng(seed)
    return np.vstack([rows.x, rows.x * random.uniform(0.5, 1.5, size=rows.x.shape)])


@needs_compiler
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gamma": 5000.0, "learning_rate": 0.7},
        {"gamma": 0, "learning_rate": 0.01, "lambda": 0.1},
        {"alpha": 300.0, "lambda": 3.7},
        {"min_child_weight": 0, "lambda": 0},
        {"min_child_weight": 7.5, "max_depth": 4},
        {"max_depth": 1},
        {"gamma": 1e30},
        {"min_child_weight": 1e9},
    ],
)
@pytest.mark.parametrize("n_values", [2, 12, 250])
def test_trees_on_few_values_are_those_of_xgboost_to_the_last_bit(monkeypatch, options, n_values):
    rows = grid(n_values=n_values, n=250 if n_values == 250 else 600)
    ours, theirs = fit(rows, **options), fit_with_xgboost(monkeypatch, rows, **options)
    assert isinstance(ours, LevelTrees)
    found, expected = ours.to_state(), theirs.to_state()
    assert found.values == expected.values
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)
    x = between(rows)
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))
    np.testing.assert_array_equal(ours.at(7).predict(x), theirs.at(7).predict(x))


@needs_compiler
def test_trees_end_early_where_those_of_xgboost_do(monkeypatch):
    """It splits 256 nodes at once, and stops if gamma refuses all that are left at that depth."""
    x = np.array(list(product((0.0, 1.0), repeat=11)))
    effects = 0.8 ** np.arange(11) * np.ones_like(x)
    effects[x[:, 0] == 1, 9:] = 0.008  # of 512 nodes at a depth of 9, half can be split
    rows = TrainingRows(x, (effects * x).sum(axis=1), np.ones(len(x)))
    options = {"n_estimators": 1, "lambda": 0, "gamma": 1e-3}
    ours, theirs = fit(rows, **options), fit_with_xgboost(monkeypatch, rows, **options)
    assert (
        len(theirs.to_state().arrays["left"]) == 2 * (512 + 256) - 1
    )  # the last column is not used
    np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))


@needs_compiler
def test_saved_form_of_compiled_trees_predicts_the_same_also_at_the_thresholds():
    rows = grid()
    fitted = fit(rows)
    x = between(rows)
    rebuilt = XGBoostTechnique.regressor.from_state(fitted.to_state(), x.shape[1])
    np.testing.assert_allclose(rebuilt.predict(x), fitted.predict(x), rtol=1e-5)


@needs_compiler
@pytest.mark.parametrize("option", ["subsample", "colsample_bytree"])
def test_xgboost_grows_trees_that_draw_rows_or_columns(option):
    assert isinstance(fit(grid(), **{option: 0.5}), BoostedTrees)


@needs_compiler
def test_xgboost_grows_trees_on_columns_of_many_values():
    random = np.random.default_rng(0)
    x = random.uniform(size=(400, 2))
    assert isinstance(fit(TrainingRows(x, x[:, 0], np.ones(400))), BoostedTrees)


@needs_compiler
def test_xgboost_grows_trees_on_many_rows(monkeypatch):
    monkeypatch.setattr(_levels, "_MOST_ROWS", 599)
    assert isinstance(fit(grid(n=600)), BoostedTrees)


def test_where_nothing_is_compiled_xgboost_grows_all_trees(monkeypatch):
    expected = fit(grid()).predict(grid().x)
    # An attribute of the package would be imported without a look at the modules.
    monkeypatch.delattr("foretell.model.techniques.trees._growing", raising=False)
    monkeypatch.setitem(sys.modules, "foretell.model.techniques.trees._growing", None)
    is_built.cache_clear()
    try:
        fitted = fit(grid())
    finally:
        is_built.cache_clear()
    assert isinstance(fitted, BoostedTrees)
    np.testing.assert_array_equal(fitted.predict(grid().x), expected)


def test_levels_are_positions_among_the_values_of_a_column():
    levels = Levels.of(np.array([[4, -1], [2, -1], [4, 7], [3, 7]], dtype=np.float32))
    assert levels is not None
    assert levels.places.tolist() == [[2, 0, 2, 1], [0, 0, 1, 1]]
    one = np.ones(1, dtype=np.int32)
    assert levels.bounds(0 * one, one).tolist() == [4]  # 2 and 3 go left
    assert levels.bounds(one, 0 * one).tolist() == [7]


@needs_compiler
def test_arrays_that_do_not_belong_together_are_refused():
    from foretell.model.techniques.trees import _growing

    one, two = np.ones(1, dtype=np.float32), np.ones(2, dtype=np.float32)
    places, penalties = np.zeros((1, 2), dtype=np.uint8), np.ones(5, dtype=np.float32)
    with pytest.raises(ValueError, match="belong together"):
        _growing.grow(places, two, one, penalties, 0, two)
