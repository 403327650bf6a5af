"""Where a curve is drawn: the whole measured range and some way beyond, at values that exist."""

from types import SimpleNamespace

import numpy as np
import pytest

from foretell.report.sections.curves import grid


def findings(low, high, *, levels=(), is_whole=False, reach=None):
    """Stands for what is known of one column, 'x'."""
    reaches = None if reach is None else SimpleNamespace(reaches={"x": reach})
    model = SimpleNamespace(ranges={"x": (low, high)}, calibration=reaches)
    return SimpleNamespace(model=model, levels=lambda _: list(levels), is_whole=lambda _: is_whole)


def test_whole_numbers_are_all_drawn_and_no_others():
    at = grid(findings(2.0, 8.0, levels=(2, 4, 8), is_whole=True), "x")
    assert at.tolist() == list(range(1, 17))  # twice as far on both sides


@pytest.mark.parametrize(
    ("reach", "ends"),
    [((1.0, 1.0), (5.0, 40.0)), ((3.0, 3.0), (10 / 3, 60.0)), ((9.0, 9.0), (2.5, 80.0))],
)
def test_a_curve_goes_as_far_as_was_rehearsed_within_bounds(reach, ends):
    at = grid(findings(10.0, 20.0, reach=reach), "x")
    assert (at[0], at[-1]) == pytest.approx(ends)


def test_measured_values_and_ends_are_among_the_points():
    at = grid(findings(1.5, 7.5, levels=(1.5, 3.3, 7.5)), "x")
    assert {1.5, 3.3, 7.5} <= set(at)
    assert (np.diff(at) > 0).all()


def test_a_column_that_starts_at_zero_is_not_drawn_below_it():
    assert grid(findings(0.0, 8.0), "x")[0] == 0.0
    at = grid(findings(-4.0, 4.0), "x")
    assert (at[0], at[-1]) == (-6.0, 6.0)
