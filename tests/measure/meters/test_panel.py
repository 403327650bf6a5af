"""Samples of a run in bounded memory: however long it is, its whole length is covered."""

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from foretell.measure.meters.panel import Recorder


def record(n, most):
    """Offer n samples, one each second, as the panel does; return the trace."""
    recorder = Recorder(["a"], most)
    for i in range(n):
        if recorder.is_due(is_last=i == n - 1):
            recorder.add(float(i), {"a": 10.0 * i})
    return recorder.trace()


@given(st.integers(1, 2000), st.integers(4, 50))
def test_samples_are_bounded_and_evenly_spread_from_the_first_to_the_last(n, most):
    trace = record(n, most)
    assert len(trace) <= most
    assert len(trace) >= min(n, most / 2)
    times = trace.times_s.tolist()
    assert (times[0], times[-1]) == (0.0, n - 1.0)
    steps = [b - a for a, b in pairwise(times[:-1])]
    assert max(steps, default=1) <= 2 * min(steps, default=1)
    assert (trace.columns["a"] == 10 * trace.times_s).all()


def test_what_was_not_known_is_nan_and_times_never_repeat():
    recorder = Recorder(["a", "b", "a"])
    recorder.add(0.0, {"a": 1.0})
    recorder.add(0.0, {"a": 2.0, "b": 2.0})
    recorder.add(1.0, {"b": 3.0})
    trace = recorder.trace()
    assert trace.times_s.tolist() == [0.0, 1.0]
    assert list(trace.columns) == ["a", "b"]
    assert trace.columns["a"][0] == 1.0
    assert math.isnan(trace.columns["b"][0])
    assert math.isnan(trace.columns["a"][1])


def test_a_job_that_never_began_has_no_trace():
    assert Recorder(["a"]).trace() is None
