"""The bucket against small steps of time."""

import math

import hypothesis.strategies as st
import pytest
from hypothesis import given

from foretell.adapters.dispatcher.sprints.bucket import Bucket, level_after
from foretell.simulate import sprinting as simulation
from foretell.simulate.sprinting import SprintPower

STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 50)), max_size=20)


@given(STEPS, st.integers(1, 100), st.integers(0, 5), st.integers(1, 20))
def test_levels_are_those_of_small_steps_of_time(steps, most_j, refill_w, drain_w):
    moment = 0.0
    bucket = Bucket(most_j, refill_w, drain_w, clock=lambda: moment)
    level = float(most_j)
    for is_sprint, n_ticks in steps:
        if is_sprint:
            n_ticks = min(n_ticks, math.floor(10 * min(bucket.left_s, 100)))
            bucket.start()
        for _ in range(n_ticks):
            level = min(most_j, level + 0.1 * (refill_w - drain_w * is_sprint))
            moment += 0.1
        bucket.stop()
        assert bucket.level_j == pytest.approx(level, abs=1e-6)
        assert -1e-6 <= bucket.level_j <= most_j


@given(st.floats(1, 1e5), st.floats(0, 50), st.floats(0.1, 100))
def test_a_sprint_as_long_as_it_may_be_empties_the_bucket(most_j, refill_w, drain_w):
    moment = 0.0
    bucket = Bucket(most_j, refill_w, drain_w, clock=lambda: moment)
    left_s = bucket.left_s
    assert (left_s == math.inf) == (drain_w <= refill_w)
    if left_s < 1e9:
        bucket.start()
        moment = left_s
        assert bucket.level_j == pytest.approx(0, abs=1e-6 * most_j)
        assert bucket.left_s == pytest.approx(0, abs=1e-6 * left_s)


def test_no_limit_is_never_empty():
    bucket = Bucket(math.inf, 0, 0)
    bucket.start()
    assert bucket.left_s == bucket.level_j == math.inf


def test_a_restart_neither_fills_the_budget_nor_forgives_a_sprint_that_went_on():
    calm = {"at": 100.0, "budget_j": 50.0, "is_sprinting": False}
    assert level_after(calm, 103.0, refill_w=2, drain_w=10) == 56
    assert level_after({**calm, "is_sprinting": True}, 103.0, refill_w=2, drain_w=10) == 26
    assert level_after({**calm, "is_sprinting": True}, 200.0, refill_w=2, drain_w=10) == 0
    assert Bucket(40, 1, 1, level_j=56).level_j == 40


@pytest.mark.parametrize("refill_w", [10.0, 20.0])
def test_an_empty_budget_that_fills_as_fast_as_a_sprint_drains_lasts_as_in_simulations(refill_w):
    power = SprintPower(speedup=2, base_w=100, sprint_w=110, budget_j=0, refill_w=refill_w)
    simulated = simulation.Bucket(power).plan(0.0, left_s=10.0, sprint_in_s=0.0)
    assert simulated.sprint_s == 5.0  # until its end
    assert Bucket(0, refill_w, power.extra_w).left_s == math.inf
