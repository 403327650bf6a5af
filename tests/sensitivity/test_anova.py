"""Analysis of variance on full grids: exact, and no share for what chance explains."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.sensitivity.anova import RepeatNoise, anova_of_runs, is_full_grid


def grid(sizes, n_repeats=1):
    cells = list(itertools.product(*(range(size) for size in sizes)))
    return np.repeat(np.array(cells), n_repeats, axis=0)


def named(codes):
    return [f"x{i}" for i in range(codes.shape[1])]


def everything(found):
    return (
        sum(found.first.values()) + sum(found.pairs.values()) + found.higher + (found.noise or 0.0)
    )


def sums_by_regression(codes, y):
    """Return the sum of squares of each input and pair by dummy regression: no code of ours."""

    def dummies(columns):
        keys = np.unique(codes[:, columns], axis=0, return_inverse=True)[1].reshape(-1)
        return np.eye(keys.max() + 1)[keys]

    def left(*groups):
        x = np.hstack([np.ones((len(y), 1)), *(dummies(list(g)) for g in groups)])
        return float(((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2).sum())

    k = codes.shape[1]
    found = {(i,): left() - left((i,)) for i in range(k)}
    for i, j in itertools.combinations(range(k), 2):
        found[i, j] = left((i,), (j,)) - left((i, j))
    return found, left()


sizes = st.lists(st.integers(2, 4), min_size=2, max_size=4)


@given(sizes, st.integers(1, 3), st.integers(0, 2**32))
@settings(max_examples=40)
def test_shares_sum_to_one_on_balanced_grids(sizes, n_repeats, seed):
    codes = grid(sizes, n_repeats)
    y = np.random.default_rng(seed).normal(size=len(codes))
    found = anova_of_runs(named(codes), codes, y)
    assert everything(found) == pytest.approx(1)
    assert all(0 <= share <= found.total[name] + 1e-9 for name, share in found.first.items())


@given(sizes, st.integers(0, 2**32))
@settings(max_examples=25)
def test_shares_without_repeats_are_those_of_dummy_regressions(sizes, seed):
    codes = grid(sizes)
    y = np.random.default_rng(seed).normal(size=len(codes))
    found = anova_of_runs(named(codes), codes, y)
    sums, whole = sums_by_regression(codes, y)
    for i in range(len(sizes)):
        assert found.first[f"x{i}"] == pytest.approx(sums[i,] / whole, abs=1e-9)
    for i, j in itertools.combinations(range(len(sizes)), 2):
        assert found.pairs[f"x{i}", f"x{j}"] == pytest.approx(sums[i, j] / whole, abs=1e-9)


@given(sizes, st.integers(0, 2**32), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
@settings(max_examples=25)
def test_additive_results_have_no_interactions_whatever_their_unit(sizes, seed, unit, zero):
    codes = grid(sizes)
    effects = [np.random.default_rng(seed + i).normal(size=size) for i, size in enumerate(sizes)]
    y = sum(effect[codes[:, i]] for i, effect in enumerate(effects))
    found = anova_of_runs(named(codes), codes, zero + unit * y)
    assert max(found.pairs.values()) < 1e-6
    assert found.higher < 1e-6
    assert sum(found.first.values()) == pytest.approx(1)


@given(sizes, st.integers(0, 2**32), st.randoms())
@settings(max_examples=25)
def test_names_order_and_levels_do_not_matter(sizes, seed, random):
    codes = grid(sizes, 2)
    y = codes.sum(axis=1) + np.random.default_rng(seed).normal(size=len(codes))
    found = anova_of_runs(named(codes), codes, y)
    order = list(range(len(sizes)))
    random.shuffle(order)
    rows = np.random.default_rng(seed).permutation(len(y))
    other = anova_of_runs([f"x{i}" for i in order], 7 - 2 * codes[rows][:, order], y[rows])
    for name, share in found.first.items():
        assert other.first[name] == pytest.approx(share, abs=1e-9)
        assert other.total[name] == pytest.approx(found.total[name], abs=1e-9)


def test_total_share_is_what_is_lost_without_the_input():
    codes = grid([3, 2, 4])
    y = np.random.default_rng(3).normal(size=len(codes))
    found = anova_of_runs(named(codes), codes, y)
    cells = y.reshape(3, 2, 4)
    for axis, name in enumerate(found.total):
        lost = ((cells - cells.mean(axis=axis, keepdims=True)) ** 2).mean() / cells.var()
        assert found.total[name] == pytest.approx(lost)


def test_an_input_without_effect_gets_a_share_in_few_noisy_tables_only():
    codes, hits = grid([3, 3, 3], 3), 0
    for seed in range(200):
        y = codes[:, 0] + np.random.default_rng(seed).normal(0, 0.5, len(codes))
        found = anova_of_runs(named(codes), codes, y)
        hits += found.first["x2"] > 0
    assert hits <= 20  # 5 % are expected


def test_noise_is_the_pooled_variance_of_repeats():
    codes = grid([4, 5], 6)
    y = codes[:, 0] + np.random.default_rng(0).normal(0, 0.3, len(codes))
    found = anova_of_runs(named(codes), codes, y)
    within = np.mean([y[i : i + 6].var(ddof=1) for i in range(0, len(y), 6)])
    assert found.noise * found.variance == pytest.approx(within)


def test_tables_with_holes_are_no_full_grid():
    codes = grid([3, 3], 2)
    assert is_full_grid(codes)
    assert is_full_grid(codes[1:])  # a lost repeat leaves all cells
    assert not is_full_grid(codes[2:])
    assert anova_of_runs(["a", "b"], codes[2:], np.arange(16.0)) is None


def test_constant_results_have_no_shares_and_no_repeats_no_noise():
    codes = grid([2, 2])
    found = anova_of_runs(["a", "b"], codes, np.ones(4))
    assert sum(found.first.values()) == 0
    assert found.by_input() == {}
    assert RepeatNoise.of(np.arange(4), np.arange(4.0)) is None
