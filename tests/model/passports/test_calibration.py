"""Intervals as wide as errors were in rehearsals."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretell.model.passports.calibration import (
    Calibration,
    Rehearsed,
    Residuals,
    Spot,
    calibrate,
)
from foretell.model.passports.questions import QuestionKind

INSIDE, BETWEEN, BEYOND, UNKNOWN = QuestionKind
NO_RESIDUALS = np.zeros(0)
NODES, SIZE = "nodes", "size"


def rehearsed(kind, residuals, distance=0.0, column=NODES, direction=1):
    residuals = np.array(residuals, dtype=float)
    columns = () if kind == INSIDE else (column,)
    far = np.full(len(residuals), distance)
    # A range of 1 to 4, and every run a configuration of its own.
    return Rehearsed(kind, columns, direction, residuals, far, 4**far, np.arange(len(residuals)))


def normal(scale, n=100, seed=0):
    return np.random.default_rng(seed).normal(0, scale, n)


def of(*folds, log_range=2.0, cuttable=(NODES, SIZE)):
    return calibrate(folds, NO_RESIDUALS, log_range, cuttable)


def spot(nodes=0.0, size=0.0, *, between=False, is_unknown=False, is_stopped=False):
    """One row: how far outside along two columns, or between the nodes measured."""
    is_between = np.array([[between, False]])
    far = np.array([[nodes, size]])
    return Spot(
        [NODES, SIZE],
        far,
        4 ** np.minimum(np.abs(far), 99),
        is_between,
        {"machine": np.array([is_unknown])},
        np.array([is_stopped]),
    )


def width(calibration, place, level=0.9):
    low, high = calibration.bounds(place, level)
    return float((high - low)[0])


def held(calibration, place, residuals, level=0.9):
    """Return the share of some residuals that an interval holds."""
    low, high = calibration.bounds(place, level)
    return np.mean((low <= residuals) & (residuals <= high))


#: Errors grow from 2 % inside to a fifth at a distance of one range above the nodes.
GROWING = of(
    rehearsed(INSIDE, normal(0.02)),
    *(rehearsed(BETWEEN, of_level) for of_level in np.split(normal(0.03), 4)),
    rehearsed(BEYOND, normal(0.1, seed=1), 0.5),
    rehearsed(BEYOND, normal(0.2, seed=2), 1.0),
    rehearsed(BEYOND, normal(0.02, seed=3), 0.7, SIZE, -1),
    rehearsed(UNKNOWN, normal(0.5), column="machine"),
)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_an_interval_holds_the_share_of_new_runs_it_is_asked_for(level):
    residuals = Residuals.of(normal(0.1, 300))
    low, high = residuals.bounds(level)
    new = normal(0.1, 10_000, seed=1)
    share = np.mean((low <= new) & (new <= high))
    assert level - 0.05 < share < level + 0.1  # rather a bit too wide than too narrow


def test_of_many_residuals_the_quantiles_are_kept():
    many = normal(1.0, 20_000)
    kept = Residuals.of(many)
    assert len(kept.values) < 1000
    found = np.array(kept.bounds(0.9)) / Residuals.of(many[:400]).bounds(0.9)
    assert found == pytest.approx(1, abs=0.15)


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
    places = [spot(), spot(between=True), *(spot(d) for d in (0.5, 1, 2, 4))]
    widths = [width(GROWING, place) for place in places]
    assert all(a < b for a, b in pairwise(widths))


def test_beyond_the_data_the_interval_is_as_wide_as_errors_were_there():
    calibration = of(
        rehearsed(INSIDE, normal(0.02)),
        rehearsed(BEYOND, normal(0.1, seed=1), 0.5),
        rehearsed(BEYOND, normal(0.2, seed=2), 1.0),
    )
    for distance, scale in ((0.5, 0.1), (1.0, 0.2)):
        new = normal(scale, 10_000, seed=3)
        assert held(calibration, spot(distance), new) == pytest.approx(0.9, abs=0.09)


def test_each_column_and_each_way_has_its_own_errors():
    assert width(GROWING, spot(nodes=0.7)) > 2 * width(GROWING, spot(size=-0.7))
    both = width(GROWING, spot(nodes=0.7, size=-0.7))
    assert both >= width(GROWING, spot(nodes=0.7))


FEW = (
    rehearsed(INSIDE, normal(0.02)),
    *(rehearsed(BETWEEN, of_level, column=SIZE) for of_level in np.split(normal(0.02), 4)),
    rehearsed(BEYOND, normal(0.05), 1.0, SIZE),
)


def test_a_column_left_out_of_the_rehearsals_is_taken_for_the_others():
    found = of(*FEW)
    assert width(found, spot(nodes=1.0)) == pytest.approx(width(found, spot(size=1.0)))
    assert width(found, spot(between=True)) < 0.2


def test_few_levels_held_out_between_others_make_intervals_wider():
    def width_from(n_levels):
        residuals = np.split(normal(0.3, 120), n_levels)
        folds = [rehearsed(BETWEEN, own) for own in residuals]
        return width(of(rehearsed(INSIDE, normal(0.01)), *folds), spot(between=True))

    one, two, six = (width_from(n) for n in (1, 2, 6))
    assert one > 1.2 * two > 1.2 * six  # the runs of one level are wrong together


def test_a_column_with_too_few_values_to_rehearse_is_less_certain_outside_and_between():
    found = of(*FEW, cuttable=[SIZE])
    assert width(found, spot(nodes=1.0)) > 3 * width(found, spot(size=1.0))
    assert width(found, spot(between=True)) > 2 * width(of(*FEW), spot(between=True))


def test_an_unknown_level_is_as_uncertain_as_it_was_without_knowing_levels():
    assert width(GROWING, spot(is_unknown=True)) > 5 * width(GROWING, spot())
    assert GROWING.expected_error(spot(is_unknown=True))[0] > 0.25


def test_few_levels_left_out_say_little_of_the_next():
    inside = rehearsed(INSIDE, normal(0.05))
    one, many = (
        of(inside, *(rehearsed(UNKNOWN, normal(0.5, seed=i), column=f"m={i}") for i in range(n)))
        for n in (1, 6)
    )
    assert width(one, spot(is_unknown=True)) > 1.5 * width(many, spot(is_unknown=True))


def test_an_unknown_level_of_a_category_with_one_level_is_not_certain():
    assert width(of(rehearsed(INSIDE, normal(0.001))), spot(is_unknown=True)) > 0.5


def test_expected_error_is_what_was_measured_at_such_a_distance():
    found = [GROWING.expected_error(place)[0] for place in (spot(), spot(0.5), spot(1.0))]
    mean_size = np.sqrt(2 / np.pi)  # of a normal number of deviation 1
    assert found == pytest.approx(mean_size * np.array([0.02, 0.1, 0.2]), rel=0.4)


def test_near_is_as_far_as_was_rehearsed_along_each_column_and_way():
    for place, is_near in (
        (spot(0.9), True),
        (spot(1.1), False),
        (spot(-0.1), False),  # never asked below
        (spot(size=-0.6), True),
        (spot(size=0.1), False),
        (spot(0.9, -0.6), True),
        (spot(0.9, -0.8), False),
    ):
        assert GROWING.is_near(place).tolist() == [is_near], place.distance
    inside = of(rehearsed(INSIDE, normal(0.02)))
    assert inside.is_near(spot(0.01)).tolist() == [False]


def test_intervals_are_supported_up_to_four_times_where_errors_were_rehearsed():
    for place, is_supported in (
        (spot(1.0), True),  # 4 times above, which was rehearsed
        (spot(1.1), False),
        (spot(-0.1), False),  # never asked below
        (spot(size=-0.9), True),  # rehearsed to 2.6 times below; this is 3.5 times
        (spot(size=-1.1), False),
        (spot(size=0.1), False),
        (spot(0.9, -0.9), True),
        (spot(1.1, -0.9), False),
    ):
        assert GROWING.is_supported(place).tolist() == [is_supported], place.distance
    for reach, expected in ((1.4, [True, False]), (1.5, [True, True])):
        known = GROWING.model_copy(update={"reaches": {NODES: (1.0, reach)}})
        found = [known.is_supported(spot(np.log(r) / np.log(4)))[0] for r in (1.3, 3.0)]
        assert found == expected, "a short rehearsal says nothing of 3 times"


def far_out(ratios, configuration=None):
    """One fold above the nodes, with runs at these ratios."""
    ratios = np.array(ratios, dtype=float)
    configuration = np.arange(len(ratios)) if configuration is None else np.array(configuration)
    return Rehearsed(BEYOND, (NODES,), 1, 0.01 * ratios, np.log(ratios), ratios, configuration)


@pytest.mark.parametrize(
    ("folds", "reach"),
    [
        ([far_out([2, 2, 2, 16])], 2),  # one run at 16× tells nothing of the next one there
        ([far_out([2, 4, 16])], 2),
        ([far_out([4, 4, 4])], 4),
        ([far_out([1.5])], 1.5),  # a step that size is bearable
        ([far_out([16])], 2),
        ([far_out([16] * 5, [7] * 5)], 2),  # repeats of one configuration
        ([far_out([8], [7]), far_out([16, 2], [7, 8])], 2),  # one run in two folds
        ([far_out([3, 3], [1, 2]), far_out([5], [3])], 3),
    ],
    ids=str,
)
def test_errors_are_known_as_far_out_as_several_configurations_were_predicted(folds, reach):
    known = of(rehearsed(INSIDE, normal(0.02)), *folds)
    assert known.reaches == {NODES: (1.0, reach)}


def test_without_any_fold_beyond_the_interval_still_widens():
    inside = of(rehearsed(INSIDE, normal(0.02)))
    assert width(inside, spot(2)) > 1.5 * width(inside, spot(0.5)) > width(inside, spot())


def test_without_any_fold_the_interval_is_a_good_part_of_the_range_of_the_target():
    nothing = of(log_range=2.0)
    assert 0.5 < width(nothing, spot()) < 8
    assert width(nothing, spot(1)) > width(nothing, spot())


def test_widths_stay_finite_however_far():
    low, high = GROWING.bounds(spot(1e100), 0.99)
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
    folds = [
        rehearsed(INSIDE, inside), rehearsed(BETWEEN, between), rehearsed(BEYOND, beyond, 0.7),
    ]  # fmt: skip
    calibration = of(*(fold for fold in folds if len(fold.residuals)))
    lower, higher = sorted([one, other])
    for place in (spot(), spot(between=True), spot(distance)):
        narrow, wide = (width(calibration, place, level) for level in (lower, higher))
        assert 0 <= narrow <= wide + 1e-9
    near, far = (width(calibration, spot(d), lower) for d in (distance, distance + 1))
    assert near <= far + 1e-9
    assert width(calibration, spot(), lower) <= width(calibration, spot(between=True), lower) + 1e-9
    assert width(calibration, spot(), lower) <= near + 1e-9
