"""Searching spaces that are too large to look at as a whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from foretell.decide.plan import plan as planning
from foretell.decide.plan.plan import make_plan

from ..conftest import Law, chosen, problems, z


@settings(max_examples=25, deadline=None)
@given(problems())
def test_a_searched_plan_agrees_with_one_that_looked_at_everything(problem):
    law, asked = problem
    whole = make_plan(law, asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "MOST_CELLS", 0)
        searched = make_plan(law, asked)
    assert searched.is_searched
    assert not whole.is_searched
    assert (searched.chosen is None) == (whole.chosen is None)
    if whole.chosen is not None:
        assert searched.chosen.configuration == whole.chosen.configuration
        assert [o and o.configuration for o in searched.by_certainty.values()] == [
            o and o.configuration for o in whole.by_certainty.values()
        ]


def test_a_continuous_range_is_searched_close_to_its_optimum():
    law = Law(law=lambda f: 3 + (np.log(f["workers"]) - 2) ** 2)
    plan = make_plan(law, {"vary": {"workers": {"from": 0.5, "to": 64.0, "whole": False}}})
    assert plan.is_searched
    assert chosen(plan)["workers"] == pytest.approx(math.exp(2), rel=1e-3)
    assert "The best that a search of" in repr(plan)


def test_a_search_with_a_binding_limit_across_two_columns_comes_close():
    law = Law(
        law=lambda f: 1000 / (f["workers"] * np.sqrt(f["cpus"])),
        ranges={"workers": (1.0, 5000.0), "cpus": (1.0, 5000.0)},
        spread=0.05,
    )
    asked = {
        "vary": {"workers": {"from": 1, "to": 5000}, "cpus": {"from": 1, "to": 5000}},
        "prices": {"price_per_hour": 3600, "nodes": "workers ** 1.5 + cpus"},
        "deadline": 1.0,
    }
    plan = make_plan(law, asked)
    assert plan.is_searched
    workers, cpus = np.meshgrid(np.arange(1, 5001), np.arange(1, 5001))
    time_s = 1000 / (workers * np.sqrt(cpus))
    cost = np.where(time_s * math.exp(0.05 * z(0.9)) <= 1, time_s * (workers**1.5 + cpus), np.inf)
    assert plan.chosen.estimates["cost"].value <= 1.02 * cost.min()


def test_a_search_under_a_rule_that_couples_columns_comes_close():
    names = ["nodes", "cores", "batch", "depth"]
    law = Law(
        law=lambda f: 1e4 / f["nodes"] + 40 * f["cores"] + 5e3 / f["batch"] + f["depth"],
        ranges=dict.fromkeys(names, (1.0, 400.0)),
    )
    asked = {
        "vary": {n: {"from": 1, "to": 400} for n in names},
        "only": ["nodes * cores <= 800", "batch + depth <= 300"],
    }
    plan = make_plan(law, asked)
    assert plan.is_searched
    grid = np.arange(1, 401.0)
    nodes, cores = np.meshgrid(grid, grid)
    one = np.where(nodes * cores <= 800, 1e4 / nodes + 40 * cores, np.inf).min()
    other = np.where(nodes + cores <= 300, 5e3 / nodes + cores, np.inf).min()
    assert plan.chosen.estimates["time"].value <= 1.02 * (one + other)


def test_runners_up_of_a_continuous_range_read_differently():
    law = Law(law=lambda f: 3 + (np.log(f["workers"]) - 2) ** 2)
    plan = make_plan(law, {"vary": {"workers": {"from": 0.5, "to": 64.0, "whole": False}}})
    told = [f"{o.configuration['workers']:.6g}" for o in (plan.chosen, *plan.runners_up)]
    assert len(set(told)) == len(told)


@pytest.mark.parametrize("ends", ["1..1000000000000", "1..9000000000000000", "1..1000001"])
def test_a_range_far_longer_than_the_data_is_searched_near_the_data(law, ends):
    plan = make_plan(law, {"vary": {"workers": ends}})
    assert plan.is_searched
    assert chosen(plan) == {"workers": 128}  # the best that is near: twice the largest measured
    assert [o.configuration["workers"] for o in plan.runners_up] == [127, 126]
    assert plan.far.configuration["workers"] > 128


def test_several_very_long_ranges_are_searched_together():
    names = ["workers", "cpus", "size"]
    law = Law(
        law=lambda f: 1000 / f["workers"] + 500 / f["cpus"] + f["size"],
        ranges=dict.fromkeys(names, (1.0, 64.0)),
    )
    plan = make_plan(law, {"vary": dict.fromkeys(names, "1..1000000")})
    assert chosen(plan) == {"workers": 128, "cpus": 128, "size": 1}


def test_where_nothing_searched_is_near_the_data_there_is_no_plan_and_no_crash(law):
    plan = make_plan(law, {"vary": {"workers": "1000000..9000000000"}})
    assert plan.chosen is None
    assert plan.far is not None
    allowed = make_plan(law, {"vary": {"workers": "1000000..9000000000"}, "allow_far": True})
    assert allowed.chosen.estimates["time"].value == pytest.approx(10, rel=1e-3)


def test_a_range_that_limits_cut_short_is_looked_at_as_a_whole(law):
    plan = make_plan(law, {"vary": {"workers": "1..1000000000000"}, "most": {"workers": 48.5}})
    assert not plan.is_searched
    assert plan.n_seen == 48
    assert chosen(plan) == {"workers": 48}
