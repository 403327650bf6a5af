from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.model.techniques import State
from foretell.model.techniques.trees import _flat
from foretell.model.techniques.trees._flat import Tree, TreeRegressor, join_trees

STUMP = Tree(
    feature=np.array([1, -2, -2]),
    threshold=np.array([0.5, -2.0, -2.0]),
    left=np.array([1, -1, -1]),
    right=np.array([2, -1, -1]),
    value=np.array([0.0, 10.0, 20.0]),
)
DEEPER = Tree(
    feature=np.array([0, 1, -2, -2, -2]),
    threshold=np.array([3.0, 7.0, 0.0, 0.0, 0.0]),
    left=np.array([1, 2, -1, -1, -1]),
    right=np.array([4, 3, -1, -1, -1]),
    value=np.array([0.0, 0.0, 1.0, 2.0, 3.0]),
)
LEAF = Tree(*(np.array([v]) for v in (-2, 0.0, -1, -1, 5.0)))


def ensemble(*trees, is_mean=False, **settings):
    return join_trees(trees, n_features=2, is_mean=is_mean, **settings)


def test_rows_at_the_threshold_go_left():
    rows = np.array([[0.0, 0.5], [0.0, 0.5 + 1e-6], [0.0, -9.0]])
    assert ensemble(STUMP).predict(rows).tolist() == [10, 20, 10]


def test_features_are_compared_in_single_precision():
    # 0.5 + 1e-9 is 0.5 in single precision.
    assert ensemble(STUMP).predict(np.array([[0.0, 0.5 + 1e-9]])).tolist() == [10]


def test_threshold_between_two_single_numbers_keeps_them_apart():
    below = np.float32(0.1)
    above = np.nextafter(below, np.float32(1))
    middle = (float(below) + float(above)) / 2
    for threshold in (middle, middle + 1e-10, middle - 1e-10):
        tree = STUMP._replace(threshold=np.array([threshold, 0, 0]))
        assert ensemble(tree).predict(np.array([[0, below], [0, above]])).tolist() == [10, 20]


def test_sum_mean_and_base():
    rows = np.array([[0.0, 0.0], [0.0, 9.0], [4.0, 0.0]])
    by_hand = np.array([10 + 1 + 5, 20 + 2 + 5, 10 + 3 + 5])
    trees = (STUMP, DEEPER, LEAF)
    assert ensemble(*trees, base=100.0).predict(rows).tolist() == (by_hand + 100).tolist()
    np.testing.assert_allclose(ensemble(*trees, is_mean=True).predict(rows), by_hand / 3)


def test_first_trees_alone():
    rows = np.array([[0.0, 9.0], [4.0, 0.0]])
    whole = ensemble(STUMP, DEEPER, LEAF, base=1.0, shares=np.array([0.5, 0.5]))
    assert (
        whole.at(2).predict(rows).tolist()
        == ensemble(STUMP, DEEPER, base=1.0).predict(rows).tolist()
    )
    assert whole.at(2).importances() is None
    assert whole.at(3.0).importances().tolist() == [0.5, 0.5]
    for wrong in (0, 4, 1.5):
        with pytest.raises(ValueError, match="between 1 and the 3 fitted"):
            whole.at(wrong)


NUMBERS = st.sampled_from([-np.inf, -1.0, 0.1, 0.5, 0.5 + 1e-9, 3.0, 7.0, 7.5, np.inf])


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30), st.booleans())
def test_many_rows_at_once_are_predicted_as_each_alone(rows, is_mean):
    trees = ensemble(STUMP, DEEPER, LEAF, is_mean=is_mean, base=0.25)
    many = np.array(rows * 1024)[:2000]
    alone = [trees.predict(row[None])[0] for row in many[: len(rows)]]
    np.testing.assert_allclose(trees.predict(many), np.resize(alone, len(many)), rtol=1e-15)


def test_rows_of_very_many_kinds_are_told_apart():
    random = np.random.default_rng(1)
    cuts = random.normal(size=(12, 60))  # 60 to the 12th kinds do not fit a number of 64 bits
    trees = [
        STUMP._replace(feature=np.array([j, -2, -2]), threshold=np.array([cut, 0, 0]))
        for j, own in enumerate(cuts)
        for cut in own
    ]
    many = join_trees(trees, n_features=12, is_mean=False)
    rows = random.choice(random.normal(size=5), (1500, 12))
    few = [many.predict(rows[i : i + 100]) for i in range(0, len(rows), 100)]
    np.testing.assert_allclose(many.predict(rows), np.concatenate(few), rtol=1e-14)


def test_pairs_in_small_blocks_give_the_same(monkeypatch):
    random = np.random.default_rng(0)
    rows = random.uniform(0, 10, size=(57, 2))
    trees = ensemble(STUMP, DEEPER, LEAF)
    expected = trees.predict(rows)
    for pairs in (1, 10, 100):
        monkeypatch.setattr(_flat, "_PAIRS", pairs)
        assert trees.predict(rows).tolist() == expected.tolist()


def test_values_beyond_single_precision_go_to_the_far_side():
    assert ensemble(STUMP).predict(np.array([[0, 1e300], [0, -1e300]])).tolist() == [20, 10]


def test_another_number_of_features_is_refused():
    with pytest.raises(ValueError, match="expected 2 features, not 3"):
        ensemble(STUMP).predict(np.zeros((1, 3)))


def damaged(name, index, value):
    state = ensemble(STUMP, DEEPER, shares=np.array([0.25, 0.75])).to_state()
    array = state.arrays[name].copy()
    array[index] = value
    return State(state.values, {**state.arrays, name: array})


@pytest.mark.parametrize(
    ("name", "index", "value", "message"),
    [
        ("left", 0, 0, "after their parent"),  # a cycle
        ("right", 3, 1, "after their parent"),
        ("left", 0, 4, "same tree"),  # into the next tree
        ("right", 0, 3, "same tree"),
        ("left", 0, -1, "after their parent"),  # half a leaf
        ("right", 0, 1, "exactly one"),  # both children are the same node
        ("left", 3, 2_000_000_000, "same tree"),
        ("feature", 0, 2, "between 0 and 1"),
        ("feature", 0, -1, "between 0 and 1"),
        ("threshold", 0, np.inf, "finite"),
        ("value", 1, np.nan, "finite"),
        ("starts", 0, 1, "increase from 0"),
        ("starts", 1, 0, "increase from 0"),
        ("starts", 2, 9, "increase from 0"),
        ("shares", 0, 0.5, "sum to 1"),
        ("shares", slice(None), [-1.0, 2.0], "sum to 1"),
    ],
)
def test_unsound_nodes_are_refused(name, index, value, message):
    with pytest.raises(ValueError, match=message):
        TreeRegressor.from_state(damaged(name, index, value), 2)


@pytest.mark.parametrize(
    ("key", "value"),
    [("base", float("nan")), ("base", True), ("is_mean", 1), ("n_features", 3), ("has_shares", 0)],
)
def test_unsound_values_are_refused(key, value):
    state = ensemble(STUMP).to_state()
    with pytest.raises(ValueError, match=key if key != "n_features" else "2 features"):
        TreeRegressor.from_state(State({**state.values, key: value}, state.arrays), 2)


def test_no_nodes_or_no_trees_are_refused():
    state = ensemble(LEAF).to_state()
    empty = {name: array[:0] for name, array in state.arrays.items()}
    for starts in ([], [0], [0, 0]):
        arrays = {**empty, "starts": np.array(starts, dtype=np.int64)}
        with pytest.raises(ValueError, match="starts"):
            TreeRegressor.from_state(State(state.values, arrays), 2)


@st.composite
def hostile_states(draw):
    size = draw(st.integers(1, 6))
    node = st.integers(-2, 7)
    number = st.sampled_from([0.0, 1.0, -1e308, 1e308, float("inf"), float("nan")])

    def column(values, dtype):
        return np.array(draw(st.lists(values, min_size=size, max_size=size)), dtype=dtype)

    leaf = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    left, right = column(node, np.int32), column(node, np.int32)
    left[leaf], right[leaf] = -1, -1
    return State(
        {"n_features": 2, "is_mean": draw(st.booleans()), "base": 0.0, "has_shares": False},
        {
            "feature": column(st.integers(-1, 2), np.int32),
            "threshold": column(number, np.float64),
            "left": left,
            "right": right,
            "value": column(number, np.float64),
            "starts": np.array(draw(st.lists(st.integers(-1, 7), max_size=4)), dtype=np.int64),
        },
    )


@settings(deadline=None, derandomize=True, max_examples=300)
@given(hostile_states())
def test_hostile_arrays_are_refused_or_predict_in_finite_time(state):
    try:
        trees = TreeRegressor.from_state(state, 2)
    except ValueError:
        return
    with np.errstate(over="ignore"):
        assert trees.predict(np.array([[0.0, 0.0], [2.0, -2.0]])).shape == (2,)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_any_sound_trees_are_accepted_and_followed(n_splits, seed):
    random = np.random.default_rng(seed)
    trees = [random_tree(random, n) for n in n_splits]
    rows = random.integers(0, 10, size=(20, 2)).astype(float)
    rebuilt = TreeRegressor.from_state(ensemble(*trees).to_state(), 2)
    expected = [sum(walk(tree, row) for tree in trees) for row in rows]
    np.testing.assert_allclose(rebuilt.predict(rows), expected, rtol=1e-12)


def random_tree(random, n_splits):
    left, right = [-1], [-1]
    for _ in range(n_splits):
        parent = random.choice([i for i, child in enumerate(left) if child < 0])
        left[parent], right[parent] = len(left), len(left) + 1
        left += [-1, -1]
        right += [-1, -1]
    n = len(left)
    feature, threshold = random.integers(0, 2, size=n), random.integers(0, 10, size=n).astype(float)
    return Tree(feature, threshold, np.array(left), np.array(right), random.normal(size=n))


def walk(tree, row):
    node = 0
    while tree.left[node] >= 0:
        is_left = row[tree.feature[node]] <= tree.threshold[node]
        node = tree.left[node] if is_left else tree.right[node]
    return tree.value[node]
