"""Similarity of profiles, as PipeTune has it."""

import numpy as np

from foretell.decide.tuning.similarity import make_clusters, n_clustered


def profiles(rng, center, n):
    return [
        {"faults": center * rng.lognormal(0, 0.05), "switches": 7 * center * rng.lognormal(0, 0.05)}
        for _ in range(n)
    ]


def test_profiles_of_two_kinds_are_told_apart_and_a_third_is_unknown():
    rng = np.random.default_rng(0)
    small, large = profiles(rng, 100, 20), profiles(rng, 50_000, 20)
    found = make_clusters(small + large)
    assert found.nearest(small[0]) != found.nearest(large[0])
    assert found.known({"faults": 2200.0, "switches": 15_000.0}) is None


def test_about_one_in_twenty_of_the_profiles_themselves_is_beyond_the_limit():
    rng = np.random.default_rng(1)
    all_of_them = profiles(rng, 100, 100) + profiles(rng, 50_000, 100)
    found = make_clusters(all_of_them)
    unknown = sum(found.known(p) is None for p in all_of_them)
    assert 6 <= unknown <= 14


def test_counters_that_repeat_others_or_never_vary_do_not_count():
    rng = np.random.default_rng(2)
    rows = [{"a": a, "twice": 2 * a, "fixed": 5.0, "b": b} for a, b in rng.lognormal(5, 1, (30, 2))]
    assert make_clusters(rows).names == ("a", "b")


def test_no_clusters_from_few_or_equal_profiles():
    assert make_clusters([{"a": 1.0}] * 3) is None
    assert make_clusters([{"a": 1.0}] * 9) is None


def test_clusters_are_made_again_after_ten_profiles_or_if_most_recent_ones_are_unknown():
    assert n_clustered([False] * 3) == 0
    assert n_clustered([False] * 4 + [True] * 9) == 4
    assert n_clustered([False] * 4 + [True] * 10) == 14
    assert n_clustered([False] * 4 + [True] * 25) == 24
