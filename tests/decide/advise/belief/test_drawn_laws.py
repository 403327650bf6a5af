"""Laws drawn from a prior."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.decide.advise.belief.drawn_laws import DrawnLaws, Places

HALVES = np.array([1.5, 0.7])


def laws_of(n=200, seed=0):
    return DrawnLaws.draw(n, HALVES, 1, [3], seed)


def places_of(*rows):
    """Two logs, a share, and a level."""
    table = np.array(rows, dtype=float)
    return Places(table[:, :2], table[:, 2:3], table[:, 3:].astype(np.int64))


ROW = st.tuples(
    st.floats(-3, 3), st.floats(-3, 3), st.floats(0, 1), st.integers(0, 3)
)  # a level after the last is one that no run had


def written_out(laws, k, one, other, share, level):
    """The log of the time of one law at one place, term by term."""
    total = math.exp(laws.slope[k, 0] * one + laws.slope[k, 1] * other) + laws.constant[k]
    found = share * laws.options[k, 0] + laws.effects[0][k, level]
    along = 0.0
    for j, x in enumerate((one, other)):
        total += laws.overhead[k, j] * math.exp(x) + laws.alone[k, j] * math.exp(-x)
        found += laws.bend[k, j] * (x - laws.best[k, j]) ** 2
        along += laws.cliff_along[k, j] * x
    below = (laws.cliff_at[k] - along) / laws.cliff_width[k]
    return math.log(total) + found + laws.cliff_log[k] * min(max(below, 0.0), 1.0)


@settings(max_examples=30, deadline=None)
@given(ROW, st.integers(0, 199))
def test_a_law_is_the_sum_of_its_terms_times_its_factors(row, law):
    laws = laws_of()
    found = laws.at(places_of(row, row))[law]
    assert found[0] == found[1] == pytest.approx(written_out(laws, law, *row), abs=1e-9)


def test_some_laws_are_the_same_laws():
    laws, places = laws_of(), places_of((1, -1, 0, 2), (0, 0.5, 1, 3))
    some = np.array([7, 7, 150])
    np.testing.assert_array_equal(laws.take(some).at(places), laws.at(places)[some])


def test_the_same_seed_draws_the_same_laws():
    places = places_of((1, -1, 0, 2))
    np.testing.assert_array_equal(laws_of().at(places), laws_of().at(places))
    assert (laws_of().at(places) != laws_of(seed=1).at(places)).any()


def test_laws_know_division_growth_best_values_overheads_and_cliffs():
    laws = laws_of(4000)
    grid = np.linspace(-1.5, 1.5, 61)
    times = laws.at(places_of(*((x, 0, 0, 0) for x in grid)))
    steps = np.diff(times, axis=1)
    falls, rises = (steps < 0).all(axis=1), (steps > 0).all(axis=1)
    turns = (steps[:, 0] < 0) & (steps[:, -1] > 0)  # best between the ends
    jumps = np.abs(steps).max(axis=1) > 0.25
    for kind in (falls, rises, turns, jumps):
        assert 0.03 < kind.mean() < 0.7


def test_without_any_column_a_law_is_a_constant():
    laws = DrawnLaws.draw(5, np.zeros(0), 0, [], 0)
    nowhere = Places(np.zeros((3, 0)), np.zeros((3, 0)), np.zeros((3, 0), dtype=np.int64))
    found = laws.at(nowhere)
    assert found.shape == (5, 3)
    assert (found == found[:, :1]).all()
