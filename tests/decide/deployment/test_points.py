"""Which batch sizes are measured: few, with the ends, and those that a choice depends on."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.decide.deployment.points import LEAST_POINTS, MOST_SHARE, Points


def measured(points, time_of, wanted=()):
    """Take points until there are no more."""
    spots = []
    while (spot := points.next(wanted)) is not None:
        spots.append(spot)
        points.tell(*spot, *time_of(*spot))
        assert len(spots) <= points.n_grid
    return spots


def surprising(threads, size):
    return 1.0, 2.0


def foretold(threads, size):
    return 1.0, 1.01


@given(st.integers(1, 200), st.integers(1, 4), st.booleans())
def test_at_most_a_quarter_is_measured_with_both_ends_and_nothing_twice(n, n_threads, is_odd):
    points = Points(range(1, n + 1), range(1, n_threads + 1))
    spots = measured(points, surprising if is_odd else foretold)
    assert len(set(spots)) == len(spots)
    least = n_threads * min(LEAST_POINTS, n)
    assert len(spots) <= max(least, MOST_SHARE * points.n_grid)
    n_powers = sum(2**k <= n for k in range(9))
    for threads in range(1, n_threads + 1):
        assert sum(t == threads for t, _ in spots) <= max(LEAST_POINTS, n_powers)
        assert {(threads, 1), (threads, n)} <= set(spots)


def test_curves_that_were_foretold_take_fewer_points():
    few = measured(Points(range(1, 65), [1, 2]), foretold)
    many = measured(Points(range(1, 65), [1, 2]), surprising)
    assert len(few) < len(many) <= 2 * 7


def test_no_more_is_measured_than_by_someone_who_tries_the_powers_of_two():
    favored = [(1, size) for size in range(20, 40)]
    spots = measured(Points(range(1, 65), [1, 2]), surprising, wanted=favored)
    assert sum(threads == 1 for threads, _ in spots) == 7
    assert sum(threads == 2 for threads, _ in spots) <= 7


def test_what_the_choice_depends_on_is_measured():
    spots = measured(Points(range(1, 65), [1, 2]), foretold, wanted=[(2, 11), (1, 37)])
    assert {(2, 11), (1, 37)} <= set(spots)


def test_all_are_measured_where_that_is_asked_for():
    spots = measured(Points([1, 4, 9], [1, 2], is_whole=True), foretold)
    assert sorted(spots) == [(t, b) for t in (1, 2) for b in (1, 4, 9)]


def test_gaps_are_halved_by_factors():
    spots = measured(Points(range(1, 65), [1]), foretold)
    assert spots[:2] == [(1, 1), (1, 64)]
    assert spots[2][1] == pytest.approx(math.sqrt(64), rel=0.1)
