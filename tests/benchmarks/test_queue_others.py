"""Engines that are shared: ends by hand, and what holds however they are shared."""

import numpy as np
import pytest
from benchmarks.queue_others import shared_ends
from hypothesis import given
from hypothesis import strategies as st

TOGETHER = np.zeros(2)
WORK = np.array([3.0, 1.0])


@pytest.mark.parametrize(
    ("line_of", "weights", "ends"),
    [
        ([0, 0], {}, [3, 4]),  # one line
        ([0, 1], {}, [4, 2]),  # equal shares: the short one ends after twice its time
        ([0, 1], {0: 3.0}, [4, 4]),  # three quarters and one quarter
    ],
)
def test_ends_are_those_computed_by_hand(line_of, weights, ends):
    found = shared_ends(TOGETHER, WORK, np.array(line_of), weights)
    assert found.tolist() == pytest.approx(ends)


def test_a_job_that_comes_later_takes_its_share_from_then_on():
    found = shared_ends(np.array([0.0, 2.0]), np.array([3.0, 2.0]), np.array([0, 1]), {})
    assert found.tolist() == pytest.approx([4, 5])


JOBS = st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 5)), min_size=1, max_size=12)


@given(jobs=JOBS)
def test_one_line_is_the_recursion_of_lindley_and_no_sharing_ends_the_last_job_later(jobs):
    arrival = np.cumsum([gap for gap, _ in jobs])
    work = np.array([w for _, w in jobs])
    free, ends = 0.0, []
    for at, w in zip(arrival, work, strict=True):
        free = max(free, at) + w
        ends.append(free)
    in_line = shared_ends(arrival, work, np.zeros(len(jobs), dtype=int), {})
    assert in_line.tolist() == pytest.approx(ends)
    for lines in (np.arange(len(jobs)), np.arange(len(jobs)) % 2):
        shared = shared_ends(arrival, work, lines, {0: 2.0})
        assert shared.max() == pytest.approx(max(ends))
        assert (shared >= arrival + work - 1e-9).all()
