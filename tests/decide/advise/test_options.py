"""Options of advice."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.decide.advise.options import AdviceOptions, Budget, options_of
from foretell.errors import Option, UsageError

KINDS = ["time", "cost", "energy"]


@pytest.mark.parametrize(
    ("written", "kind", "most"),
    [("30m", "time", 1800), ("1.5kWh", "energy", 5.4e6), ("20", "cost", 20), (3, "cost", 3),
     ("$7", "cost", 7), (None, "time", math.inf)],
)  # fmt: skip
def test_the_unit_of_a_budget_says_what_it_bounds(written, kind, most):
    assert Budget.of(written, KINDS) == Budget(kind, most)


@given(st.floats(0.001, 1e6))
def test_a_budget_that_was_read_stays_as_it_is(most):
    budget = Budget("energy", most)
    assert Budget.of(budget, ["time"]) is budget


@pytest.mark.parametrize("written", ["20", "5kJ", "1x", "-3m", ""])
def test_a_budget_that_cannot_be_used_names_its_option(written):
    with pytest.raises(UsageError) as caught:
        Budget.of(written, ["time"])
    assert caught.value.option == Option("budget", written)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_runs", 0), ("least_chance", 0.0), ("least_chance", 1.0), ("precision", 0.0)],
)
def test_numbers_out_of_bounds_name_their_option(name, value):
    with pytest.raises(UsageError) as caught:
        AdviceOptions(**{name: value})
    assert caught.value.option == Option(name)


def test_the_sweep_gives_limits_and_rules():
    sweep = {"time_limit_s": 5, "warm_up": 2, "only": "n > 1", "exclude": ["n == 3"]}
    options = AdviceOptions(sweep=sweep)
    assert (options.time_limit_s, options.n_passes) == (5.0, 3)
    assert [n for n in range(5) if options.rules.allows({"n": n})] == [2, 4]
    bare = AdviceOptions()
    assert (bare.time_limit_s, bare.n_passes) == (math.inf, 1)
    assert bare.rules.allows({"n": 3})


def test_a_dict_of_options_is_checked():
    assert options_of(AdviceOptions, {"n_runs": 3}) == AdviceOptions(n_runs=3)
    assert options_of(AdviceOptions, None) == AdviceOptions()
    with pytest.raises(UsageError, match="Did you mean 'n_runs'"):
        options_of(AdviceOptions, {"nruns": 3})
