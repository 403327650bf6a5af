"""Halves of the axes of rows that combine few values."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from foretell.model.techniques.points.grid_rows import cheapest_halves, n_occurring


def table(seed, n_axes):
    random = np.random.default_rng(seed)
    return np.column_stack([random.integers(0, k, 40) for k in random.integers(2, 7, n_axes)])


@pytest.mark.parametrize("n_axes", [2, 3, 6])
def test_combinations_that_occur_are_counted_for_each_choice(n_axes):
    rows = table(n_axes, n_axes)
    chosen = [c for k in range(1, n_axes + 1) for c in combinations(range(n_axes), k)]
    choices = np.array([[axis in own for axis in range(n_axes)] for own in chosen])
    expected = [len({tuple(row) for row in rows[:, own]}) for own in chosen]
    assert n_occurring(rows, choices).tolist() == expected


def test_the_cheapest_halves_cost_less_than_all_others():
    rows, sizes = table(0, 5), [1, 2, 1, 3, 1]

    def cost(half):
        rest = [k for k in range(5) if k not in half]
        one, other = (len({tuple(row) for row in rows[:, list(own)]}) for own in (half, rest))
        steps = one * sum(sizes[k] for k in half) + other * sum(sizes[k] for k in rest)
        return steps + one * other / 10

    halves, least = cheapest_halves(sizes, lambda choices: n_occurring(rows, choices), 1e9)
    every = [half for k in range(1, 5) for half in combinations(range(5), k)]
    assert least == cost(halves[0]) == min(map(cost, every))
    assert sorted((*halves[0], *halves[1])) == [0, 1, 2, 3, 4]
    assert cheapest_halves(sizes, lambda choices: n_occurring(rows, choices), least) is None
