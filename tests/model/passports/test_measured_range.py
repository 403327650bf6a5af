"""How far outside the data a value lies, and whether it lies between what was measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretell.model.passports.measured_range import MOST_LEVELS, MeasuredRange, total_distance


def of(*values):
    return MeasuredRange.of(np.array(values, dtype=float)[:, None])


def column(*values):
    return np.array(values, dtype=float)[:, None]


def test_distance_counts_ranges_on_a_logarithmic_scale_for_positive_columns():
    # From 1 to 4 are two doublings: one more is half a range, two more are one.
    distance = of(1, 2, 4).distance(column(1, 3, 8, 16, 0.5))
    assert distance.ravel() == pytest.approx([0, 0, 0.5, 1, -0.5])


def test_distance_counts_ranges_as_they_are_where_a_column_has_zeros():
    assert of(0, 5, 10).distance(column(-5, 10, 30)).ravel() == pytest.approx([-0.5, 0, 2])


def test_ratio_is_the_factor_by_which_a_value_leaves_the_range():
    assert of(1, 2, 4).ratio(column(0.25, 3, 12)).ravel() == pytest.approx([4, 1, 3])


def test_ratio_counts_ranges_where_a_column_has_zeros():
    assert of(0, 5, 10).ratio(column(-10, 7, 30)).ravel() == pytest.approx([2, 1, 3])


def test_a_factor_of_two_is_one_range_of_a_column_that_never_varied():
    assert of(7, 7, 7).distance(column(7, 14, 28, 3.5)).ravel() == pytest.approx([0, 1, 2, -1])


def test_between_is_inside_the_range_but_on_no_level():
    found = of(1, 2, 4, 8).between(column(1, 2, 3, 8, 5, 0.5, 9))
    assert found.ravel().tolist() == [False, False, True, False, True, False, False]


def test_a_column_of_many_values_has_no_levels_to_lie_between():
    many = of(*range(1, MOST_LEVELS + 2))
    assert not many.between(column(1.5, 7.5)).any()
    assert of(*range(1, MOST_LEVELS + 1)).between(column(1.5, 7.5)).all()


def test_nothing_lies_between_the_levels_of_a_constant_column():
    assert not of(3, 3).between(column(3, 2, 4)).any()


def test_distances_along_several_columns_add_up_as_lengths():
    assert total_distance(np.array([[3.0, -4.0], [0.0, 0.0]])).tolist() == [5, 0]


def test_a_value_that_only_rounding_moves_is_inside():
    measured = of(0.1, 0.3)
    assert not measured.distance(column(0.1 + 0.2)).any()  # 0.30000000000000004
    assert not measured.between(column(0.1 + 0.2)).any()


numbers = st.one_of(st.integers(-5, 100).map(float), st.floats(1e-3, 1e6))


@given(
    arrays(float, st.tuples(st.integers(1, 8), st.just(2)), elements=numbers),
    arrays(float, (5, 2), elements=numbers),
)
def test_distance_is_zero_exactly_inside_and_the_ratio_is_one_exactly_there(x, new):
    measured = MeasuredRange.of(x)
    distance, ratio = measured.distance(new), measured.ratio(new)
    tolerance = 1e-6 * np.maximum(np.abs(measured.high), np.ptp(x, axis=0))
    above, below = new > measured.high + tolerance, new < measured.low - tolerance
    is_inside = (measured.low <= new) & (new <= measured.high)
    assert (distance[is_inside] == 0).all()
    assert (distance[above] > 0).all()
    assert (distance[below] < 0).all()
    assert (ratio >= 1).all()
    assert (ratio[distance == 0] == 1).all()
    assert (ratio[above | below] > 1).all()
    assert not (measured.between(new) & (distance != 0)).any()


@given(arrays(float, st.tuples(st.integers(1, 12), st.just(2)), elements=numbers))
def test_training_rows_are_inside_and_on_a_level(x):
    measured = MeasuredRange.of(x)
    assert not measured.distance(x).any()
    assert not measured.between(x).any()
    assert (measured.ratio(x) == 1).all()


@given(arrays(float, 6, elements=st.floats(1e-3, 1e6)), st.floats(1.001, 1e3))
def test_distance_grows_with_the_value(values, factor):
    measured = of(*values)
    new = column(values.max() * factor, values.max() * factor**2)
    near, far = measured.distance(new).ravel()
    assert 0 < near < far
