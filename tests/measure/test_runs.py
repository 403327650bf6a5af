"""From a sweep to its runs: values, combinations, samples, filters and order."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.measure import runs
from foretell.measure.runs import count_runs
from foretell.measure.sweep import read_sweep
from foretell.spaces.values import Range


def sweep(**parts):
    names = {**parts.get("parameters", {}), **parts.get("configurations", [{}])[0]}
    words = ["true", *(f"{{{name}}}" for name in names)]
    return read_sweep({"workload": {"use": "command", "run": words}, **parts})


def list_runs(of):
    return runs.list_runs(of, of.make_workload(Path()))


def list_configurations(of):
    return runs.list_configurations(of, of.make_workload(Path()))


@pytest.mark.parametrize(
    ("parts", "values"),
    [
        ({"from": 1, "to": 8, "factor": 2}, [1, 2, 4, 8]),
        ({"from": 1, "to": 9, "factor": 2}, [1, 2, 4, 8]),
        ({"from": 1, "to": 9, "step": 4}, [1, 5, 9]),
        ({"from": 0, "to": 1, "step": 0.1}, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]),
        ({"from": 1, "to": 100, "n": 3, "spacing": "log"}, [1, 10, 100]),
        ({"from": 0, "to": 10, "n": 3}, [0, 5, 10]),
        ({"from": 1, "to": 3, "n": 5, "whole": True}, [1, 2, 3]),
        ({"from": 5, "to": 5, "step": 1}, [5]),
    ],
)
def test_a_range_has_these_values(parts, values):
    assert Range.model_validate(parts).values() == pytest.approx(values)


def test_whole_numbers_stay_whole():
    assert all(
        type(v) is int for v in Range.model_validate({"from": 1, "to": 8, "factor": 2}).values()
    )


@given(st.floats(0.01, 1e6), st.floats(1.05, 10), st.integers(1, 30))
def test_a_geometric_range_grows_by_its_factor_and_ends_within_it(start, factor, n):
    stop = start * factor**n
    values = Range.model_validate({"from": start, "to": stop, "factor": factor}).values()
    assert len(values) in {n, n + 1}  # rounding decides about the last
    for a, b in pairwise(values):
        assert math.isclose(b / a, factor, rel_tol=1e-6)


def test_a_grid_is_every_combination_once():
    found = list_configurations(sweep(parameters={"a": [1, 2], "b": ["x", "y", "z"], "c": 5}))
    assert len(found) == 6
    assert {(c["a"], c["b"], c["c"]) for c in found} == {(a, b, 5) for a in (1, 2) for b in "xyz"}


def test_listed_configurations_are_run_with_what_is_fixed():
    listed = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    found = list_configurations(sweep(parameters={"c": 5}, configurations=listed))
    assert found == [{"c": 5, "a": 1, "b": 2}, {"c": 5, "a": 3, "b": 4}]


def test_filters_and_derived_columns():
    found = list_configurations(
        sweep(
            parameters={"n": [1, 2, 4], "j": [1, 2]},
            derive={"cpus": "n * j"},
            only="cpus <= 4",
            exclude=["n == 1 and j == 1"],
        )
    )
    assert [(c["n"], c["j"], c["cpus"]) for c in found] == [
        (1, 2, 2), (2, 1, 2), (2, 2, 4), (4, 1, 4),
    ]  # fmt: skip


def test_filters_that_leave_nothing_are_told():
    with pytest.raises(UsageError, match="no configuration is left"):
        list_configurations(sweep(parameters={"n": [1, 2]}, only="n > 2"))


def test_each_configuration_is_repeated_and_the_order_is_shuffled_by_the_seed():
    parts = {"parameters": {"n": list(range(50))}, "repeats": 3}
    runs = list_runs(sweep(**parts, seed=1))
    assert Counter(r.configuration["n"] for r in runs) == dict.fromkeys(range(50), 3)
    assert Counter(r.repeat for r in runs) == {1: 50, 2: 50, 3: 50}
    assert [r.index for r in runs] == list(range(150))
    assert runs == list_runs(sweep(**parts, seed=1))
    assert runs != list_runs(sweep(**parts, seed=2))
    assert [r.configuration["n"] for r in runs[:50]] != list(range(50))
    written = list_runs(sweep(**parts, order="written"))
    assert [r.configuration["n"] for r in written[:50]] == list(range(50))


@given(st.integers(0, 1000), st.integers(2, 40))
def test_a_latin_sample_covers_every_stratum_of_every_parameter(seed, n):
    parameters = {
        "x": {"from": 0.0, "to": 1.0, "whole": False},
        "y": {"from": 1, "to": 1000, "spacing": "log", "whole": False},
    }
    found = list_configurations(
        sweep(parameters=parameters, design={"method": "latin", "n": n}, seed=seed)
    )
    assert len(found) == n
    assert sorted(min(int(c["x"] * n), n - 1) for c in found) == list(range(n))
    strata = [min(int(math.log(c["y"]) / math.log(1000) * n), n - 1) for c in found]
    assert sum(abs(a - b) for a, b in zip(sorted(strata), range(n), strict=True)) <= 1  # rounding


@given(st.integers(0, 1000))
def test_a_random_sample_is_from_the_values_and_without_doubles(seed):
    parameters = {"a": [1, 2, 3], "b": {"from": 1, "to": 10}}
    found = list_configurations(
        sweep(parameters=parameters, design={"method": "random", "n": 20}, seed=seed)
    )
    assert len({(c["a"], c["b"]) for c in found}) == len(found) == 20
    assert {c["a"] for c in found} <= {1, 2, 3}
    assert all(type(c["b"]) is int and 1 <= c["b"] <= 10 for c in found)


def test_a_sample_larger_than_the_space_is_the_space():
    found = list_configurations(
        sweep(parameters={"a": [1, 2]}, design={"method": "random", "n": 50})
    )
    assert sorted(c["a"] for c in found) == [1, 2]


def test_a_huge_grid_is_counted_and_not_built():
    parameters = {name: {"from": 1, "to": 1000, "step": 1} for name in "abcd"}
    huge = sweep(parameters=parameters)
    assert count_runs(huge) == 10**12
    with pytest.raises(UsageError, match=r"1,000,000,000,000 combinations; draw some"):
        list_runs(huge)


BAD = [
    ({"parameters": {}}, "has no parameters"),
    ({"parameters": {"a": []}}, "parameters.a: must not be empty"),
    ({"parameters": {"a": [1, 1]}}, "parameters.a: has a value twice"),
    ({"parameters": {"a": {"from": 1, "to": 2}}}, "parameters.a: a range in a grid needs a step"),
    ({"parameters": {"a": {"from": 2, "to": 1, "step": 1}}}, "parameters.a: .*from more to less"),
    ({"parameters": {"a": {"from": 0, "to": 1, "factor": 2}}}, "must start above 0"),
    ({"parameters": {"a": {"from": 1, "to": 9, "step": 1, "n": 3}}}, "both step and n"),
    ({"parameters": {"a": {"from": 1, "to": 9, "stp": 1}}}, "unknown option 'stp'. Did you"),
    ({"parameters": {"a": {"from": 1, "to": 9, "step": 0}}}, "step: must be more than 0, not 0"),
    ({"parameters": {"a": {"from": 1, "to": 1e9, "step": 1e-3}}}, "more than 1,000,000 values"),
    ({"parameters": {"a": [{"b": 1}]}}, "parameters.a: must be a value, a list of values or"),
    ({"parameters": {"a b": 1}}, "'a b' must be a name"),
    ({"parameters": {"wall_time_s": 1}}, "'wall_time_s' is a name that foretell uses"),
    ({"parameters": {"a": 1}, "only": "b > 1"}, "only: 'b > 1'"),
    ({"parameters": {"a": 1}, "exclude": "a >"}, "exclude: 'a >'"),
    ({"parameters": {"a": 1}, "derive": {"a": "1"}}, "'a' is already a parameter"),
    ({"parameters": {"a": math.nan}}, "parameters.a: must be a finite number, not nan"),
    ({"parameters": {"a": [1, math.inf]}}, "parameters.a: must be a finite number, not inf"),
    ({"configurations": [{"a": -math.inf}]}, r"configurations\[0\].a: must be a finite .* -inf"),
    ({"parameters": {"a": 1}, "repeats": 0}, "repeats: must be at least 1, not 0"),
    ({"parameters": {"a": 1}, "repeat": 2}, "unknown option 'repeat'. Did you mean 'repeats'"),
    ({"parameters": {"a": 1}, "design": {"method": "latin"}}, "needs a number of draws"),
    ({"parameters": {"a": 1}, "design": {"method": "sobol"}}, "design.method: must be 'grid'"),
    ({"parameters": {"a": 1}, "design": {"n": 3}}, "design.n: a grid has as many runs"),
    ({"configurations": [{"a": 1}, {"b": 1}]}, r"configurations\[0\]: has no 'b'"),
    ({"parameters": {"a": 1}, "time_limit_s": -1}, "time_limit_s: must be more than 0, not -1"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "words"), BAD, ids=[w for _, w in BAD])
def test_a_faulty_sweep_is_refused_with_its_place(parts, words):
    with pytest.raises(UsageError, match=words):
        list_runs(sweep(**parts))
