"""Fast predictions of a process are those its covariance defines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.model.techniques._axes import Axes
from foretell.model.techniques._expected import Expected
from foretell.model.techniques._kernel import FORMS, Kernel, Training

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


def test_hundreds_of_far_axes_overflow_nothing():
    random = np.random.default_rng(0)
    centers = np.exp(random.normal(size=(30, 300)))
    kernel = Kernel(Axes.of(centers), FORMS["smooth"])
    theta = kernel.median.copy()
    theta[kernel.slices["length"]] = np.log(0.01)
    expected = Expected(kernel, theta, kernel.coordinates(centers), np.ones(30))
    assert np.isfinite(expected.at(kernel.coordinates(centers * 2))).all()
