"""Intervals as wide as errors were in rehearsals."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretell.model.calibration import (
    BETWEEN,
    BEYOND,
    INSIDE,
    Calibration,
    Rehearsed,
    Residuals,
    calibrate,
)

KNOWN = np.array([False])
NO_RESIDUALS = np.zeros(0)


def rehearsed(kind, residuals, distance=0.0):
    residuals = np.array(residuals, dtype=float)
    return Rehearsed(kind, residuals, np.full(len(residuals), distance))


def normal(scale, n=100, seed=0):
    return np.random.default_rng(seed).normal(0, scale, n)


def of(*folds, unknown=NO_RESIDUALS, log_range=2.0):
    return calibrate(folds, np.asarray(unknown), log_range)


def width(calibration, kind, distance=0.0, level=0.9, *, is_unknown=False):
    low, high = calibration.bounds(
        np.array([kind]), np.array([distance]), np.array([is_unknown]), level
    )
    return float((high - low)[0])


#: Errors grow from 2 % inside to a fifth at a distance of one range.
GROWING = of(
    rehearsed(INSIDE, normal(0.02)),
    rehearsed(BETWEEN, normal(0.03)),
    rehearsed(BEYOND, normal(0.1, seed=1), 0.5),
    rehearsed(BEYOND, normal(0.2, seed=2), 1.0),
    unknown=normal(0.5),
)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_an_interval_holds_the_share_of_new_runs_it_is_asked_for(level):
    residuals = Residuals.of(normal(0.1, 300))
    low, high = residuals.bounds(level)
    new = normal(0.1, 10_000, seed=1)
    assert np.mean((low <= new) & (new <= high)) == pytest.approx(level, abs=0.05)


def test_of_many_residuals_the_quantiles_are_kept():
    many = normal(1.0, 20_000)
    kept = Residuals.of(many)
    assert len(kept.values) < 1000
    assert kept.bounds(0.9) == pytest.approx(np.quantile(many, [0.05, 0.95]), abs=0.06)


def test_with_few_residuals_the_interval_is_wider_than_all_of_them():
    low, high = Residuals.of(np.array([-0.1, 0.05, 0.2])).bounds(0.9)
    assert low < -0.1
    assert high > 0.2


def test_an_interval_always_holds_the_prediction():
    for residuals in ([0.1, 0.2, 0.3], [-0.3, -0.2], []):
        low, high = Residuals.of(np.array(residuals)).bounds(0.5)
        assert low <= 0 <= high


def test_mean_error_is_relative_to_what_was_measured():
    # Predicted half and twice of what was measured: 50 % and 100 % off.
    residuals = Residuals.of(np.log([2.0, 0.5]))
    assert residuals.mean_error == pytest.approx(0.75)


def test_intervals_widen_from_inside_to_between_to_beyond_and_with_distance():
    widths = [width(GROWING, INSIDE), width(GROWING, BETWEEN)]
    widths += [width(GROWING, BEYOND, d) for d in (0.5, 1, 2, 4)]
    assert all(a < b for a, b in pairwise(widths))


def test_beyond_the_data_the_interval_is_as_wide_as_errors_were_there():
    low, high = GROWING.bounds(np.array([BEYOND]), np.array([1.0]), KNOWN, 0.9)
    held = normal(0.2, 10_000, seed=3)
    assert np.mean((low <= held) & (held <= high)) == pytest.approx(0.9, abs=0.07)


def test_an_unknown_level_is_as_uncertain_as_it_was_without_knowing_levels():
    assert width(GROWING, INSIDE, is_unknown=True) > 5 * width(GROWING, INSIDE)
    error = GROWING.expected_error(np.array([INSIDE]), np.zeros(1), np.array([True]))
    assert error[0] > 0.25


def test_expected_error_is_what_was_measured_at_such_a_distance():
    kinds, distances = np.array([INSIDE, BEYOND, BEYOND]), np.array([0.0, 0.5, 1.0])
    error = GROWING.expected_error(kinds, distances, np.zeros(3, dtype=bool))
    mean_size = np.sqrt(2 / np.pi)  # of a normal number of deviation 1
    assert error == pytest.approx(mean_size * np.array([0.02, 0.1, 0.2]), rel=0.35)


def test_reach_is_the_largest_distance_rehearsed():
    assert GROWING.reach == 1.0
    assert of(rehearsed(INSIDE, normal(0.02))).reach == 0


def test_without_any_fold_beyond_the_interval_still_widens():
    inside = of(rehearsed(INSIDE, normal(0.02)))
    assert width(inside, BEYOND, 2) > 1.5 * width(inside, BEYOND, 0.5) > width(inside, INSIDE)


def test_without_any_fold_the_interval_is_a_good_part_of_the_range_of_the_target():
    nothing = of(log_range=2.0)
    assert 0.5 < width(nothing, INSIDE) < 8
    assert width(nothing, BEYOND, 1) > width(nothing, INSIDE)


def test_widths_stay_finite_however_far():
    low, high = GROWING.bounds(np.array([BEYOND]), np.array([1e300]), KNOWN, 0.99)
    assert np.isfinite(np.exp([low, high])).all()
    assert 0 < (high - low)[0] <= 20  # nobody needs an interval over ten decades


def test_calibration_survives_json():
    assert Calibration.model_validate_json(GROWING.model_dump_json()) == GROWING


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "wide", None])
def test_numbers_that_are_none_are_refused(value):
    with pytest.raises(pydantic.ValidationError):
        Calibration.model_validate({**GROWING.model_dump(), "slope": value})
    with pytest.raises(pydantic.ValidationError):
        Residuals.model_validate({"values": [value]})


some_residuals = arrays(float, st.integers(0, 30), elements=st.floats(-2, 2))
levels = st.floats(0.01, 0.99)


@given(some_residuals, some_residuals, some_residuals, levels, levels, st.floats(0, 9))
def test_bounds_widen_with_the_level_and_with_the_distance(
    inside, between, beyond, one, other, distance
):
    calibration = of(
        rehearsed(INSIDE, inside), rehearsed(BETWEEN, between), rehearsed(BEYOND, beyond, 0.7)
    )
    lower, higher = sorted([one, other])
    for kind in (INSIDE, BETWEEN, BEYOND):
        narrow, wide = (width(calibration, kind, distance, level) for level in (lower, higher))
        assert 0 <= narrow <= wide + 1e-9
    near, far = (width(calibration, BEYOND, d, lower) for d in (distance, distance + 1))
    assert near <= far + 1e-9
    assert width(calibration, INSIDE, 0, lower) <= width(calibration, BETWEEN, 0, lower) + 1e-9
    assert width(calibration, BETWEEN, 0, lower) <= near + 1e-9
