"""Prices and power of machines."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from foretell.decide.plan.plan import make_plan
from foretell.decide.question.prices import Prices, Tariff
from foretell.decide.question.space import Listed
from foretell.errors import UsageError

from ..conftest import WORKERS, Law, chosen


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


def test_candidates_of_a_table_bring_their_own_prices(law, tmp_path):
    table = pd.DataFrame({
        "workers": [4, 8, 16], "price_per_hour": [1.0, 0.4, 1.0], "name": ["a", "b", "c"],
    })  # fmt: skip
    path = tmp_path / "candidates.csv"
    table.to_csv(path, index=False)
    plan = make_plan(law, {}, path)
    assert chosen(plan)["name"] == "b"
    assert plan.chosen.estimates["cost"].value == pytest.approx(8 * 0.4 * 135 / 3600)


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


def test_a_power_cap_in_the_prices_bounds_the_nodes(law):
    prices = {"power_w": 100, "max_power_w": 1250, "nodes": "workers"}
    assert chosen(make_plan(law, {"vary": WORKERS, "prices": prices}))["workers"] == 12


def test_the_price_of_a_type_overrides_the_general_one_and_columns_fill_in():
    frame = pd.DataFrame({"kind": ["a", "b", "c"], "speed": [1, 2, 3], "power_w": [5.0, 6.0, 7.0]})
    prices = Prices.model_validate({
        "by": "kind", "price_per_hour": 9, "nodes": "speed + 1",
        "machines": {"a": {"price_per_hour": "speed * 10"}, "b": {"power_w": 1}, "c": {}},
    })  # fmt: skip
    bill = Tariff.of(prices, Listed(frame)).bill(frame)
    assert bill.price_per_hour.tolist() == [10, 9, 9]
    assert bill.power_w.tolist() == [5, 1, 7]
    assert bill.nodes.tolist() == [2, 3, 4]


def test_a_usual_column_counts_the_nodes_unless_prices_say_otherwise():
    frame = pd.DataFrame({"nodes": [3], "workers": [8]})
    for prices, n in (({}, 3), ({"nodes": "workers"}, 8), ({"nodes": 2}, 2)):
        tariff = Tariff.of(Prices.model_validate(prices), Listed(frame))
        assert tariff.bill(frame).nodes.tolist() == [n]
        assert np.isnan(tariff.bill(frame).price_per_hour).all()
    # As clouds call it; without any such column, a configuration is one machine.
    for name, n in (("instances", 7), ("cores", 1)):
        other = pd.DataFrame({name: [7]})
        assert Tariff.of(Prices(), Listed(other)).bill(other).nodes.tolist() == [n]


def test_start_up_is_shown_apart_from_the_job():
    prices = {"start_up_s": 12, "start_up_cost": 0.5, "price_per_hour": 3600, "nodes": 1}
    law = Law(law=lambda f: 8.0 + 0 * f["workers"])
    plan = make_plan(law, {"fix": {"workers": 4}, "prices": prices})
    assert plan.chosen.estimates["time"].value == 20
    assert plan.to_json()["chosen"]["start_up"] == {"time": 12, "cost": 12.5}
    assert "start-up 12 s + 8 s" in repr(plan)
    assert plan.front["start_up_s"].tolist() == [12]
    without = make_plan(law, {"fix": {"workers": 4}})
    assert without.chosen.start_up == {}
    assert "start-up" not in repr(without)
    assert "start_up_s" not in without.front
