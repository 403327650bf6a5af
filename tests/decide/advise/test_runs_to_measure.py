"""The runs that could be made."""

from __future__ import annotations

import pandas as pd
import pytest

from foretell.decide.advise.past_runs import PastRuns
from foretell.decide.advise.runs_to_measure import MOST_RUNS, Source
from foretell.decide.question.space import make_grid
from foretell.errors import Option, UsageError
from foretell.spaces.rules import Rules

from ..conftest import Law

LAW = Law(
    law=lambda f: f["size"] / f["workers"],
    ranges={"size": (1.0, 64.0), "workers": (1.0, 8.0)},
)


def runs(measure=None, rules=None, data=None, derive=None):
    derived = Rules.of(derive=derive or {})
    space = make_grid({"workers": [1, 2, 4]}, {"size": 64}, derived)
    choices = derived.applied(pd.DataFrame({"size": 64, "workers": [4, 2, 1]}))
    past = PastRuns.of(data, [LAW])
    source = Source(space, [LAW], past, measure, rules or Rules())
    return source.runs(choices)


def test_what_may_be_planned_comes_first_and_then_smaller_jobs():
    found = runs()
    assert found["workers"].tolist()[:3] == [4, 2, 1]
    assert found["size"].tolist()[:3] == [64, 64, 64]
    assert set(found["size"]) == {1, 8, 64}  # the smallest measured, and half way in logs
    assert not found.duplicated().any()


def test_smaller_jobs_have_sizes_that_were_measured():
    data = pd.DataFrame({"size": [4, 32, 64, 512], "workers": 1, "time_s": 1.0})
    assert set(runs(data=data)["size"]) == {4, 32, 64}


def test_values_that_the_user_allows_are_crossed_and_derived_columns_follow():
    found = runs(measure={"size": [16, 32]}, derive={"share": "size / workers"})
    assert {16, 32, 64} == set(found["size"])
    assert (found["share"] == found["size"] / found["workers"]).all()


def test_a_table_of_runs_is_all_there_is():
    table = pd.DataFrame({"workers": [3], "size": [5], "more": ["x"]})
    assert runs(measure=table).to_dict("records") == [{"size": 5, "workers": 3}]
    with pytest.raises(UsageError, match="no column 'size'"):
        runs(measure=table[["workers"]])


def test_rules_of_the_sweep_hold_for_runs():
    found = runs(rules=Rules.of(exclude=["workers == 2"], only=["size >= 8"]))
    assert set(found["workers"]) == {1, 4}
    assert set(found["size"]) == {8, 64}


def test_unknown_columns_are_refused_and_very_many_runs_are_cut():
    with pytest.raises(UsageError, match="Did you mean 'size'") as caught:
        runs(measure={"sice": [1]})
    assert caught.value.option == Option("measure", key="sice")
    assert len(runs(measure={"size": list(range(1, 400))})) == MOST_RUNS
