"""Times of batches: exact at measured points, positive everywhere, wider where nothing is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.decide.deployment.batch_times import PESSIMISTIC, BatchTimes, Point


def point(batch, time_s, levels=(1.0,), threads=1):
    return Point(threads, batch, time_s, levels, 0.01, 1.0, 20)


@given(
    st.dictionaries(st.integers(1, 512), st.floats(1e-5, 10.0), min_size=1, max_size=8),
)
def test_measured_points_are_met_and_all_times_are_positive(known):
    times = BatchTimes([point(b, t) for b, t in known.items()])
    sizes = sorted(known)
    assert times.median_s(sizes) == pytest.approx([known[b] for b in sizes], rel=1e-6)
    between = times.median_s(np.arange(1, 600))
    assert (between > 0).all()
    assert np.isfinite(between).all()


def test_a_line_is_found_whatever_the_points():
    times = BatchTimes([point(b, 0.004 + 0.001 * b) for b in (1, 3, 20, 64)])
    assert times.fixed_s == pytest.approx(0.004)
    assert times.each_s == pytest.approx(0.001)
    assert times.median_s(np.array([7, 33])) == pytest.approx([0.011, 0.037])


def test_a_batch_may_take_less_than_a_smaller_one():
    times = BatchTimes([point(1, 0.010), point(2, 0.002), point(8, 0.02)])
    assert times.median_s(2) < times.median_s(1)


def test_errors_are_larger_between_points_and_larger_in_wider_gaps():
    near = BatchTimes([point(b, 0.001 * b) for b in (1, 4, 16, 64)])
    far = BatchTimes([point(b, 0.001 * b) for b in (1, 64)])
    assert near.error(4) < near.error(8)
    assert near.error(8) < far.error(8)


def test_tables_have_the_spread_of_calls():
    levels = tuple(np.linspace(0.8, 1.6, 200))
    times = BatchTimes([point(b, 0.001 * b, levels) for b in (1, 2, 4)])
    table = times.table(4, overhead_s=0.01)
    assert table.shape[0] == 5
    assert table[4].mean() == pytest.approx(0.01 + 0.004 * 1.2, rel=1e-3)
    assert np.quantile(table[2], 0.99) == pytest.approx(0.01 + 0.002 * 1.592, rel=1e-2)
    assert (times.table(4, sureness=PESSIMISTIC)[1:] > times.table(4)[1:]).all()


def test_times_of_a_machine_in_turmoil_stay_finite():
    wild = Point(1, 1, 1e-5, (1.0,), error=1e4, busy_cores=1.0, n_calls=20)
    times = BatchTimes([wild, point(8, 1e-4)])
    assert np.isfinite(times.table(8, sureness=PESSIMISTIC)).all()
    assert times.error(1) > times.error(8)
