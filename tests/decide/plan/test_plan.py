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

import foretell
from foretell.decide.plan.plan import make_plan
from foretell.decide.question import space as spaces
from foretell.errors import UsageError
from foretell.predictor import Quantiles

from ..conftest import PRICES, WORKERS, Law, chosen, problems, z


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


def test_a_limit_that_rules_out_something_better_says_what_it_costs(law):
    """It may have much to spare nevertheless, if there are few configurations."""

    def told(**limits):
        text = str(make_plan(law, {"vary": WORKERS, "prices": PRICES, **limits}))
        return next(line for line in text.splitlines() if "to spare" in line)

    assert "without this limit, less cost" in told(deadline="60s")
    assert "without" not in told(deadline="1h")


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


def test_a_memory_limit_bounds_the_choice(law):
    memory = Law(target="peak_memory_bytes", law=lambda f: f["workers"] * 2.0**30, spread=1e-9)
    plan = make_plan([law, memory], {"vary": WORKERS, "max_memory": "10.5GiB"})
    assert chosen(plan)["workers"] == 10


def test_when_nothing_keeps_the_limits_the_closest_and_the_binding_one_are_told(law):
    plan = make_plan(law, {"vary": WORKERS, "deadline": 20, "prices": PRICES, "budget": 100})
    assert plan.chosen is None
    assert plan.binding == ["deadline"]
    assert plan.closest.configuration == {"workers": 64}
    over = (10 + 1000 / 64) * math.exp(0.1 * z(0.9)) / 20 - 1
    assert plan.closest.margins["deadline"] == pytest.approx(-over)
    text = repr(plan)
    assert "No configuration meets the limits" in text
    assert "deadline is too tight" in text
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


def brute_force(law, asked):
    """Return the least objective of all configurations that meet the limits; None if none does."""
    rows = itertools.product(range(1, asked["vary"]["workers"]["to"] + 1), (1, 2, 4, 8), (3, 9))
    every = pd.DataFrame(rows, columns=["workers", "cpus", "size"])
    time_s = law.predict(every)
    risky_s = time_s * math.exp(law.spread * z(asked["confidence"]))
    rate = every["workers"].to_numpy() * (1 + every["cpus"].to_numpy() / 2) / 3600
    holds = (risky_s <= asked["deadline"]) & (rate * risky_s <= asked.get("budget", math.inf))
    energy_j = 10 * every["workers"].to_numpy() * time_s
    value = {"time": time_s, "cost": rate * time_s, "energy": energy_j}[asked["minimize"]]
    return value[holds].min() if holds.any() else None


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
        ({"vary": WORKERS, "confidence": 99.9}, "99.9 % is 0.999"),
        ({"vary": {"workers": "0..4"}}, "vary={'workers': ...}: 'workers' must be more than 0"),
        ({"fix": {"workers": -1}}, "fix={'workers': ...}: 'workers' must be more than 0, not -1"),
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


@pytest.mark.parametrize(
    "rule", [{"least": {"workers": 1}}, {"only": ["workers >= 1"]}, {"only": ["workers ** 2 > 0"]}]
)
def test_values_that_a_condition_excludes_need_not_be_positive(law, rule):
    plan = make_plan(law, {"vary": {"workers": "0..4"}, **rule})
    assert chosen(plan) == chosen(make_plan(law, {"vary": {"workers": "1..4"}}))


@pytest.mark.parametrize("share", [1, 1.5, 49, 100])
def test_a_confidence_that_is_no_sensible_percentage_is_not_read_as_one(law, share):
    with pytest.raises(UsageError, match=r"confidence") as caught:
        make_plan(law, {"vary": WORKERS, "confidence": share})
    assert "%" not in str(caught.value)


def test_a_range_may_be_written_as_on_the_command_line():
    plans = [make_plan(Law(), {"vary": {"workers": w}}) for w in ("1..8", [*range(1, 9)])]
    assert plans[0].to_json() == plans[1].to_json()


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


@pytest.mark.parametrize("confidence", [0.925, 0.999])
def test_runners_up_within_the_limits_lost_by_the_objective(law, confidence):
    asked = {"vary": {"workers": [40, 50, 60]}, "deadline": 60, "confidence": confidence}
    text = repr(make_plan(law, asked))
    assert "its chance" not in text
    assert f"at {100 * confidence:g} %" in text


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


def test_a_single_configuration_is_predicted_however_far_outside_it_is(law):
    plan = make_plan(law, {"fix": {"workers": 1000}})
    assert chosen(plan) == {"workers": 1000}
    assert plan.chosen.estimates["time"].value == pytest.approx(11)
    assert plan.chosen.trust == "far"
    assert repr(plan).startswith("Far outside the data")
    late = make_plan(law, {"fix": {"workers": 1000}, "deadline": 5})
    assert late.chosen is None
    assert late.closest.estimates["time"].value == pytest.approx(11)


def test_options_in_a_text_are_written_as_the_reader_writes_them(law):
    plan = make_plan(law, {"vary": {"workers": [1, 500]}, "deadline": 20})
    assert "allow_far considers" in plan.to_json()["text"]
    as_flags = plan.to_json(lambda option: f"--{option.name.replace('_', '-')}")["text"]
    assert "--allow-far considers" in as_flags
    assert "--deadline" in as_flags
