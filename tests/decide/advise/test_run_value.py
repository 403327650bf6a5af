"""What a run may bring: against probabilities that are known in closed form."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.decide.advise.belief.error_field import ErrorField
from foretell.decide.advise.run_value import WORTH, Choice
from foretell.decide.plan.assess import Assessor, match_models
from foretell.decide.plan.choose import PlanChooser
from foretell.decide.question.objective import Question
from foretell.decide.question.prices import Prices, Tariff
from foretell.decide.question.space import Listed

from ..conftest import Law


def choice_of(times_s, size, noise=0.0, limits=None, allowed=None, doubtful=(), risk=0.5):
    """Several machines with independent errors; each can be run."""
    names = [f"m{i}" for i in range(len(times_s))]
    frame = pd.DataFrame({"machine": names})
    law = Law(law=lambda f: f["machine"].map(dict(zip(names, times_s, strict=True))),
              spread=size, ranges={}, categories={"machine": names})  # fmt: skip
    assessor = Assessor(match_models([law]), Tariff.of(Prices(), Listed(frame)))
    question = Question(limits or {}, 0.9, (0.5, 0.9), True, risk)
    n = len(names)
    alike = np.tile(np.eye(n), (2, 2))  # each run is one of the choices
    deviates = np.tile(np.random.default_rng(1).normal(size=(4000, n)), (1, 2))
    field = ErrorField.of(np.full(2 * n, size), alike, deviates, noise)
    is_allowed = np.ones(n, dtype=bool) if allowed is None else np.array(allowed)
    figures = assessor.assess(frame, (0.5, 0.9))
    chooser = PlanChooser(question, "time", ["time"])
    return Choice(figures, chooser, {"time": field}, is_allowed,
                  np.isin(np.arange(n), doubtful), np.arange(n), 0)  # fmt: skip


@given(st.floats(0.0, 0.3), st.floats(0.02, 0.3), st.floats(0.0, 0.2))
def test_the_chance_of_a_change_is_that_of_the_other_turning_out_better(gap, size, noise):
    choice = choice_of([10.0, 10.0 * math.exp(gap)], size, noise)
    effect = size**2 / math.hypot(size, noise)  # how far the estimate moves per deviation
    expected = NormalDist().cdf(-(gap + WORTH) / effect)
    assert choice.worth(1).chance == pytest.approx(expected, abs=1 / 64)
    assert choice.chosen == 0


@given(st.floats(0.05, 0.3))
def test_the_gain_is_the_expected_improvement(size):
    worth = choice_of([10.0, 10.0], size).worth(1)
    # With equal expectations: the mean of 1 - exp(x) over the better half of a Gaussian.
    shift = math.exp(size**2 / 2) * NormalDist().cdf(-size)
    assert worth.gain == pytest.approx(0.5 - shift, rel=0.1)
    assert worth.instead == 1


def test_a_run_elsewhere_that_says_nothing_is_worth_nothing():
    worth = choice_of([10.0, 10.1, 1000.0], 0.1).worth(2)
    assert (worth.chance, worth.gain, worth.instead) == (0, 0, None)


def test_what_may_not_be_chosen_yet_may_be_once_it_is_measured():
    choice = choice_of([10.0, 5.0], 0.1, allowed=[True, False])
    assert choice.ranked == [0]
    assert choice.worth(1).chance > 0.99
    assert choice.worth(0).chance == 0


def test_keeping_the_limits_comes_before_the_objective():
    choice = choice_of([10.0, 9.0], 0.1, limits={"deadline": 10.5})
    assert choice.chosen == 1  # 9 s stay below 10.5 s with 90 %, 10 s do not
    assert choice.is_close(1)
    assert not choice.is_close(0)


def test_a_run_narrows_the_interval_by_what_it_removes_of_the_deviation():
    choice = choice_of([10.0], 0.3, noise=0.4)
    # The variance of a new run, 0.09 + 0.16, falls by 0.09² / 0.25.
    left = math.sqrt((0.25 - 0.09**2 / 0.25) / 0.25)
    assert choice.narrowing(0).gain == pytest.approx(1 - left)


def test_what_is_doubtful_is_chosen_at_its_pessimistic_end_until_it_is_run():
    size = 0.1
    for gap, first in ((0.1, 0), (0.2, 1)):  # the second is better by this much
        choice = choice_of([10.0, 10.0 * math.exp(-gap)], size, doubtful=[1], risk=0.05)
        assert choice.chosen == first
    noise = 0.05
    choice = choice_of([10.0, 10.0 * math.exp(-0.1)], size, noise, doubtful=[1], risk=0.05)
    size = size**2 / math.hypot(size, noise)  # how far the estimate moves
    expected = NormalDist().cdf((0.1 - WORTH) / size)  # a run of it tells, up to some noise
    assert choice.worth(1).chance == pytest.approx(expected, abs=1 / 64)


def test_the_chance_that_the_plan_is_far_from_the_best_adds_up_over_all_others():
    n, size, gap = 30, 0.1, 0.1
    choice = choice_of([10.0, *[10.0 * math.exp(gap)] * n], size)
    chances = choice.much_better(0.1)
    # The plan has an error, too; given it, those of the others are independent.
    grid = np.linspace(-4, 4, 801)
    weights = np.exp(-(grid**2) / 2)
    one = np.array([NormalDist().cdf((size * z + math.log(0.9) - gap) / size) for z in grid])
    expected = float(np.average(1 - (1 - one) ** n, weights=weights))
    assert chances.sum() == pytest.approx(expected, abs=0.04)
    assert 0 < chances[1:].max() < 0.1 < chances.sum()
    assert chances[0] == 0


def test_improvements_are_those_of_the_better_outcomes():
    size, gap = 0.2, 0.1
    choice = choice_of([10.0, 10.0 * math.exp(gap)], size)
    grid = np.linspace(-8, 8, 4001) * size
    density = np.exp(-0.5 * (grid / size) ** 2)
    expected = np.average(-np.expm1(-np.maximum(grid - gap, 0.0)), weights=density)
    assert choice.improvements[1] == pytest.approx(expected, rel=0.1)


def test_what_only_keeps_a_limit_more_surely_is_no_large_improvement():
    # The first is the plan, and misses the limit in a few outcomes; the second is far dearer.
    choice = choice_of([10.0, 9.0], 0.02, limits={"deadline": 10.4})
    assert choice.chosen == 1
    assert choice.improvements[0] < 0.01


def test_what_exceeds_a_limit_is_not_better_than_the_plan():
    choice = choice_of([10.0, 5.0], 0.01, limits={"deadline": 7.0})
    assert choice.chosen == 1
    assert choice.much_better(0.1).sum() == 0
