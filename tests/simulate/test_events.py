"""The event kernel: order, cancellation, and refusal of the past."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.simulate.events import Events

moments = st.lists(st.floats(0, 100, allow_nan=False), max_size=40)


@given(moments)
def test_events_happen_by_time_and_then_in_the_order_of_planning(times):
    events, seen = Events(), []
    for i, at_s in enumerate(times):
        events.at(at_s, lambda at, n: seen.append((at, n)), at_s, i)
    events.run()
    assert seen == sorted((at_s, i) for i, at_s in enumerate(times))
    assert events.n_handled == len(times)


def test_a_handler_can_plan_and_cancel_events():
    events, seen = Events(), []
    last = events.at(9.0, seen.append, "canceled")

    def first():
        seen.append(events.now_s)
        last.cancel()
        events.after(2.0, lambda: seen.append(events.now_s))
        events.after(0.0, seen.append, "now")

    events.at(1.0, first)
    events.run()
    assert seen == [1.0, "now", 3.0]


def test_a_run_can_stop_and_go_on():
    events, seen = Events(), []
    for at_s in (1.0, 2.0, 3.0):
        events.at(at_s, seen.append, at_s)
    events.run(until_s=2.0)
    assert (seen, events.now_s) == ([1.0, 2.0], 2.0)
    events.run(until_s=2.5)
    assert events.now_s == 2.5
    events.run()
    assert seen == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("wrong", [-1.0, 0.5, math.nan, math.inf])
def test_the_past_and_the_infinite_are_refused(wrong):
    events = Events()
    events.run(until_s=1.0)
    with pytest.raises(ValueError, match="cannot be planned"):
        events.at(wrong, print)


def test_the_seed_decides_what_is_random():
    assert Events(3).random.random() == Events(3).random.random()
    assert Events(3).random.random() != Events(4).random.random()
