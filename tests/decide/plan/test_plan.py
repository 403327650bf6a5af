"""Plans: the right configuration, its reasons, and what happens when there is none."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foretell
from foretell.decide.plan import plan as planning
from foretell.decide.plan.plan import make_plan
from foretell.decide.question import space as spaces
from foretell.errors import UsageError
from foretell.predictor import Quantiles

from ..conftest import Law

PRICES = {"price_per_hour": 3.6, "nodes": "workers"}  # a thousandth per node and second
WORKERS = {"workers": {"from": 1, "to": 64}}


def z(p):
    return NormalDist().inv_cdf(p)


def chosen(plan):
    assert plan.chosen is not None
    return plan.chosen.configuration


def test_without_limits_the_fastest_configuration_is_chosen(law):
    plan = make_plan(law, {"vary": WORKERS})
    assert plan.minimize == "time"
    assert chosen(plan) == {"workers": 64}
    assert plan.chosen.estimates["time"].value == pytest.approx(10 + 1000 / 64)


def test_with_prices_the_cheapest_that_meets_the_deadline_is_chosen(law):
    plan = make_plan(law, {"vary": WORKERS, "prices": PRICES, "deadline": "60s"})
    # Cost grows with the workers, so it is the fewest whose 90 % quantile is below a minute.
    fewest = next(w for w in range(1, 65) if (10 + 1000 / w) * math.exp(0.1 * z(0.9)) <= 60)
    assert plan.minimize == "cost"
    assert chosen(plan) == {"workers": fewest}
    assert plan.binding == ["deadline"]
    assert plan.chosen.estimates["cost"].value == pytest.approx(1e-3 * (10 * fewest + 1000))


def test_the_margin_to_a_limit_is_what_is_left_at_the_confidence_asked_for(law):
    plan = make_plan(law, {"vary": WORKERS, "prices": PRICES, "deadline": "60s"})
    time_s = plan.chosen.estimates["time"].value
    assert plan.chosen.margins["deadline"] == pytest.approx(
        1 - time_s * math.exp(0.1 * z(0.9)) / 60
    )
    certainty = NormalDist().cdf(math.log(60 / time_s) / 0.1)
    assert plan.chosen.certainties["deadline"] == pytest.approx(certainty, abs=0.011)


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_a_plan_keeps_its_deadline_with_the_confidence_asked_for(law, confidence):
    plan = make_plan(
        law, {"vary": WORKERS, "prices": PRICES, "deadline": 60, "confidence": confidence}
    )
    median = plan.chosen.estimates["time"].value
    assert median * math.exp(0.1 * z(confidence)) <= 60
    one_less = chosen(plan)["workers"] - 1
    assert (10 + 1000 / one_less) * math.exp(0.1 * z(confidence)) > 60


def test_more_certainty_never_costs_less_and_each_level_is_shown(law):
    plan = make_plan(law, {"vary": WORKERS, "prices": PRICES, "deadline": 60})
    costs = [o.estimates["cost"].value for o in plan.by_certainty.values()]
    assert list(plan.by_certainty) == [0.5, 0.8, 0.9, 0.95]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]
    assert "50 %" in repr(plan)


def test_runners_up_are_the_next_best_that_keep_the_limits(law):
    plan = make_plan(law, {"vary": WORKERS, "prices": PRICES, "deadline": 60})
    fewest = chosen(plan)["workers"]
    assert [o.configuration["workers"] for o in plan.runners_up] == [fewest + 1, fewest + 2]
    assert "more" in repr(plan)


def test_where_nothing_else_keeps_the_limits_the_runner_up_is_cheaper_and_less_sure(law):
    asked = {"vary": {"workers": [20, 21]}, "prices": PRICES, "deadline": 65}
    plan = make_plan(law, asked)  # 60 s or 57.6 s: below 65 s with 79 % or 88 %
    assert plan.chosen is None
    plan = make_plan(law, {**asked, "confidence": 0.85})
    assert chosen(plan) == {"workers": 21}
    (other,) = plan.runners_up
    assert other.configuration == {"workers": 20}
    assert 0.77 <= other.certainty <= 0.8
    assert "less, but its chance is 78 %" in repr(plan)


def test_of_configurations_that_cost_the_same_the_faster_wins():
    law = Law(law=lambda f: 1000 / f["workers"])
    plan = make_plan(law, {"vary": {"workers": [1, 2, 4]}, "prices": PRICES})
    assert chosen(plan) == {"workers": 4}


@pytest.mark.parametrize(
    ("request_", "column", "expected"),
    [
        ({"most": {"workers": 12}}, "workers", 12),
        ({"only": ["workers % 7 == 0"]}, "workers", 63),
        ({"only": ["workers <= 3"], "least": {"workers": 2}}, "workers", 3),
        ({"vary": {"workers": {"from": 1, "to": 64, "factor": 3}}}, "workers", 27),
    ],
)
def test_a_space_is_narrowed_by_limits_on_columns_and_expressions(law, request_, column, expected):
    assert chosen(make_plan(law, {"vary": WORKERS, **request_}))[column] == expected


def test_prices_by_type_of_machine_and_fixed_costs_are_added_up():
    law = Law(
        law=lambda f: np.where(f["machine"] == "c4", 80.0, 100.0) * 10 / f["workers"],
        categories={"machine": ("m4", "c4")},
    )
    prices = {
        "nodes": "2 * workers",
        "by": "machine",
        "machines": {"m4": {"price_per_hour": 1.0}, "c4": {"price_per_hour": 1.5}},
        "start_up_s": 20,
        "start_up_cost": 0.25,
    }
    plan = make_plan(
        law, {"vary": {"machine": ["m4", "c4"]}, "fix": {"workers": 5}, "prices": prices}
    )
    assert chosen(plan)["machine"] == "m4"  # 1.5 × 80 is more than 100
    estimate = plan.chosen.estimates
    assert estimate["time"].value == pytest.approx(200 + 20)
    assert estimate["cost"].value == pytest.approx(10 * 1.0 * 220 / 3600 + 0.25)
    faster = make_plan(
        law,
        {"vary": {"machine": ["m4", "c4"]}, "fix": {"workers": 5}, "prices": prices,
         "minimize": "time"},
    )  # fmt: skip
    assert chosen(faster)["machine"] == "c4"


def test_energy_and_carbon_follow_from_power_where_no_model_tells_them(law):
    prices = {"nodes": "workers", "power_w": 100, "carbon_g_per_kwh": 360}
    plan = make_plan(law, {"vary": {"workers": [10]}, "prices": prices, "minimize": "carbon"})
    joules = 10 * 100 * 110
    assert plan.chosen.estimates["energy"].value == pytest.approx(joules)
    assert plan.chosen.estimates["carbon"].value == pytest.approx(joules / 3.6e6 * 360)
    assert "energy is estimated from power_w" in repr(plan)


def test_a_model_of_energy_is_used_instead_of_power(law):
    energy = Law(target="energy_kj", law=lambda f: 2.0 * f["workers"])
    prices = {"power_w": 100}
    plan = make_plan(
        [law, energy], {"vary": WORKERS, "prices": prices, "minimize": "energy", "deadline": 200}
    )
    assert plan.chosen.estimates["energy"].value == pytest.approx(
        2000 * plan.chosen.configuration["workers"]
    )
    assert (10 + 1000 / chosen(plan)["workers"]) * math.exp(0.1 * z(0.9)) <= 200
    assert "estimated" not in repr(plan)


def test_a_power_cap_in_the_prices_bounds_the_nodes(law):
    prices = {"power_w": 100, "max_power_w": 1250, "nodes": "workers"}
    assert chosen(make_plan(law, {"vary": WORKERS, "prices": prices}))["workers"] == 12


def test_a_memory_limit_bounds_the_choice(law):
    memory = Law(target="peak_memory_bytes", law=lambda f: f["workers"] * 2.0**30, spread=1e-9)
    plan = make_plan([law, memory], {"vary": WORKERS, "max_memory": "10.5GiB"})
    assert chosen(plan)["workers"] == 10


def test_units_of_a_target_come_from_its_name():
    law = Law(target="runtime_ms", law=lambda f: 60_000 / f["workers"])
    plan = make_plan(law, {"vary": {"workers": [2]}, "deadline": "1m"})
    assert plan.chosen.estimates["time"].value == pytest.approx(30.0)


def test_candidates_of_a_table_bring_their_own_prices(law, tmp_path):
    table = pd.DataFrame({
        "workers": [4, 8, 16], "price_per_hour": [1.0, 0.4, 1.0], "name": ["a", "b", "c"],
    })  # fmt: skip
    path = tmp_path / "candidates.csv"
    table.to_csv(path, index=False)
    plan = make_plan(law, {}, path)
    assert chosen(plan)["name"] == "b"
    assert plan.chosen.estimates["cost"].value == pytest.approx(8 * 0.4 * 135 / 3600)


def test_when_nothing_keeps_the_limits_the_closest_and_the_binding_one_are_told(law):
    plan = make_plan(law, {"vary": WORKERS, "deadline": 20, "prices": PRICES, "budget": 100})
    assert plan.chosen is None
    assert plan.binding == ["deadline"]
    assert plan.closest.configuration == {"workers": 64}
    over = (10 + 1000 / 64) * math.exp(0.1 * z(0.9)) / 20 - 1
    assert plan.closest.margins["deadline"] == pytest.approx(-over)
    text = repr(plan)
    assert "No configuration keeps the limits" in text
    assert "deadline binds" in text
    assert "workers=64" in text


def test_limits_that_contradict_one_another_are_both_told(law):
    plan = make_plan(law, {"vary": WORKERS, "deadline": 50, "prices": PRICES, "budget": 1.25})
    assert plan.chosen is None
    assert set(plan.binding) == {"deadline", "budget"}


def test_configurations_far_outside_the_data_are_left_out_unless_allowed(law):
    asked = {"vary": {"workers": [64, 100, 500]}}
    plan = make_plan(law, asked)
    assert chosen(plan) == {"workers": 100}  # near: within twice the range
    assert plan.far.configuration == {"workers": 500}
    assert "allow_far" in repr(plan)
    allowed = make_plan(law, {**asked, "allow_far": True})
    assert chosen(allowed) == {"workers": 500}
    assert repr(allowed).startswith("Far outside the data")


def test_when_only_far_configurations_keep_the_limits_none_is_chosen(law):
    plan = make_plan(law, {"vary": {"workers": [1, 500]}, "deadline": 20})
    assert plan.chosen is None
    assert plan.far.configuration == {"workers": 500}
    assert "allow_far" in repr(plan)


def test_the_front_is_beaten_by_nothing_and_says_who_keeps_the_limits(law):
    plan = make_plan(law, {"vary": WORKERS, "prices": PRICES, "deadline": 60})
    assert len(plan.front) == 64  # each worker more is faster and dearer
    fewest = chosen(plan)["workers"]
    assert plan.front.set_index("workers")["keeps_limits"].to_dict() == {
        w: w >= fewest for w in range(1, 65)
    }


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_a_plan_does_not_depend_on_how_many_configurations_are_looked_at_at_once(
    law, block, monkeypatch
):
    asked = {"vary": WORKERS, "prices": PRICES, "deadline": 60, "budget": 20}
    whole = make_plan(law, asked).to_json()
    monkeypatch.setattr(spaces, "BLOCK", block)
    assert make_plan(law, asked).to_json() == whole


points = st.lists(st.tuples(*[st.integers(0, 6).map(float)] * 3), min_size=1, max_size=40)


@given(points)
def test_a_front_keeps_one_of_each_that_nothing_beats_and_drops_the_rest(points):
    from foretell.decide.plan.choose import pareto

    points = np.array(points)
    kept = pareto(points)
    front = points[kept]
    assert len(np.unique(front, axis=0)) == len(front)
    for point in points:
        assert (front <= point).all(axis=1).any()
    for a, b in itertools.permutations(front, 2):
        assert not (a <= b).all()


@st.composite
def problems(draw):
    """A random law over three columns, with prices and limits."""
    scale, share, spread = (draw(st.floats(0.1, 10)) for _ in range(3))
    law = Law(
        law=lambda f: (
            scale * (5 + 100 / f["workers"] + share * f["workers"] + f["size"] / f["cpus"])
        ),
        spread=min(spread / 20, 0.4),
        ranges={"workers": (1.0, 40.0), "cpus": (1.0, 8.0), "size": (1.0, 9.0)},
    )  # fmt: skip
    asked = {
        "vary": {"workers": {"from": 1, "to": draw(st.integers(2, 40))}, "cpus": [1, 2, 4, 8],
                 "size": [3, 9]},
        "prices": {"price_per_hour": "1 + cpus / 2", "nodes": "workers", "power_w": 10},
        "minimize": draw(st.sampled_from(["time", "cost", "energy"])),
        "deadline": scale * draw(st.floats(10, 200)),
        "confidence": draw(st.sampled_from([0.5, 0.75, 0.9])),
    }  # fmt: skip
    if draw(st.booleans()):
        asked["budget"] = scale * draw(st.floats(0.05, 1))
    return law, asked


def brute_force(law, asked):
    """Return the least objective of all configurations that keep the limits; None if none does."""
    rows = itertools.product(range(1, asked["vary"]["workers"]["to"] + 1), (1, 2, 4, 8), (3, 9))
    best = None
    for workers, cpus, size in rows:
        one = pd.DataFrame({"workers": [workers], "cpus": [cpus], "size": [size]})
        time_s = float(law.predict(one)[0])
        risky_s = time_s * math.exp(law.spread * z(asked["confidence"]))
        rate = workers * (1 + cpus / 2) / 3600
        if risky_s > asked["deadline"] or rate * risky_s > asked.get("budget", math.inf):
            continue
        value = {"time": time_s, "cost": rate * time_s, "energy": 10 * workers * time_s}
        best = min(value[asked["minimize"]], best or math.inf)
    return best


@settings(max_examples=60, deadline=None)
@given(problems())
def test_the_chosen_configuration_is_the_best_of_all_that_keep_the_limits(problem):
    law, asked = problem
    plan = make_plan(law, asked)
    best = brute_force(law, asked)
    if best is None:
        assert plan.chosen is None
    else:
        assert plan.chosen.estimates[asked["minimize"]].value == pytest.approx(best, rel=1e-9)


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


def test_the_same_question_gets_the_same_answer(law):
    asked = {"vary": {"workers": {"from": 0.5, "to": 64.0, "whole": False}}, "deadline": 40}
    assert make_plan(law, asked).to_json() == make_plan(law, asked).to_json()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"vary": WORKERS, "deadline": "1x"}, "deadline: '1x'"),
        ({"vary": WORKERS, "deadline": 0}, "must be more than 0"),
        ({"vary": WORKERS, "deadline": -5}, "must be more than 0"),
        ({"vary": WORKERS, "budget": 3}, "price_per_hour in prices"),
        ({"vary": WORKERS, "max_energy": "1kWh"}, "max_energy: the energy"),
        ({"vary": WORKERS, "max_memory": "1GiB"}, "max_memory: the memory"),
        ({"vary": WORKERS, "minimize": "carbon"}, "minimize='carbon': the carbon"),
        ({"vary": WORKERS, "minimize": "tme"}, "minimize"),
        ({"vary": WORKERS, "confidence": 0.3}, "confidence"),
        ({"vary": WORKERS, "prices": {"price_per_hour": 1, "nodes": "workers - 1"}}, "is 0 for"),
        ({"vary": WORKERS, "confidence": 90}, "confidence: must be below 1, not 90; 90 % is 0.9"),
        ({"vary": {"wrkers": [1]}}, "no model has a column 'wrkers'. Did you mean 'workers'?"),
        ({}, "nothing to choose from"),
        ({"vary": {"workers": []}}, "has no value to choose"),
        ({"vary": {"workers": ["many"]}}, "'many'; write a range as 1..64"),
        ({"vary": WORKERS, "fix": {"workers": 3}}, "both varied and fixed"),
        ({"vary": WORKERS, "only": ["workers > 100"]}, "no configuration is left"),
        ({"vary": WORKERS, "only": ["size > 1"]}, "size"),
        ({"vary": WORKERS, "only": ["__import__('os')"]}, "the functions are"),
        ({"vary": WORKERS, "wat": 1}, "wat"),
        ({"vary": WORKERS, "prices": {"price": 1}}, "price"),
        ({"vary": WORKERS, "prices": {"price_per_hour": -1}}, "price_per_hour"),
        ({"vary": WORKERS, "prices": {"price_per_hour": "workers - 5"}}, "is negative"),
        ({"vary": WORKERS, "prices": {"price_per_hour": "speed"}}, "the prices use 'speed'"),
        ({"vary": WORKERS, "prices": {"machines": {"a": {}}}}, "by"),
        ({"vary": {"workers": {"from": 1.0, "to": 1e300}}}, "must stay below 9e15"),
        ({"vary": WORKERS, "most": {"wrkers": 3}}, "no column 'wrkers'. Did you mean 'workers'?"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_refused_with_what_to_do(law, asked, told):
    with pytest.raises(UsageError) as caught:
        make_plan(law, asked)
    assert told in str(caught.value)


def test_models_that_do_not_go_together_are_refused(law):
    with pytest.raises(UsageError, match="two models predict a time"):
        make_plan([law, law], {"vary": WORKERS})
    other = Law(target="energy_j", ranges={"nodes": (1.0, 2.0)}, law=lambda f: f["nodes"])
    with pytest.raises(UsageError, match="no column in common"):
        make_plan([law, other], {"vary": WORKERS})
    apart = Law(target="energy_j", ranges={"workers": (100.0, 200.0)})
    with pytest.raises(UsageError, match="fitted on different data"):
        make_plan([law, apart], {"vary": WORKERS})
    with pytest.raises(UsageError, match="'score' does not say its unit"):
        make_plan(Law(target="score"), {"vary": WORKERS})


def test_levels_that_were_never_measured_are_refused_unless_far_is_allowed():
    law = Law(law=lambda f: 5.0 * f["workers"], categories={"machine": ("m4", "c4")})
    asked = {"vary": {"machine": ["m5"]}, "fix": {"workers": 1}}
    with pytest.raises(UsageError, match="'machine' was never measured at m5"):
        make_plan(law, asked)
    assert chosen(make_plan(law, {**asked, "allow_far": True}))["machine"] == "m5"


def test_a_column_left_out_is_named_with_what_was_measured_of_it(law):
    law = replace(law, ranges={"workers": (1.0, 64.0), "size": (5.0, 9.0)})
    with pytest.raises(UsageError, match=r"needs 'size' \(measured: 5 to 9\).* fix={'size'"):
        make_plan(law, {"vary": WORKERS})


def test_a_range_may_be_written_as_on_the_command_line():
    plans = [make_plan(Law(), {"vary": {"workers": w}}) for w in ("1..8", [*range(1, 9)])]
    assert plans[0].to_json() == plans[1].to_json()


def test_energy_of_the_start_up_counts_whoever_tells_that_of_the_job():
    prices = {"power_w": 60, "start_up_s": 10, "nodes": 2}
    energy = Law(target="energy_j", law=lambda f: 5000.0 / f["workers"])
    asked = {"vary": {"workers": [1, 2]}, "prices": prices, "minimize": "energy"}
    told = make_plan([Law(), energy], asked).chosen.estimates["energy"].value
    assert told == pytest.approx(5000 / 2 + 2 * 60 * 10)
    without = make_plan([Law(), energy], {**asked, "prices": {"start_up_s": 10}})
    assert without.chosen.estimates["energy"].value == pytest.approx(5000 / 2)


def test_an_energy_limit_needs_the_intervals_of_the_energy_model_alone():
    time = Law(spread=math.nan)
    energy = Law(target="energy_j", law=lambda f: 5000.0 / f["workers"])
    plan = make_plan([time, energy], {"vary": {"workers": [1, 2, 4]}, "max_energy": "2kJ"})
    assert chosen(plan)["workers"] == 4


def test_a_model_without_intervals_plans_for_the_median_only():
    runs = pd.DataFrame({"workers": [1, 2, 4, 8] * 5})
    runs["time_s"] = 3 + 8 / runs["workers"]
    everything = {"method": "All"}  # so that no row is held out
    campaign = {"data": {"target": "time_s"}, "techniques": {"NNLS": {}},
                "search": {"splits": everything}, "validation": everything,
                "features": {"inverse": ["workers"]}}  # fmt: skip
    model = foretell.fit_model(campaign, runs).best
    asked = {"vary": {"workers": [2, 4, 8]}, "deadline": 4.5}
    with pytest.raises(UsageError, match="has no intervals"):
        make_plan(model, asked)
    plan = make_plan(model, {**asked, "confidence": 0.5})
    assert chosen(plan)["workers"] == 8
    assert "nan" not in repr(plan)
    assert "how sure" not in repr(plan)  # of more than the middle nobody knows


def test_columns_that_never_varied_need_not_be_said():
    law = Law(
        law=lambda f: 10 / f["workers"] * f["epochs"],
        ranges={"workers": (1.0, 8.0), "epochs": (3.0, 3.0)},
        categories={"launcher": ("actors",)},
    )
    plan = make_plan(law, {"vary": {"workers": [2, 5]}})
    assert chosen(plan) == {"workers": 5, "epochs": 3.0, "launcher": "actors"}
    assert "epochs" not in repr(plan)


def test_derived_columns_follow_from_those_that_are_chosen():
    law = Law(
        law=lambda f: 100 / f["num_cpus"] + f["workers"],
        ranges={"workers": (1.0, 8.0), "num_cpus": (1.0, 64.0)},
    )
    asked = {
        "vary": {"workers": {"from": 1, "to": 8}, "cpus": [1, 2, 8]},
        "derive": {"num_cpus": "workers * cpus"},
        "only": ["num_cpus <= 16"],
    }
    best = min((100 / (w * c) + w, w, c) for w in range(1, 9) for c in (1, 2, 8) if w * c <= 16)
    found = chosen(make_plan(law, asked))
    assert (found["workers"], found["cpus"], found["num_cpus"]) == (*best[1:], best[1] * best[2])
    with pytest.raises(UsageError, match="both derived and given"):
        make_plan(law, {**asked, "fix": {"num_cpus": 3}})
    with pytest.raises(UsageError, match="uses 'cps'"):
        make_plan(law, {**asked, "derive": {"num_cpus": "workers * cps"}})


def test_a_front_of_many_thousands_is_found_in_one_sweep():
    from foretell.decide.plan.choose import pareto

    time_s = np.arange(1.0, 100_001.0)
    points = np.column_stack([time_s, 1e6 / time_s, np.full(len(time_s), 3.0)])
    assert len(pareto(np.vstack([points, points + 1]))) == len(points)


def test_a_thin_set_that_rules_leave_of_a_vast_space_is_looked_at_as_a_whole():
    names = list("abcdef")
    law = Law(law=lambda f: sum(f[n] for n in names), ranges=dict.fromkeys(names, (1.0, 64.0)))
    asked = {
        "vary": {n: {"from": 1, "to": 64} for n in names},
        "only": ["a == b", "c == d", "e == f", "a * c * e == 64"],
    }
    plan = make_plan(law, asked)
    assert not plan.is_searched
    assert plan.chosen.estimates["time"].value == 24  # 4 + 4 + 4, twice


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


def test_columns_of_any_name_can_be_limited_and_priced():
    law = Law(
        law=lambda f: 100 / f["n nodes"] + f["lambda"],
        ranges={"n nodes": (1.0, 64.0), "lambda": (1.0, 9.0), "self": (1.0, 9.0)},
    )
    asked = {
        "vary": {"n nodes": {"from": 1, "to": 8}, "lambda": [1, 2, 5], "self": [1]},
        "most": {"n nodes": 4},
        "least": {"lambda": 2},
        "prices": {"price_per_hour": 3600, "nodes": "n nodes"},
        "minimize": "time",
    }
    plan = make_plan(law, asked)
    assert chosen(plan) == {"n nodes": 4, "lambda": 2, "self": 1}
    assert plan.chosen.estimates["cost"].value == pytest.approx(4 * 27)


def test_a_machine_without_a_price_is_named():
    law = Law(law=lambda f: 10.0 * f["workers"], categories={"machine": ("m4", "c4")})
    prices = {"by": "machine", "power_w": 100, "machines": {"m4": {"price_per_hour": 1}}}
    asked = {"vary": {"machine": ["m4", "c4"]}, "fix": {"workers": 1}, "prices": prices}
    with pytest.raises(UsageError, match="price_per_hour is not known for machine c4"):
        make_plan(law, asked)


@pytest.mark.parametrize("confidence", [0.925, 0.999])
def test_runners_up_within_the_limits_lost_by_the_objective(law, confidence):
    asked = {"vary": {"workers": [40, 50, 60]}, "deadline": 60, "confidence": confidence}
    text = repr(make_plan(law, asked))
    assert "its chance" not in text
    assert f"at {100 * confidence:g} %" in text


def test_runners_up_of_a_continuous_range_read_differently():
    law = Law(law=lambda f: 3 + (np.log(f["workers"]) - 2) ** 2)
    plan = make_plan(law, {"vary": {"workers": {"from": 0.5, "to": 64.0, "whole": False}}})
    told = [f"{o.configuration['workers']:.6g}" for o in (plan.chosen, *plan.runners_up)]
    assert len(set(told)) == len(told)


@dataclass(frozen=True)
class Bare(Law):
    """A model without intervals."""

    has_intervals = False

    def outlook(self, frame, probabilities):
        found = super().outlook(frame, probabilities)
        nothing = np.full(found.quantiles.values.shape, np.nan)
        return replace(found, quantiles=Quantiles(tuple(probabilities), nothing))


def test_limits_that_need_no_interval_hold_beside_a_model_without_them(law):
    energy = Bare(target="energy_j", law=lambda f: 5.0 * f["workers"])
    asked = {"vary": WORKERS, "minimize": "energy", "prices": {"power_w": 10}}
    plan = make_plan([law, energy], {**asked, "deadline": 60, "max_power": 10_000})
    fewest = next(w for w in range(1, 65) if (10 + 1000 / w) * math.exp(0.1 * z(0.9)) <= 60)
    assert chosen(plan)["workers"] == fewest
    with pytest.raises(UsageError, match="the model of energy_j has no intervals"):
        make_plan([law, energy], {**asked, "max_energy": 100})


def test_without_limits_a_space_far_outside_is_told_as_such(law):
    plan = make_plan(law, {"vary": {"workers": [500, 600]}})
    assert plan.chosen is None
    assert repr(plan).startswith("Every configuration lies far outside the data.")
