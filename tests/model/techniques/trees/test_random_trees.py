from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.model.techniques.trees import _random_trees
from foretell.model.techniques.trees._random_trees import grow_random_trees


def table(n_rows=60, n_features=4, seed=0):
    """Rows with some equal values, a target that three features decide, and weights."""
    random = np.random.default_rng(seed)
    x = random.random((n_rows, n_features)).astype(np.float32)
    x[:, 0] = np.round(5 * x[:, 0])
    y = np.sin(x[:, 0]) + 2 * x[:, 1] * x[:, 2] + random.normal(0, 0.1, n_rows)
    return x, y, random.uniform(0.1, 3, n_rows)


def test_the_mean_of_many_trees_is_that_of_scikit_learns_extra_trees():
    from sklearn.ensemble import ExtraTreesRegressor

    x, y, weight = table()
    new, _, _ = table(300, seed=1)

    def theirs(seed):
        forest = ExtraTreesRegressor(400, max_features=1.0, random_state=seed)
        return forest.fit(x, y, sample_weight=weight)

    ours, first = grow_random_trees(x, y, weight, 400, 0), theirs(0)
    predicted = first.predict(new)
    by_chance = np.sqrt(np.mean((theirs(1).predict(new) - predicted) ** 2))
    assert np.sqrt(np.mean((ours.predict(new) - predicted) ** 2)) < 1.3 * by_chance
    assert ours.shares == pytest.approx(first.feature_importances_, abs=0.02)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(-4, 4), st.integers(0, 5)),
        min_size=1,
        max_size=25,
    ).filter(lambda rows: any(row[3] for row in rows)),
    st.integers(1, 30),
)
def test_each_tree_gives_the_weighted_mean_of_rows_that_no_feature_tells_apart(rows, n_trees):
    values = np.array(rows, dtype=float)
    x, y, weight = values[:, :2].astype(np.float32), values[:, 2], values[:, 3]
    trees = grow_random_trees(x, y, weight, n_trees, 0)
    assert trees.n_trees == n_trees
    for row, *_ in {(tuple(a), b) for a, b in zip(x.tolist(), weight.tolist(), strict=True) if b}:
        is_alike = (x == np.float32(row)).all(axis=1)
        mean = np.average(y[is_alike], weights=weight[is_alike])
        for k in (1, n_trees):
            assert trees.at(k).predict(np.array([row]))[0] == pytest.approx(mean, abs=1e-9)


def test_trees_do_not_depend_on_how_many_nodes_are_split_at_a_time(monkeypatch):
    x, y, weight = table()
    whole = grow_random_trees(x, y, weight, 30, 0)
    monkeypatch.setattr(_random_trees, "_MOST_CELLS", 64)
    parts = grow_random_trees(x, y, weight, 30, 0)
    for name in ("feature", "threshold", "left", "right", "value", "starts", "shares"):
        assert (getattr(whole, name) == getattr(parts, name)).all(), name


def test_seeds_give_different_trees_and_the_same_seed_the_same():
    x, y, weight = table()
    one, again, other = (grow_random_trees(x, y, weight, 3, seed) for seed in (1, 1, 2))
    assert (one.threshold == again.threshold).all()
    assert not np.array_equal(one.threshold, other.threshold)


def test_a_target_that_does_not_vary_has_no_splits_and_no_shares():
    x, _, weight = table()
    trees = grow_random_trees(x, np.ones(len(x)), weight, 5, 0)
    assert (trees.left == -1).all()
    assert trees.shares is None
