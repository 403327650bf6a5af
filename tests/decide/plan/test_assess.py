"""Quantities of configurations: what models predict, and what is computed from it."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from foretell.decide.plan.assess import Assessor, join, match_models
from foretell.decide.plan.plan import make_plan
from foretell.decide.question.prices import Prices, Tariff
from foretell.decide.question.space import Listed
from foretell.errors import UsageError

from ..conftest import WORKERS, Law, chosen, z


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


def test_units_of_a_target_come_from_its_name():
    law = Law(target="runtime_ms", law=lambda f: 60_000 / f["workers"])
    plan = make_plan(law, {"vary": {"workers": [2]}, "deadline": "1m"})
    assert plan.chosen.estimates["time"].value == pytest.approx(30.0)


def test_energy_of_the_start_up_counts_whoever_tells_that_of_the_job():
    prices = {"power_w": 60, "start_up_s": 10, "nodes": 2}
    energy = Law(target="energy_j", law=lambda f: 5000.0 / f["workers"])
    asked = {"vary": {"workers": [1, 2]}, "prices": prices, "minimize": "energy"}
    told = make_plan([Law(), energy], asked).chosen.estimates["energy"].value
    assert told == pytest.approx(5000 / 2 + 2 * 60 * 10)
    without = make_plan([Law(), energy], {**asked, "prices": {"start_up_s": 10}})
    assert without.chosen.estimates["energy"].value == pytest.approx(5000 / 2)


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


def assessed(probabilities=(0.5, 0.9), **prices):
    frame = pd.DataFrame({"workers": [2, 10]})
    tariff = Tariff.of(Prices(nodes="workers", **prices), Listed(frame))
    return Assessor(match_models([Law()]), tariff).assess(frame, probabilities)


def test_every_quantity_is_made_of_the_job_and_its_start_up():
    figures = assessed(
        price_per_hour=36, start_up_s=30, start_up_cost=0.5, power_w=50, carbon_g_per_kwh=360
    )
    job_s, nodes = np.array([510.0, 110.0]), np.array([2.0, 10.0])
    expected = {"time": job_s, "cost": nodes * 0.01 * job_s, "energy": nodes * 50 * job_s,
                "carbon": nodes * 50 * job_s / 1e4}  # fmt: skip
    start_up = {"time": 30, "cost": nodes * 0.01 * 30 + 0.5, "energy": nodes * 50 * 30,
                "carbon": nodes * 50 * 30 / 1e4}  # fmt: skip
    for kind, value in expected.items():
        np.testing.assert_allclose(figures.start_up(kind), start_up[kind] + 0 * nodes)
        np.testing.assert_allclose(figures.value(kind), value + start_up[kind])
        risky = value * math.exp(0.1 * z(0.9)) + start_up[kind]
        np.testing.assert_allclose(figures.at(kind, 0.9), risky)


def test_quantiles_are_found_by_their_probability_whatever_their_order():
    one, other = assessed((0.9, 0.05, 0.5)), assessed((0.05, 0.9))
    np.testing.assert_allclose(one.at("time", 0.9), other.at("time", 0.9))
    np.testing.assert_allclose(one.at("time", 0.05), other.at("time", 0.05))
    with pytest.raises(ValueError, match="not in tuple"):
        one.at("time", 0.8)


def test_joined_figures_are_taken_apart_again():
    figures = assessed(price_per_hour=1)
    joined = join([figures, figures.take(np.array([1]))])
    assert joined.frame["workers"].tolist() == [2, 10, 10]
    back = joined.take(np.array([0, 2]))
    np.testing.assert_array_equal(back.at("cost", 0.9), figures.at("cost", 0.9))
