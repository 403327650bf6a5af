"""Budgets of rungs, against a table that was worked out by hand from the published rules."""

import itertools

import pytest

from foretell.errors import UsageError
from foretell.tune import Budgets

#: Epochs of a new network and hundredths of the data, by iteration.
BY_HAND = {
    "multi": {1: (2, 10), 2: (4, 20), 3: (6, 30), 4: (8, 40), 5: (10, 50), 6: (10, 60),
              8: (10, 80), 9: (10, 90), 10: (10, 100), 16: (10, 100)},
    "epochs": {1: (2, 100), 2: (4, 100), 3: (6, 100), 4: (8, 100), 5: (10, 100), 8: (10, 100)},
    "data": {1: (1, 10), 2: (1, 20), 3: (1, 30), 4: (1, 40), 7: (1, 70), 8: (1, 80),
             10: (1, 100), 16: (1, 100)},
}  # fmt: skip


@pytest.mark.parametrize("kind", BY_HAND)
def test_iterations_allow_what_the_rules_say(kind):
    for iteration, (epochs, hundredths) in BY_HAND[kind].items():
        assert Budgets(kind).at(iteration) == (epochs, pytest.approx(hundredths / 100))


@pytest.mark.parametrize(
    ("kind", "iterations", "new_epochs", "anew"),
    [
        ("multi", [1, 2, 4, 8, 10], [2, 3, 6, 6, 2], [2, 4, 8, 10, 10]),
        ("epochs", [1, 2, 4, 5], [2, 2, 4, 2], [2, 4, 8, 10]),
        ("data", [1, 2, 4, 8, 10], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]),
    ],
)
def test_rungs_double_and_end_with_everything(kind, iterations, new_epochs, anew):
    resumed = Budgets(kind).rungs()
    assert [b.iteration for b in resumed] == iterations
    assert [len(b.epochs) for b in resumed] == new_epochs
    assert [len(b.epochs) for b in Budgets(kind, is_anew=True).rungs()] == anew
    assert resumed[-1].share == 1.0
    for before, after in itertools.pairwise(resumed):
        assert after.epochs.start == before.epochs.stop  # no epoch is trained twice or left out


@pytest.mark.parametrize("kind", ["multi", "epochs"])
def test_a_trial_that_goes_on_has_seen_as_much_as_a_new_one(kind):
    seen = 0.0
    for budget in Budgets(kind).rungs():
        seen += len(budget.epochs) * budget.share
        epochs, share = Budgets(kind).at(budget.iteration)
        assert seen == pytest.approx(epochs * share)


def test_other_numbers_grow_by_the_same_rule():
    budgets = Budgets("multi", min_epochs=1, max_epochs=27, min_share=0.3, eta=3)
    # 0.3 of the data once, 0.9 of it three times, and so on; what is trained at once is whole.
    assert [(len(b.epochs), b.share) for b in budgets.rungs()] == [
        (1, 0.3), (3, pytest.approx(0.9)), (6, 1.0), (18, 1.0),
    ]  # fmt: skip


def test_a_budget_without_growth_is_one_rung():
    (only,) = Budgets("multi", min_epochs=5, max_epochs=5, min_share=1.0).rungs()
    assert (only.epochs, only.share) == (range(5), 1.0)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"kind": "mutli"}, "multi"),
        ({"min_epochs": 0}, "min_epochs"),
        ({"min_epochs": 11}, "max_epochs"),
        ({"min_share": 0}, "min_share"),
        ({"min_share": 1.5}, "min_share"),
        ({"eta": 1}, "eta"),
        ({"eta": 2.5}, "eta"),
    ],
)
def test_wrong_budgets_are_refused_by_name(given, word):
    with pytest.raises(UsageError, match=word):
        Budgets(**given)
