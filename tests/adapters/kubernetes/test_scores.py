"""Scores for kube-scheduler, in whole numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.adapters.kubernetes.scores import extender_scores


def whole(shown, *, is_known=None, preference=None):
    shown = np.array(shown, dtype=float)
    known = np.ones(len(shown), dtype=bool) if is_known is None else np.array(is_known)
    prefer = np.zeros(len(shown)) if preference is None else np.array(preference)
    return extender_scores(shown, shown, known, prefer.astype(np.int64)).tolist()


@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.integers(-5, 5), st.booleans()), min_size=1, max_size=30
    )
)
def test_the_best_is_alone_at_ten_and_the_order_is_kept(nodes):
    shown, preference, is_known = (list(part) for part in zip(*nodes, strict=True))
    found = whole(shown, is_known=is_known, preference=preference)
    assert all(isinstance(score, int) and 0 <= score <= 10 for score in found)
    known = [(s, p, w) for s, p, w, k in zip(shown, preference, found, is_known, strict=True) if k]
    if not known:
        assert set(found) == {0}
        return
    best = max(score for score, _, _ in known)
    winners = [(s, p) for s, p, w in known if w == 10]
    assert winners and all(score >= best - 1e-9 for score, _ in winners)
    assert len({p for _, p in winners}) == 1
    for a in known:
        for b in known:
            assert not (a[0] > b[0] + 1e-9 and a[2] < b[2])


def test_a_node_that_is_hardly_worse_than_the_best_is_not_its_equal():
    assert whole([100.0, 99.999]) == [10, 8]


def test_equal_nodes_are_told_apart_by_the_preference_of_the_policy_alone():
    assert whole([80.0, 80.0, 80.0], preference=[3, 1, 1]) == [9, 10, 10]


def test_scores_of_watts_which_are_negative_keep_their_order():
    assert whole([-5.0, -10.0, -50.0]) == [10, 8, 0]


@pytest.mark.parametrize(
    ("shown", "median"), [([100, 50, 10], 4), ([100, 50], 7), ([100, 20, 10, 5], 0)]
)
def test_a_node_without_a_prediction_gets_the_median_of_the_others(shown, median):
    for unknown in (1e9, -1e9, 100.0):  # whatever its own score would be
        found = whole([*shown, unknown], is_known=[True] * len(shown) + [False])
        assert found[-1] == median


def test_a_node_without_a_prediction_is_not_the_equal_of_the_best():
    found = whole([100, 100, 100, 10, 0], is_known=[True] * 4 + [False])
    assert found == [10, 10, 10, 0, 9]


def test_nodes_are_equal_where_nothing_is_known():
    assert whole([5.0, 100.0, 7.0], is_known=[False] * 3) == [0, 0, 0]
