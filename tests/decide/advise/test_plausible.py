"""Configurations that may turn out to be the best."""

from __future__ import annotations

import math

import pytest

from foretell.decide.advise.plausible import MOST_PLAUSIBLE, plausible
from foretell.decide.plan.plan import Planner
from foretell.decide.question.objective import read_request
from foretell.errors import UsageError

from ..conftest import Law, z


def plausible_of(law, asked):
    plan, figures = plausible(Planner.of([law], read_request(asked)))
    return plan, figures.frame["workers"].tolist()


def test_the_plan_comes_first_and_then_what_may_be_best_with_luck():
    # Cost grows with workers; with luck, fewer workers than planned meet the deadline.
    prices = {"price_per_hour": 3600, "nodes": "workers"}
    asked = {"vary": {"workers": "1..64"}, "prices": prices, "deadline": 60}
    plan, found = plausible_of(Law(), asked)
    assert found[0] == plan.chosen.configuration["workers"]
    lucky = [w for w in range(1, 65) if (10 + 1000 / w) * math.exp(0.1 * z(0.05)) <= 60]
    assert found[1 : len(lucky)] == [w for w in lucky if w != found[0]]  # the cheapest first
    assert sorted(found) == list(range(1, 65))


def test_of_very_many_only_the_most_promising_are_kept():
    asked = {"vary": {"workers": "1..2000"}, "allow_far": True}
    _, found = plausible_of(Law(), asked)
    assert sorted(found, reverse=True) == list(range(2000, 2000 - MOST_PLAUSIBLE, -1))


def test_a_space_that_is_searched_has_plausible_configurations_too():
    plan, found = plausible_of(Law(), {"vary": {"workers": "1..1000000000000"}})
    assert found[0] == plan.chosen.configuration["workers"] == 128


def test_a_space_without_any_configuration_is_refused():
    with pytest.raises(UsageError, match="no configuration is left"):
        plausible_of(Law(), {"vary": {"workers": "1..9"}, "only": ["workers > 9"]})
