"""How members are heard."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretell.model.automatic.folds import Fold
from foretell.model.automatic.vote import Vote, lowered, relative_errors, trimmed_mean
from foretell.model.passports.measured_range import MeasuredRange
from foretell.model.techniques._base import State

NOWHERE = np.zeros(0, dtype=np.int64)
NODES, SIZE = 0, 1
#: Nodes of 1 to 8, sizes of 10 to 40.
MEASURED = MeasuredRange.of(np.array([[1.0, 10], [2, 20], [4, 30], [8, 40]]))


def fold(kind, *columns, direction=0):
    return Fold(kind, columns, direction, NOWHERE, NOWHERE)


def vote(*answers, n_members=2):
    """Give each fold with the errors of the members."""
    folds, errors = [a[0] for a in answers], [np.array(a[1]) for a in answers]
    return Vote.of(MEASURED, folds, errors, n_members)


#: The first member is good inside, the second above the nodes, the third below the sizes.
SPECIALISTS = vote(
    (fold("inside"), [0.01, 0.2, 0.2]),
    (fold("between", NODES), [0.02, 0.1, 0.1]),
    (fold("beyond", NODES, direction=1), [0.5, 0.02, 0.5]),
    (fold("beyond", NODES, direction=-1), [0.2, 0.2, 0.2]),
    (fold("beyond", SIZE, direction=-1), [0.5, 0.5, 0.02]),
    n_members=3,
)


@pytest.mark.parametrize(
    ("row", "best"),
    [([2, 20], 0), ([3, 20], 0), ([16, 20], 1), ([2, 5], 2)],
    ids=["inside", "between", "above the nodes", "below the sizes"],
)
def test_the_one_who_was_good_at_such_a_question_is_heard_most(row, best):
    assert SPECIALISTS.weights(np.array([row], dtype=float)).argmax() == best


def test_weights_of_a_row_sum_to_one_and_none_is_nothing():
    rows = np.random.default_rng(0).uniform(0.1, 100, (50, 2))
    weights = SPECIALISTS.weights(rows)
    assert weights.sum(axis=1) == pytest.approx(1)
    assert weights.min() > 0


def test_with_nothing_rehearsed_all_are_heard_alike():
    weights = vote().weights(np.array([[2.0, 20], [3, 25], [99, 1]]))
    assert weights == pytest.approx(0.5)


def test_a_question_that_was_not_rehearsed_is_judged_by_those_that_were():
    only_inside = vote((fold("inside"), [0.01, 0.5]))
    weights = only_inside.weights(np.array([[3.0, 20], [16, 20]]))
    assert (weights[:, 0] > weights[:, 1]).all()


def test_errors_too_small_to_matter_make_no_difference():
    weights = vote((fold("inside"), [1e-9, 1e-5])).weights(np.array([[2.0, 20]]))
    assert weights == pytest.approx(0.5)


def heard(votes, row):
    return SPECIALISTS.combined(row, votes, SPECIALISTS.weights(row))


def test_rehearsed_votes_are_weighed_as_the_same_question_is_later():
    votes = np.array([[0.0, 9.0, 2.0]])
    rehearsed = []
    for direction, nodes in ((1, 16.0), (-1, 0.5)):
        rehearsed.append(SPECIALISTS.rehearsed(fold("beyond", NODES, direction=direction), votes))
        asked = heard(votes, np.array([[nodes, 20]]))
        assert rehearsed[-1] == pytest.approx(asked)
    assert rehearsed[0] > rehearsed[1] + 1  # the second member knows what is above
    inside = SPECIALISTS.rehearsed(fold("inside"), votes)
    assert inside == pytest.approx(heard(votes, np.array([[2.0, 20]])))


def test_inside_the_data_the_best_member_gets_more_weight_from_many_points_than_from_few():
    def best_weight(n_points):
        errors = ([0.02, 0.04, 0.04], [0.02, 0.04, 0.04])
        held = np.array_split(np.arange(n_points), 2)
        folds = [replace(fold("inside"), test=part) for part in held]
        judged = vote(*zip(folds, errors, strict=True), n_members=3)
        return judged.weights(np.array([[2.0, 20]]))[0, 0]

    few, some, many = (best_weight(n) for n in (8, 60, 120))
    assert few < some < many < 0.95
    assert few == pytest.approx(4 / 6)  # the inverse squares of the errors


def test_a_column_that_never_varied_does_not_change_who_is_heard():
    measured = MeasuredRange.of(np.array([[1.0, 1.0], [2.0, 1.0], [4.0, 1.0], [8.0, 1.0]]))
    judged = replace(SPECIALISTS, measured=measured)
    known, off, more = judged.weights(np.array([[2.0, 1.0], [2.0, 0.0], [2.0, 5.0]]))
    assert off == pytest.approx(known)
    assert more == pytest.approx(known)


def test_members_without_a_vote_have_no_weight():
    counted = SPECIALISTS.counted([0.0, 1.0, 1.0], [1.0, 1.0, 0.0])
    inside, between, beyond = counted.weights(np.array([[2.0, 20], [3.0, 20], [16.0, 20]]))
    assert inside[0] < 1e-12 > between[0]
    assert beyond[2] < 1e-12
    assert min(inside[1], between[2], beyond[0]) > 1e-6


def test_two_members_that_share_a_vote_weigh_as_much_as_one():
    errors = [0.1, 0.2]
    alone = vote((fold("inside"), errors)).weights(np.array([[2.0, 20]]))
    twins = Vote.of(MEASURED, [fold("inside")], [np.array([0.1, 0.1, 0.2])], 3)
    shared = twins.counted([0.5, 0.5, 1.0], [1.0, 1.0, 1.0]).weights(np.array([[2.0, 20]]))
    assert shared[0, :2].sum() == pytest.approx(alone[0, 0])
    assert shared[0, 2] == pytest.approx(alone[0, 1])


def test_a_vote_survives_saving():
    state = SPECIALISTS.to_state()
    saved = State(json.loads(json.dumps(state.values)), state.arrays)
    rebuilt = Vote.from_state(saved, 2, 3)
    rows = np.random.default_rng(0).uniform(0.1, 100, (50, 2)).round()
    assert np.array_equal(rebuilt.weights(rows), SPECIALISTS.weights(rows))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_levels", np.array([-4, 12])),
        ("n_levels", np.array([4, 5])),
        ("inside", np.zeros(2)),
        ("beyond", np.zeros((2, 3))),
        ("low", np.array([1.0, np.nan])),
    ],
    ids=str,
)
def test_a_state_that_makes_no_sense_is_refused(name, value):
    state = SPECIALISTS.to_state()
    with pytest.raises(ValueError):
        Vote.from_state(State(state.values, {**state.arrays, name: value}), 2, 3)


def test_relative_errors_are_means_weighed_by_runs():
    predictions = np.log([[10.0, 20.0], [10.0, 10.0]])
    errors = relative_errors(predictions, np.log([10.0, 20.0]), np.array([3.0, 1.0]))
    assert errors == pytest.approx([0.5 / 4, (3 * 1 + 0.5) / 4])


# The trimmed mean


def equal(votes):
    return np.full(votes.shape, 1 / votes.shape[1])


def test_one_wild_vote_moves_nothing_much():
    votes = np.array([[1.0, 1.1, 1.2, 1.3, 1.4, 1.5]])
    calm = trimmed_mean(votes, equal(votes))
    wild = votes.copy()
    wild[0, 2] = 1e9
    assert calm <= trimmed_mean(wild, equal(wild)) <= 1.5
    wild[0, 2] = -1e9
    assert 1.0 <= trimmed_mean(wild, equal(wild)) <= calm


def test_the_only_one_with_weight_decides():
    votes = np.array([[1.0, 5.0, 9.0]])
    assert trimmed_mean(votes, np.array([[0.0, 1.0, 0.0]])) == pytest.approx([5])


def test_members_that_agree_are_not_lowered_and_the_others_the_more_they_disagree():
    votes = np.array([[2.0, 2.0, 2.0], [1.9, 2.0, 2.1], [1.8, 2.0, 2.2], [0.0, 2.0, 4.0]])
    below = trimmed_mean(votes, equal(votes)) - lowered(votes, equal(votes))
    assert below[0] == 0
    assert below[2] == pytest.approx(4 * below[1])  # as a variance grows
    assert below[2] < below[3] < 2.0  # and yet among the votes


def test_beyond_the_data_votes_are_not_lowered():
    votes = np.array([[1.0, 2.0, 3.0]] * 2)
    rows = np.array([[2.0, 20], [16.0, 20]])
    inside, beyond = SPECIALISTS.combined(rows, votes, equal(votes))
    assert inside < beyond == 2.0


def test_where_votes_scatter_like_the_target_the_lowered_one_has_the_smaller_relative_error():
    random = np.random.default_rng(0)
    votes = random.normal(0, 0.6, (4000, 5))
    truth = np.exp(random.normal(0, 0.6, 4000))
    middle, less = trimmed_mean(votes, equal(votes)), lowered(votes, equal(votes))
    errors = [np.abs(np.exp(of) / truth - 1).mean() for of in (middle, less)]
    assert errors[1] < 0.9 * errors[0]


def some_votes():
    return st.integers(1, 7).flatmap(
        lambda n: st.tuples(
            arrays(float, n, elements=st.floats(-20, 20)),
            arrays(float, n, elements=st.floats(0.01, 1)),
            st.permutations(range(n)),
        )
    )


@given(some_votes())
def test_trimmed_mean_is_among_the_votes_and_their_order_does_not_matter(drawn):
    votes, weights, order = drawn
    weights = weights / weights.sum()
    mean = trimmed_mean(votes[None], weights[None])[0]
    assert votes.min() - 1e-9 <= mean <= votes.max() + 1e-9
    again = trimmed_mean(votes[None, list(order)], weights[None, list(order)])[0]
    assert again == pytest.approx(mean, abs=1e-9)


@given(some_votes(), st.floats(-9, 9))
def test_trimmed_mean_moves_with_all_votes_together(drawn, shift):
    votes, weights, _ = drawn
    weights = weights / weights.sum()
    mean, moved = (trimmed_mean(v[None], weights[None])[0] for v in (votes, votes + shift))
    assert moved == pytest.approx(mean + shift, abs=1e-9)
