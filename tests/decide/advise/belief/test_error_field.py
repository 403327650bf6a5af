"""The errors of a model as a field, and what runs reveal of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import truncnorm

from foretell.decide.advise.belief.error_field import ErrorField, log_sizes

from ...conftest import z


def correlations(*places):
    """Correlations that fall with the distance."""
    distance = np.abs(np.subtract.outer(np.log(places), np.log(places)))
    return np.exp(-distance / 4)


def field_of(sizes, alike, noise):
    """A field whose draws are Gaussian."""
    deviates = np.random.default_rng(0).multivariate_normal(np.zeros(len(sizes)), alike, 4000)
    return ErrorField.of(np.asarray(sizes, dtype=float), alike, deviates, noise)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1, 64), min_size=2, max_size=8, unique=True), st.data())
def test_runs_only_take_doubt_away(places, data):
    field = field_of(np.full(len(places), 0.3), correlations(*places), 0.02)
    before = field.variance.copy()
    row = data.draw(st.integers(0, len(places) - 1))
    field.see_runs(np.array([row]), np.ones(1))
    assert (field.variance <= before + 1e-9).all()
    assert field.variance[row] < 0.02**2 * 1.01
    assert np.linalg.eigvalsh(field.covariance).min() > -1e-9


@settings(max_examples=50, deadline=None)
@given(st.floats(-2, 3))
def test_at_least_so_long_moves_all_that_is_alike_up_and_takes_doubt_away(log_error):
    field = field_of(np.full(3, 0.3), correlations(4.0, 5.0, 64.0), 0.02)
    before = field.variance.copy()
    field.see_at_least(0, log_error)
    assert field.mean[0] >= field.mean[1] >= field.mean[2] >= 0
    assert field.mean[0] >= min(log_error, 0) * 0.99
    assert (field.variance <= before + 1e-12).all()
    if log_error > 1:  # far above what was predicted: it is believed
        assert field.mean[0] > 0.9 * log_error


def field_of_three(noise=0.05):
    return field_of([0.3, 0.2, 0.4], correlations(4.0, 8.0, 64.0), noise)


def test_runs_leave_the_covariance_of_a_conditioned_gaussian():
    field = field_of_three()
    covariance, counts = field.covariance.copy(), np.array([1.0, 4.0])
    field.see_runs(np.array([0, 2]), counts)
    # The precision form of the same update, which needs no cross-covariances.
    precision = np.linalg.inv(covariance) + np.diag([1 / 0.05**2, 0, 4 / 0.05**2])
    np.testing.assert_allclose(field.covariance, np.linalg.inv(precision), atol=1e-7)


def test_draws_have_the_covariance_of_the_field_before_and_after_runs():
    field = field_of_three()
    for _ in range(2):
        found = field.drawn.T @ field.drawn / len(field.drawn)
        size = np.sqrt(np.outer(field.variance, field.variance))
        np.testing.assert_allclose(found / size, field.covariance / size, atol=0.08)
        field.see_runs(np.array([0, 2]), np.array([1.0, 4.0]))


def test_a_run_that_was_stopped_leaves_the_moments_of_a_truncated_gaussian():
    field = field_of_three()
    total = np.sqrt(0.3**2 + 0.05**2)
    expected = truncnorm(0.5 / total, np.inf, scale=total)
    share = 0.3**2 / total**2  # of the error in what is seen
    field.see_at_least(0, 0.5)
    assert field.mean[0] == pytest.approx(share * expected.mean())
    left = 0.3**2 - share**2 * (total**2 - expected.var())
    assert field.variance[0] == pytest.approx(left)


def test_draws_after_a_run_that_was_stopped_are_those_that_agree_with_it():
    field = field_of_three(noise=1e-6)
    field.see_at_least(0, 0.5)
    errors = field.mean + field.drawn
    assert errors[:, 0].min() > 0.45
    # The second is alike, and the third hardly.
    expected = truncnorm(0.5 / 0.3, np.inf, scale=0.3)
    assert errors[:, 0].mean() == pytest.approx(expected.mean(), rel=0.05)
    assert errors[:, 0].std() == pytest.approx(expected.std(), rel=0.3)
    field.see_at_least(0, 5.0)  # more than any draw
    assert np.isfinite(field.drawn).all()


def test_the_effect_of_a_run_is_its_covariance_in_standard_deviations():
    field = field_of_three()
    expected = field.covariance[:, 1] / np.sqrt(0.2**2 + 0.05**2)
    np.testing.assert_allclose(field.effect(1), expected)


def test_sizes_come_from_intervals_without_the_noise_of_runs():
    ends = [np.exp(0.25 * z(p)) * np.ones(1) for p in (0.05, 0.95)]
    assert log_sizes(*ends, noise=0.0)[0] == pytest.approx(0.25)
    assert log_sizes(*ends, noise=0.15)[0] == pytest.approx(0.2)
    assert log_sizes(*ends, noise=0.25)[0] > 0  # some of it is always the model's error
