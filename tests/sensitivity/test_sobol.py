"""Shares of variance of functions: theory, SALib, and exact grids are the oracles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from SALib.analyze import sobol as salib_sobol
from SALib.sample import sobol as salib_sample

from foretell.sensitivity.shares import VarianceShares, pooled
from foretell.sensitivity.sobol import shares_on_levels, sobol_of

NAMES = ["x1", "x2", "x3"]


def ishigami(x):
    z = np.pi * (2 * x - 1)
    return np.sin(z[:, 0]) + 7 * np.sin(z[:, 1]) ** 2 + 0.1 * z[:, 2] ** 4 * np.sin(z[:, 0])


G = np.array([0.0, 1.0, 4.5, 9.0, 99.0, 99.0])


def g_function(x):
    return np.prod((np.abs(4 * x - 2) + G) / (1 + G), axis=1)


def test_ishigami_is_as_in_theory():
    found = sobol_of(ishigami, NAMES)
    assert list(found.first.values()) == pytest.approx([0.3139, 0.4424, 0.0], abs=0.02)
    assert list(found.total.values()) == pytest.approx([0.5576, 0.4424, 0.2437], abs=0.02)
    assert found.pairs["x1", "x3"] == pytest.approx(0.2437, abs=0.02)
    assert found.pairs["x1", "x2"] == pytest.approx(0, abs=0.02)


def test_g_function_is_as_in_theory():
    found = sobol_of(g_function, [f"x{i}" for i in range(len(G))])
    own = 1 / 3 / (1 + G) ** 2
    whole = np.prod(1 + own) - 1
    total = own * np.prod(1 + own) / (1 + own) / whole
    assert list(found.first.values()) == pytest.approx(own / whole, abs=0.02)
    assert list(found.total.values()) == pytest.approx(total, abs=0.02)


def test_shares_are_those_of_salib():
    problem = {"num_vars": 3, "names": NAMES, "bounds": [[0, 1]] * 3}
    x = salib_sample.sample(problem, 4096, calc_second_order=True, seed=1)
    other = salib_sobol.analyze(problem, ishigami(x), calc_second_order=True, seed=1)
    found = sobol_of(ishigami, NAMES)
    assert list(found.first.values()) == pytest.approx(other["S1"], abs=0.02)
    assert list(found.total.values()) == pytest.approx(other["ST"], abs=0.02)
    assert found.pairs["x1", "x3"] == pytest.approx(other["S2"][0, 2], abs=0.02)


def test_sampling_agrees_with_all_combinations():
    levels = {"a": [1, 2, 3, 5], "b": [0.5, 1, 4], "c": ["x", "y", "z"]}
    scale = {"x": 1.0, "y": 2.0, "z": 5.0}

    def f(x):
        return np.log(x["a"] * x["b"] + np.array([scale[c] for c in x["c"]]))

    exact = shares_on_levels(f, levels)
    sampled = sobol_of(
        lambda u: f({
            name: np.asarray(values)[(u[:, i] * len(values)).astype(int)]
            for i, (name, values) in enumerate(levels.items())
        }),
        list(levels),
    )  # fmt: skip
    assert exact.method == "grid"
    for name in levels:
        assert sampled.first[name] == pytest.approx(exact.first[name], abs=0.01)
        assert sampled.total[name] == pytest.approx(exact.total[name], abs=0.01)


def test_many_combinations_are_sampled():
    levels = {f"x{i}": list(range(20)) for i in range(5)}
    found = shares_on_levels(lambda x: x["x0"] + 2.0 * x["x1"], levels)
    assert found.method == "sobol"
    assert found.by_input() == pytest.approx({"x1": 0.8, "x0": 0.2}, abs=0.01)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=5), st.floats(0.01, 100))
@settings(max_examples=20)
def test_additive_functions_have_no_interactions_in_any_unit(slopes, unit):
    names = [f"x{i}" for i in range(len(slopes))]
    found = sobol_of(lambda x: unit * (x @ np.array(slopes)), names, n_points=1024)
    assert max(found.pairs.values(), default=0) < 0.02
    share = np.array(slopes) ** 2 / np.sum(np.array(slopes) ** 2)
    assert list(found.first.values()) == pytest.approx(share, abs=0.02)


def test_a_constant_function_has_no_shares():
    found = sobol_of(lambda x: np.full(len(x), 3.0), NAMES)
    assert found.by_input() == {}
    assert found.variance == 0


def test_equal_seeds_give_equal_shares():
    assert sobol_of(ishigami, NAMES, seed=4) == sobol_of(ishigami, NAMES, seed=4)


def test_inputs_without_effect_lose_their_share_and_the_rest_sum_to_one():
    found = VarianceShares({"a": 0.6, "b": 0.01}, {"a": 0.99, "b": 0.4}, {("a", "b"): 0.39})
    assert found.by_input(without=["b"]) == {"a": 1.0}
    assert found.without(["b"]).by_input() == {"a": 1.0}
    assert sum(found.by_input().values()) == pytest.approx(1)


def test_groups_are_pooled_by_their_variance():
    one = VarianceShares({"a": 1.0}, {"a": 1.0}, {}, 0.0, None, "anova", 3.0, 10)
    two = VarianceShares({"b": 1.0}, {"b": 1.0}, {}, 0.0, None, "anova", 1.0, 10)
    found = pooled([one, two])
    assert found.first == {"a": 0.75, "b": 0.25}
    assert found.n_samples == 20
