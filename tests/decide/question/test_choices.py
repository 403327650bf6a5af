"""The space to choose from, and the models that must know it."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from foretell.decide.plan.plan import make_plan
from foretell.errors import Option, UsageError

from ..conftest import WORKERS, Law, chosen


def test_levels_that_were_never_measured_are_refused_unless_far_is_allowed():
    law = Law(law=lambda f: 5.0 * f["workers"], categories={"machine": ("m4", "c4")})
    asked = {"vary": {"machine": ["m5"]}, "fix": {"workers": 1}}
    with pytest.raises(UsageError, match="'machine' was never measured at m5"):
        make_plan(law, asked)
    assert chosen(make_plan(law, {**asked, "allow_far": True}))["machine"] == "m5"


def test_all_columns_left_out_are_named_at_once(law):
    law = replace(law, ranges={"workers": (1.0, 64.0), "size": (5.0, 9.0), "gb": (1.0, 2.0)})
    for asked in ({"vary": WORKERS}, {}):
        with pytest.raises(UsageError) as caught:
            make_plan(law, asked)
        assert "'size' (measured: 5 to 9), 'gb' (measured: 1 to 2)" in str(caught.value)


def test_a_column_left_out_is_named_with_what_was_measured_of_it(law):
    law = replace(law, ranges={"workers": (1.0, 64.0), "size": (5.0, 9.0)})
    with pytest.raises(UsageError, match=r"needs 'size' \(measured: 5 to 9\).* fix={'size'"):
        make_plan(law, {"vary": WORKERS})


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


@pytest.mark.parametrize(("word", "value"), [("fix", "c55"), ("vary", ["m4", "c55"])])
def test_the_level_that_was_probably_meant_is_named(word, value):
    law = Law(law=lambda f: 5.0 * f["workers"], categories={"machine": ("m4", "c5")})
    asked = {"vary": {"workers": [1, 2]}}
    asked.setdefault(word, {})["machine"] = value
    with pytest.raises(UsageError, match="Did you mean 'c5'") as caught:
        make_plan(law, asked)
    assert Option("allow_far") in caught.value.remedy


def test_candidates_take_fixed_and_constant_values_but_none_twice():
    law = Law(
        law=lambda f: 10.0 * f["size"] / f["workers"],
        ranges={"workers": (1.0, 8.0), "size": (1.0, 9.0), "epochs": (3.0, 3.0)},
    )
    table = pd.DataFrame({"workers": [2, 4]})
    plan = make_plan(law, {"fix": {"size": 5}}, table)
    assert chosen(plan) == {"workers": 4, "size": 5, "epochs": 3}
    with pytest.raises(UsageError) as caught:
        make_plan(law, {"fix": {"size": 5, "workers": 2}}, table)
    assert caught.value.option == Option("fix", "2", key="workers")
    with pytest.raises(UsageError) as caught:
        make_plan(law, {"vary": {"size": [1, 2]}}, table)
    assert caught.value.option == Option("vary", key="size")


@pytest.mark.parametrize("asked", [{"vary": {"workers": [1, True]}}, {"fix": {"workers": True}}])
def test_true_is_not_a_number_of_workers(law, asked):
    with pytest.raises(UsageError, match="is a number in the model, not 'True'") as caught:
        make_plan(law, asked)
    assert caught.value.option == Option(next(iter(asked)), key="workers")


def test_true_is_not_a_number_in_a_table_of_candidates(law):
    with pytest.raises(UsageError, match="is a number in the model, not 'True'"):
        make_plan(law, {}, pd.DataFrame({"workers": [True, True]}))
