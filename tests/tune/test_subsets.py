"""Subsets of training data: nested, stratified, and the same for all trials."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.tune import Budgets
from foretell.tune.subsets import stratified_order, subset

labels_of = st.lists(st.integers(0, 5), min_size=1, max_size=120)
shares = st.floats(0.01, 1.0)


def seats(sizes, n):
    """Hand out n seats one by one to the class with the highest quotient, in exact numbers."""
    given = dict.fromkeys(sizes, 0)
    for _ in range(n):
        quotients = {c: Fraction(sizes[c], 2 * given[c] + 1) for c in sizes if given[c] < sizes[c]}
        given[max(quotients, key=quotients.get)] += 1
    return given


@given(labels_of, shares, shares, st.integers(0, 2**32))
def test_smaller_subsets_are_parts_of_larger_ones(labels, one, other, seed):
    small, large = sorted([one, other])
    few, many = subset(labels, small, seed), subset(labels, large, seed)
    assert set(few) <= set(many)
    assert len(set(many)) == len(many)


@given(labels_of, st.integers(0, 1000))
def test_all_of_the_data_is_all_examples_once_and_in_order(labels, seed):
    assert subset(labels, 1.0, seed).tolist() == list(range(len(labels)))


@given(labels_of, shares, st.integers(0, 1000))
def test_classes_have_as_many_examples_as_seats_by_exact_quotients(labels, share, seed):
    chosen = subset(labels, share, seed)
    sizes = {c: labels.count(c) for c in set(labels)}
    found = {c: sum(labels[i] == c for i in chosen) for c in sizes}
    expected = seats(sizes, len(chosen))
    # Where quotients tie, either class may be next.
    for c in sizes:
        assert abs(found[c] - expected[c]) <= 1
        assert abs(found[c] - len(chosen) * sizes[c] / len(labels)) <= 0.5 + len(sizes) / 2
    assert sum(found.values()) == sum(expected.values())


@given(st.integers(1, 40), st.integers(2, 6), st.sampled_from([0.1, 0.2, 0.4, 0.8]))
def test_balanced_classes_stay_balanced(per_class, n_classes, share):
    labels = np.tile(np.arange(n_classes), per_class)
    counts = np.bincount(labels[subset(labels, share, 3)], minlength=n_classes)
    assert counts.max() - counts.min() <= 1


@example(500, 0.010000000000000002)
@given(st.integers(1, 500), shares)
def test_a_subset_has_the_share_of_examples_rounded_up(n, share):
    # A share that is above a whole number by rounding alone counts as that number.
    assert -1e-6 <= len(subset(n, share, 0)) - share * n < 1 + 1e-6


def test_every_trial_and_kind_of_budget_has_the_same_permutation():
    labels = np.random.default_rng(0).integers(0, 10, 300)
    one = [b.subset(labels) for b in Budgets("multi").rungs(seed=4)]
    again = [b.subset(labels) for b in Budgets("multi").rungs(seed=4)]
    data = [b.subset(labels) for b in Budgets("data").rungs(seed=4)]
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(one, data, strict=True))
    for smaller, larger in itertools.pairwise(one):
        assert set(smaller) < set(larger)
    assert not np.array_equal(one[0], Budgets("multi").rungs(seed=5)[0].subset(labels))


def test_examples_without_classes_are_counted():
    assert len(subset(50, 0.1, 0)) == 5
    assert len(subset(np.arange(50) / 7, 0.1, 0)) == 5  # as many classes as examples
    assert sorted(stratified_order(7, 1)) == list(range(7))


def test_tensors_and_texts_are_labels():
    torch = pytest.importorskip("torch")
    texts = ["a", "b"] * 10
    assert np.array_equal(
        subset(torch.tensor([0, 1] * 10), 0.5, 0), subset(np.array(texts), 0.5, 0)
    )


@pytest.mark.parametrize("labels", [[], 0, [[1, 2], [3, 4]]])
def test_labels_that_are_no_labels_are_refused(labels):
    with pytest.raises(UsageError, match="labels"):
        subset(labels, 0.5, 0)
