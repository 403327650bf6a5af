"""Leaving out columns that are never looked at changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

from foretell.model.techniques.linear._columns_met import columns_met
from foretell.model.techniques.linear._least_squares import solve_nonnegative


def products(seed, n_rows=30, n_columns=900):
    """Products of powers of a few columns, many of them nearly alike, of unit length."""
    random = np.random.default_rng(seed)
    base = np.exp(random.normal(0, 0.6, (n_rows, 8)))
    powers = random.choice([-1, -0.5, 0, 0.5, 1, 2], (n_columns, 3))
    matrix = np.prod(base[:, random.integers(0, 8, (n_columns, 3))] ** powers, axis=2)
    return matrix / np.linalg.norm(matrix, axis=0), random


def noisy(matrix, random, noise=0.05):
    return matrix[:, :4] @ random.uniform(0.5, 2, 4) + random.normal(0, noise, len(matrix))


@pytest.mark.parametrize("noise", [0.05, 1e-5])
@pytest.mark.parametrize("seed", range(8))
def test_coefficients_are_those_of_all_columns_to_the_last_bit(seed, noise):
    matrix, random = products(seed)
    target = noisy(matrix, random, noise)
    assert solve_nonnegative(matrix, target).tobytes() == nnls(matrix, target)[0].tobytes()


@pytest.mark.parametrize("factor", [1.0, 1.875])
def test_of_columns_that_are_multiples_of_each_other_the_same_one_is_taken(factor):
    matrix, random = products(1)
    matrix = np.hstack([matrix, factor * matrix])
    target = noisy(matrix, random)
    assert solve_nonnegative(matrix, target).tobytes() == nnls(matrix, target)[0].tobytes()


def test_few_of_many_columns_are_met():
    matrix, random = products(2)
    met = columns_met(matrix, noisy(matrix, random))
    assert len(np.arange(matrix.shape[1])[met]) < 200


def test_where_rounding_alone_decides_all_columns_stay():
    matrix, _ = products(3)
    assert columns_met(matrix, matrix[:, 5]) == slice(None)


def test_of_few_columns_all_stay():
    matrix, random = products(4, n_columns=50)
    assert columns_met(matrix, noisy(matrix, random)) == slice(None)
