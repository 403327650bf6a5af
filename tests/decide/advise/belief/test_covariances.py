"""Covariances of the logs of results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern, WhiteKernel

from foretell.decide.advise.belief.covariances import Covariance, same_places

PLACES = np.random.default_rng(0).random((7, 3))


def drawn(n_coordinates, seed=0):
    return next(Covariance.draw(1, n_coordinates, seed))


def test_covariance_is_that_of_a_level_slopes_a_matern_process_and_noise_of_its_own():
    covariance = drawn(3)
    slopes = DotProduct(0, "fixed")((PLACES - 0.5) * covariance.slopes)
    rest = covariance.size**2 * Matern(1 / covariance.rates, nu=1.5) + WhiteKernel(
        covariance.own**2
    )
    expected = (ConstantKernel(covariance.level**2) + rest)(PLACES) + slopes
    np.testing.assert_allclose(
        covariance.between(PLACES, PLACES, same_places(PLACES, PLACES)), expected
    )
    np.testing.assert_allclose(covariance.at(PLACES), np.diag(expected))


def test_what_a_configuration_has_of_its_own_is_shared_by_its_repeats_alone():
    covariance = Covariance(0.0, np.zeros(3), 0.0, np.ones(3), 0.2)
    some, others = PLACES[:2], PLACES[[1, 0, 1]]
    np.testing.assert_allclose(
        covariance.between(some, others, same_places(some, others)),
        0.04 * np.array([[0, 1, 0], [1, 0, 1]]),
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 40), st.integers(0, 1000))
def test_drawn_covariances_are_positive_whatever_the_columns(n_coordinates, seed):
    random = np.random.default_rng(seed)
    places = random.uniform(-1, 2, (12, n_coordinates))
    steps = 10 ** random.uniform(-12, -2) * np.arange(4)  # some are so near that they are rounded
    places = np.vstack([places, places[:1] + steps[:, None]])
    matrix = drawn(n_coordinates, seed).between(places, places, same_places(places, places))
    assert np.linalg.eigvalsh(matrix).min() > -1e-8 * np.trace(matrix)
    np.testing.assert_allclose(matrix, matrix.T)


def test_the_same_seed_draws_the_same_processes_and_another_seed_others():
    assert drawn(4, 1).size == drawn(4, 1).size != drawn(4, 2).size
    np.testing.assert_array_equal(drawn(4, 1).rates, drawn(4, 1).rates)


def test_slopes_together_are_as_large_with_many_columns_as_with_some():
    def total(n_coordinates):
        found = [np.square(c.slopes).sum() for c in Covariance.draw(2000, n_coordinates, 0)]
        return np.median(found)

    assert total(36) == pytest.approx(total(9), rel=0.5)
