"""The folds that rehearse each question."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretell.model.automatic.folds import plan_folds
from foretell.model.passports.measured_range import MeasuredRange


def grid(*columns):
    return np.array(np.meshgrid(*columns), dtype=float).reshape(len(columns), -1).T


def of_kind(folds, kind):
    return [f for f in folds if f.kind == kind]


def test_all_three_questions_are_asked_of_every_column_with_enough_levels():
    folds = plan_folds(grid([1, 2, 4, 8, 16], [10, 20, 30, 40]), [0, 1], (), seed=0)
    for kind in ("beyond", "between"):
        assert {c for f in of_kind(folds, kind) for c in f.columns} == {0, 1}
    assert {f.direction for f in of_kind(folds, "beyond")} == {1, -1}
    assert of_kind(folds, "inside")


def test_a_column_of_few_levels_and_one_that_is_no_number_are_not_cut():
    x = grid([1, 2, 3], [1, 2, 3, 4, 5])
    assert {f.kind for f in plan_folds(x, [0], (), seed=0)} == {"inside"}
    cut = plan_folds(x, [0, 1], (), seed=0)
    assert {c for f in cut for c in f.columns} == {1}


def test_columns_that_are_multiples_of_one_another_are_one_question():
    nodes = grid([1, 2, 4, 8, 16], [10, 20, 30, 40])
    twins = np.column_stack([nodes[:, 0], 8 * nodes[:, 0], nodes[:, 1]])
    joined = plan_folds(twins, [0, 1, 2], (), seed=0)
    alone = plan_folds(nodes, [0, 1], (), seed=0)
    assert len(joined) == len(alone)
    columns = {f.columns for f in joined if f.kind != "inside"}
    assert columns == {(0, 1), (2,)}


def test_every_point_is_predicted_inside_once_in_each_round():
    x = np.arange(30.0)[:, None]
    for n, rounds in ((30, 2), (3, 2)):
        inside = of_kind(plan_folds(x[:n], [], (), seed=0), "inside")
        held = np.concatenate([f.test for f in inside])
        assert np.bincount(held, minlength=n).tolist() == [rounds] * n


def test_too_few_points_give_no_fold_to_learn_from():
    assert plan_folds(np.ones((1, 1)), [0], (), seed=0) == []
    assert plan_folds(np.array([[1.0], [2.0]]), [0], (), seed=0) == []


def test_few_questions_are_asked_of_many_columns():
    random = np.random.default_rng(0)
    few = plan_folds(random.uniform(1, 9, (60, 2)), [0, 1], (), seed=0)
    many = plan_folds(random.uniform(1, 9, (60, 30)), list(range(30)), (), seed=0)
    assert len(many) <= 2 * len(few)


def test_the_same_seed_plans_the_same_folds():
    x = np.random.default_rng(0).uniform(1, 9, (200, 2))

    def plan(seed):
        return [(f.kind, f.columns, f.test.tolist()) for f in plan_folds(x, [0, 1], (), seed)]

    assert plan(1) == plan(1)
    assert plan(1) != plan(2)


tables = arrays(
    float,
    st.tuples(st.integers(2, 30), st.just(3)),
    elements=st.one_of(st.integers(1, 6).map(float), st.floats(0.1, 100)),
)


@settings(deadline=None)
@given(tables, st.integers(0, 5))
def test_what_is_held_out_is_where_the_question_says(x, seed):
    x = np.unique(x, axis=0)
    for fold in plan_folds(x, [0, 2], (), seed):
        assert not set(fold.train) & set(fold.test)
        assert len(fold.test)
        assert len(fold.train) > 1
        assert set(fold.columns) <= {0, 2}
        for column in fold.columns:
            train, test = x[fold.train, column], x[fold.test, column]
            assert len(np.unique(train)) >= 3
            if fold.kind == "beyond":
                beyond = test > train.max() if fold.direction > 0 else test < train.min()
                assert beyond.all()
            else:
                assert fold.kind == "between"
                assert ((test > train.min()) & (test < train.max())).all()
                assert not np.isin(test, train).any()
        assert bool(fold.columns) == (fold.kind != "inside")


@pytest.mark.parametrize("n", [150, 1000])
def test_of_many_points_only_some_are_asked_about(n):
    x = np.random.default_rng(0).uniform(1, 9, (n, 1))
    folds = plan_folds(x, [0], (), seed=0)
    used = {i for f in folds for i in (*f.train, *f.test)}
    assert len(used) < n
    assert len({i for f in folds for i in f.test}) > 50
    part = MeasuredRange.of(x[sorted(used)])
    assert np.abs(part.distance(x)).max() < 0.2  # drawn from the whole range


def test_each_level_left_out_is_asked_for_without_its_indicator():
    numbers = np.arange(1.0, 13)[:, None]
    x = np.hstack([numbers, np.eye(3)[np.arange(12) % 3]])
    folds = of_kind(plan_folds(x, [], ((1, 2, 3),), seed=0), "unknown level")
    assert [f.columns for f in folds] == [(1,), (2,), (3,)]
    for fold in folds:
        assert x[fold.train][:, fold.columns].sum() == 0
        assert x[fold.test][:, fold.columns].all()
        assert not fold.asked(x)[:, 1:].any()
        assert (fold.asked(x)[:, 0] == x[fold.test, 0]).all()
    assert x[:, 1:].sum() == 12  # asking changes nothing


def test_the_only_level_of_a_category_is_not_left_out():
    x = np.column_stack([np.arange(1.0, 9), np.ones(8)])
    assert of_kind(plan_folds(x, [0], ((1,),), seed=0), "unknown level") == []
