"""Totals from kept partitions: which are kept, unbiased estimates, and what bounds cover."""

import math
import os
import subprocess
import sys
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foretell import Estimate, UsageError, estimate_count, estimate_sum, kept_partitions

shares = st.floats(0, 0.95)
partitions = st.integers(1, 60)
totals = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=7)


@given(n=partitions, drop=shares, seed=st.integers(0, 2**40))
def test_as_many_are_kept_as_the_share_leaves_and_at_least_one(n, drop, seed):
    kept = kept_partitions(n, drop, seed)
    assert kept == sorted(set(kept))
    assert set(kept) <= set(range(n))
    exact = n * (1 - drop)
    assert len(kept) == max(1, round(exact) if abs(exact - round(exact)) < 1e-9 else
                            math.ceil(exact))  # fmt: skip


@pytest.mark.parametrize(
    ("n", "drop", "expected"), [(50, 0.1, 45), (50, 0.2, 40), (5, 0.2, 4), (5, 0.1, 5), (1, 0.9, 1)]
)
def test_shares_of_the_thesis_leave_whole_numbers(n, drop, expected):
    assert len(kept_partitions(n, drop)) == expected


@given(n=partitions, drops=st.lists(shares, min_size=2, max_size=4), seed=st.integers(0, 99))
def test_dropping_more_keeps_a_subset(n, drops, seed):
    sets = [set(kept_partitions(n, drop, seed)) for drop in sorted(drops)]
    assert all(more <= less for less, more in pairwise(sets))


def test_every_partition_is_dropped_equally_often():
    n, drop, n_jobs = 5, 0.4, 4_000
    counts = np.zeros((2, n))
    for seed in range(n_jobs):
        for stage in (0, 1):
            counts[stage, kept_partitions(n, drop, seed, stage=stage)] += 1
    assert stats.chisquare(counts.ravel()).pvalue > 1e-3


def test_stages_of_a_job_drop_independently():
    pairs = [
        (kept_partitions(4, 0.75, seed)[0], kept_partitions(4, 0.75, seed, stage=1)[0])
        for seed in range(2_000)
    ]
    table = np.zeros((4, 4))
    np.add.at(table, tuple(np.transpose(pairs)), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_dispatcher_says_what_is_dropped_and_another_process_chooses_the_same():
    code = "import foretell; print(foretell.kept_partitions(40))"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "FORETELL_DROP": "0.35", "FORETELL_SEED": "7"},
    )  # fmt: skip
    assert shown.stdout.strip() == str(kept_partitions(40, 0.35, 7))


@pytest.mark.parametrize("drop", [-0.1, 0.96, 1, float("nan")])
def test_share_that_cannot_be_dropped_is_refused(drop):
    with pytest.raises(UsageError, match=r"0 to 0.95"):
        kept_partitions(5, drop)


@pytest.mark.parametrize(("name", "value"), [("FORETELL_DROP", "much"), ("FORETELL_SEED", "1.5")])
def test_environment_that_is_no_number_is_refused(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=value):
        kept_partitions(5)


@given(values=totals, data=st.data())
def test_mean_over_all_subsets_is_the_total(values, data):
    n, m = len(values), data.draw(st.integers(1, len(values)))
    found = [estimate_sum(subset, n).value for subset in combinations(values, m)]
    assert np.mean(found) == pytest.approx(math.fsum(values), abs=1e-6 * (1 + np.abs(values).max()))


@given(values=totals, data=st.data())
def test_squared_bounds_are_right_on_average(values, data):
    """Over all subsets, the estimated variance has the variance of the estimate as its mean."""
    n, m = len(values), data.draw(st.integers(2, len(values)))
    found = [estimate_sum(subset, n) for subset in combinations(values, m)]
    variance = np.var([e.value for e in found])
    estimated = np.mean([(e.bound / stats.t.ppf(0.975, m - 1)) ** 2 for e in found])
    assert estimated == pytest.approx(variance, rel=1e-6, abs=1e-6 * (1 + np.square(values).max()))


@pytest.mark.parametrize(("n", "drop"), [(5, 0.2), (10, 0.5), (50, 0.2), (200, 0.9)])
def test_bounds_cover_95_percent_of_totals_of_counts(n, drop):
    random = np.random.default_rng(14)
    n_covered = n_trials = 0
    for seed in range(150):
        rates = random.gamma(5, 40, size=(40, 1))
        counts = random.poisson(rates, size=(40, n))
        kept = kept_partitions(n, drop, seed)
        estimates = estimate_count([dict(enumerate(c)) for c in counts[:, kept].T], n)
        for word, true in enumerate(counts.sum(axis=1)):
            n_covered += estimates[word].low <= true <= estimates[word].high
            n_trials += 1
    assert n_covered / n_trials == pytest.approx(0.95, abs=0.01)


def test_nothing_dropped_is_exact():
    found = estimate_sum([3.0, 4.5], n=2)
    assert (found.value, found.bound, found.low, found.high) == (7.5, 0, 7.5, 7.5)
    assert "exact" in str(found)


def test_one_kept_partition_has_no_bound_and_says_so():
    found = estimate_count([12], n=4)
    assert (found.value, found.bound, found.low) == (48, None, None)
    assert "no bound" in str(found)
    assert found.to_json()["bound"] is None


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 99)), min_size=2))
def test_totals_by_key_are_those_of_each_key_alone(counted):
    n = len(counted) + 3
    found = estimate_count(counted, n)
    assert set(found) == {key for one in counted for key in one}
    for key, estimate in found.items():
        alone = estimate_count([one.get(key, 0) for one in counted], n)
        assert estimate == alone
        listed = estimate_count([one[key] for one in counted if key in one], n, kept=len(counted))
        assert listed.value == pytest.approx(alone.value)
        assert listed.bound == pytest.approx(alone.bound, abs=1e-9)


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=9))
def test_count_is_never_said_to_be_less_than_was_seen(counts):
    found = estimate_count(counts, n=len(counts) + 4)
    assert sum(counts) <= found.low <= found.value <= found.high


@pytest.mark.parametrize(
    ("values", "n", "kept", "match"),
    [
        ([1, 2, 3], 2, None, "3 of 2"),
        ([], 5, None, "0 of 5"),
        ([1, 2, 3], 5, 2, "3 values for 2"),
        ([1, float("inf")], 5, None, "finite"),
        ([1, -1], 5, None, "negative"),
        ([("app", 1), ("b", 2)], 5, None, "a number or a dict for each kept partition"),
        (["app"], 5, None, "a number or a dict for each kept partition"),
    ],
)
def test_values_that_make_no_sense_are_refused(values, n, kept, match):
    with pytest.raises(UsageError, match=match):
        estimate_count(values, n, kept=kept)


def test_no_partition_with_a_key_gives_no_keys_where_it_is_said_that_there_are_keys():
    assert estimate_sum([], 4, kept=2, by_key=True) == {}
    assert estimate_count([], 4, kept=2, by_key=True) == {}
    assert estimate_sum([], 4, kept=2).value == 0
    with pytest.raises(UsageError, match="by_key"):
        estimate_sum([3.0], 4, by_key=True)


def test_estimates_are_public_for_type_hints():
    assert isinstance(estimate_sum([1.0], 1), Estimate)
