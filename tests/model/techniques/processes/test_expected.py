"""Fast predictions of a process are those its covariance defines."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.model.techniques.points.axes import Axes
from foretell.model.techniques.points.grid_rows import split_rows
from foretell.model.techniques.processes._expected import Expected
from foretell.model.techniques.processes._kernel import FORMS, Kernel, Training

GROUPS = ((3, 4, 5),)


def rows(random, n, values):
    """Three numeric columns, from few or many values, and a category of three levels."""
    numbers = random.choice(values, (n, 3)) if values else random.uniform(1, 50, (n, 3))
    return np.hstack([numbers, np.eye(3)[random.integers(0, 3, n)]])


def by_covariance(kernel, theta, new, centers, alpha):
    """The processes of a covariance: all of it, less noise and less the trend.

    What is left of large numbers is only as exact as these: also return how exact.
    """
    x = np.vstack([new, centers])
    training = Training(kernel, kernel.coordinates(x), np.ones(len(x)))
    covariance, parts = training.covariance(theta)
    rounding = np.finfo(float).eps * np.abs(covariance).max() * np.abs(alpha).sum()
    covariance -= np.diag(training.noise(theta)) + 4 + parts.trend + parts.pairs
    return covariance[: len(new), len(new) :] @ alpha, rounding


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("values", [None, [2.0, 4.0, 8.0, 16.0]], ids=["all differ", "few values"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40))
def test_expected_is_the_covariance_with_all_centers_times_their_weights(form, values, seed, n):
    random = np.random.default_rng(seed)
    centers, new = rows(random, n, values), rows(random, 30, None)
    kernel = Kernel(Axes.of(centers, GROUPS), FORMS[form])
    theta = kernel.median + random.normal(size=len(kernel.median)) * kernel.spread
    alpha = random.normal(size=n)
    expected = Expected(kernel, theta, kernel.coordinates(centers), alpha)
    fast = expected.at(kernel.coordinates(new))
    slow, rounding = by_covariance(kernel, theta, new, centers, alpha)
    scale = np.abs(alpha).sum() * (np.exp(2 * theta[kernel.slices["bump"]]).sum() + 1)
    assert np.abs(fast - slow).max() < 1e-10 * scale + 10 * rounding


def on_a_grid(random):
    """More rows than are worked out one by one: combinations of few values, some missing."""
    axes = [random.uniform(1, 50, k) for k in (9, 8, 5)]
    numbers = np.array(list(product(*axes, range(3))))
    numbers = numbers[random.uniform(size=len(numbers)) > 0.2]
    return np.hstack([numbers[:, :3], np.eye(3)[numbers[:, 3].astype(int)]])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("products", [[], [(0, 2)]], ids=str)
def test_rows_on_a_grid_are_expected_as_each_alone(form, products):
    random = np.random.default_rng(3)
    centers, new = rows(random, 40, None), on_a_grid(random)
    kernel = Kernel(Axes.of(centers, GROUPS, products), FORMS[form])
    theta = kernel.median + random.normal(size=len(kernel.median)) * kernel.spread
    expected = Expected(kernel, theta, kernel.coordinates(centers), random.normal(size=40))
    at = kernel.coordinates(new)
    assert split_rows([*at.z.T, *at.codes.T], expected.parts, 4 * len(new)) is not None
    few = [expected.at(kernel.coordinates(new[i : i + 50])) for i in range(0, len(new), 50)]
    at_once = expected.at(kernel.coordinates(new))
    np.testing.assert_allclose(at_once, np.concatenate(few), rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 6), min_size=2, max_size=5))
def test_halves_of_a_grid_show_the_values_of_each_row(seed, counts):
    random = np.random.default_rng(seed)
    table = [random.choice(random.normal(size=k), 400) for k in counts]
    parts = [(axis,) for axis in range(len(table))]
    halves = split_rows(table, parts, 1e9)
    assert sorted(axis for half in halves for axis in half.axes) == list(range(len(table)))
    for half in halves:
        for axis in half.axes:
            assert (table[axis][half.example][half.of_row] == table[axis]).all()


def test_rows_that_share_no_values_are_not_split():
    table = list(np.random.default_rng(0).normal(size=(3, 400)))
    assert split_rows(table, [(0,), (1,), (2,)], 400 * 3) is None
    few = [np.arange(400) % 20, np.arange(400) // 20]
    assert split_rows(few, [(0,), (1,)], 400 * 2) is not None
    assert split_rows(few, [(0, 1)], 400 * 2) is None


def test_where_nothing_varies_many_rows_are_expected_as_one():
    same = np.ones((4, 2))
    kernel = Kernel(Axes.of(same), FORMS["smooth"])
    expected = Expected(kernel, kernel.median, kernel.coordinates(same), np.ones(4))
    many, one = (expected.at(kernel.coordinates(np.ones((n, 2)))) for n in (600, 1))
    assert (many == one).all()


def test_hundreds_of_far_axes_overflow_nothing():
    random = np.random.default_rng(0)
    centers = np.exp(random.normal(size=(30, 300)))
    kernel = Kernel(Axes.of(centers), FORMS["smooth"])
    theta = kernel.median.copy()
    theta[kernel.slices["length"]] = np.log(0.01)
    expected = Expected(kernel, theta, kernel.coordinates(centers), np.ones(30))
    assert np.isfinite(expected.at(kernel.coordinates(centers * 2))).all()
