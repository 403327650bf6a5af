"""The coordinates of laws and processes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foretell.model.techniques._base import State
from foretell.model.techniques.points.axes import Axes

GROUPS = ((2, 3, 4),)


def table(n=12, seed=0):
    """Two positive columns and three levels."""
    random = np.random.default_rng(seed)
    x = random.uniform(1, 50, (n, 2))
    return np.hstack([x, np.eye(3)[np.arange(n) % 3]])


def test_coordinates_have_mean_zero_and_deviation_one_in_training():
    x = table()
    z = Axes.of(x, GROUPS, products=[(0, 1)]).coordinates(x)
    assert z.shape == (12, 3)  # two columns and their product; levels are no axes
    assert z.mean(axis=0) == pytest.approx(0, abs=1e-12)
    assert z.std(axis=0) == pytest.approx(1)


def test_a_positive_column_is_seen_through_its_logarithm():
    axes = Axes.of(np.array([[1.0], [2.0], [4.0], [8.0]]))
    z = axes.coordinates(np.array([[1.0], [2.0], [16.0], [32.0]])).ravel()
    assert z[1] - z[0] == pytest.approx(z[3] - z[2])


@pytest.mark.parametrize(
    ("values", "is_log"),
    [
        ([1, 2, 3], True),
        ([0, 1, 10, 100], True),  # zeros among large numbers
        ([0, 1, 2, 3], False),
        ([0, 1], False),
        ([-1, 5, 500], False),
    ],
)
def test_logarithms_are_taken_where_they_make_sense(values, is_log):
    assert Axes.of(np.array(values, dtype=float)[:, None]).is_log.tolist() == [is_log]


def test_a_constant_column_and_a_category_of_one_level_give_no_axis():
    x = np.column_stack([np.full(5, 3.0), np.ones(5)])
    axes = Axes.of(x, ((1,),))
    assert axes.n_axes == 0
    assert axes.groups == ()
    assert axes.coordinates(x).shape == (5, 0)


def test_levels_become_codes_and_an_unknown_one_is_minus_one():
    axes = Axes.of(table(), GROUPS)
    rows = np.hstack([np.ones((4, 2)), np.vstack([np.eye(3), np.zeros(3)])])
    assert axes.codes(rows).ravel().tolist() == [0, 1, 2, -1]


def test_a_product_is_the_sum_of_two_logarithms():
    x = table()
    axes = Axes.of(x, GROUPS, products=[(0, 1)])
    z = axes.coordinates(x)
    logs = np.log(x[:, 0]) + np.log(x[:, 1])
    assert z[:, 2] == pytest.approx((logs - logs.mean()) / logs.std())


def test_curve_is_what_no_line_in_the_logarithm_explains():
    x = np.geomspace(1, 64, 7)[:, None]
    axes = Axes.of(x)
    z = axes.coordinates(x)
    curve = axes.curves(z)[:, 0]
    design = np.column_stack([np.ones(7), z[:, 0]])
    assert design.T @ curve == pytest.approx(0, abs=1e-9)
    together = np.column_stack([design, curve])
    _, left, *_ = np.linalg.lstsq(together, 1 / x[:, 0], rcond=None)
    assert left == pytest.approx(0, abs=1e-18)  # with the line, it is 1/x


def test_below_the_smallest_value_a_curve_goes_on_as_a_line():
    axes = Axes.of(np.array([[1.0], [2.0], [4.0], [8.0]]))

    def curve(*values):
        return axes.curves(axes.coordinates(np.array(values)[:, None]))[:, 0]

    halved = np.diff(curve(1.0, 0.5, 0.25, 0.125))  # equal steps of the logarithm
    assert halved == pytest.approx(halved[0])
    near = np.diff(curve(1.0, 0.999)) / np.log(0.999)
    inside = np.diff(curve(1.0, 1.001)) / np.log(1.001)
    assert near == pytest.approx(inside, rel=0.01)  # without a bend


def saved(axes):
    state = axes.to_state()
    return State(json.loads(json.dumps(state.values)), dict(state.arrays))


def damaged(axes, **changes):
    state = saved(axes)
    return State(state.values, {**state.arrays, **{k: np.array(v) for k, v in changes.items()}})


@pytest.mark.parametrize(
    "changes",
    [
        {"first": [0, 7, 0]},
        {"first": [0, -1, 0]},
        {"second": [-1, -1, 9]},
        {"deviation": [1.0, 0.0, 1.0]},
        {"group_of": [-1, -1, 1, 1, 1]},
        {"group_of": [-1, -1, 0, 0, 99]},
        {"is_log": [1.0, 1.0, 1.0]},
    ],
    ids=str,
)
def test_a_state_that_makes_no_sense_is_refused(changes):
    axes = Axes.of(table(), GROUPS, products=[(0, 1)])
    with pytest.raises(ValueError):
        Axes.from_state(damaged(axes, **changes), 5)


def test_a_second_column_before_the_first_one_is_refused():
    axes = Axes.of(table(), GROUPS, products=[(0, 1)])
    with pytest.raises(ValueError):
        Axes.from_state(damaged(axes, second=[-1, -1, -7]), 5)


values = st.one_of(st.integers(-3, 3).map(float), st.floats(1e-6, 1e9), st.just(0.0))


@given(arrays(float, st.tuples(st.integers(2, 10), st.just(3)), elements=values))
def test_any_table_survives_saving(x):
    groups = ((2,),)
    x[:, 2] = x[:, 2] > 0
    axes = Axes.of(x, groups, products=[(0, 1)])
    rebuilt = Axes.from_state(saved(axes), 3)
    new = np.vstack([x, 2 * x, -x])
    z = axes.coordinates(new)
    assert np.array_equal(rebuilt.coordinates(new), z)
    assert np.array_equal(rebuilt.curves(z), axes.curves(z))
    assert np.array_equal(rebuilt.codes(new), axes.codes(new))
    assert rebuilt.groups == axes.groups


@given(arrays(float, st.integers(2, 10), elements=values), st.lists(values, min_size=2, max_size=8))
def test_an_axis_never_falls_as_its_column_grows(x, new):
    assume(np.ptp(x) > 0)
    z = Axes.of(x[:, None]).coordinates(np.sort(new)[:, None]).ravel()
    assert np.isfinite(z).all()
    assert (np.diff(z) >= 0).all()
