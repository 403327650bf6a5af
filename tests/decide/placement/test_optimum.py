"""The best placement and approximations of it; solvers in C print nothing into results."""

import ctypes
import sys

import numpy as np
import pytest

from foretell.decide.placement.optimum import (
    Problem,
    _moved,
    _traded,
    approximate,
    c_output_discarded,
    solve,
)


def test_what_c_prints_is_discarded_and_only_that(capfd):
    libc = ctypes.CDLL(None)
    sys.stdout.write("before\n")
    with c_output_discarded():
        libc.puts(b"noise")
    sys.stdout.write("after\n")
    libc.fflush(None)
    assert capfd.readouterr().out == "before\nafter\n"


@pytest.mark.parametrize("seed", range(30))
def test_an_approximation_keeps_to_what_is_free_and_is_near_the_optimum(seed):
    random = np.random.default_rng(seed)
    n_tasks, n_nodes = int(random.integers(4, 14)), int(random.integers(2, 6))
    costs = np.exp(random.normal(0, 1, (n_tasks, n_nodes)))
    needs = random.integers(1, 5, (n_tasks, 2))
    # Just enough room that tasks must make way for one another.
    free = np.full((2, n_nodes), int(1.3 * needs.sum(axis=0).max() / n_nodes) + 3)
    problem = Problem(costs, needs, free)
    placed, best = approximate(problem), solve(problem)
    assert None not in placed
    used = np.zeros_like(free)
    for task, node in enumerate(placed):
        used[:, node] += needs[task]
    assert (used <= free).all()
    found, least = (sum(costs[t, n] for t, n in enumerate(way)) for way in (placed, best))
    assert least <= found * (1 + 1e-9)
    assert found <= 1.25 * least


def test_tasks_trade_places_where_each_alone_could_not_move():
    """Both nodes are full: the tasks cannot be placed well by the order of what they would lose."""
    costs = np.array([[1.0, 2.0], [1.0, 3.0], [2.0, 1.0], [5.0, 1.0]])
    problem = Problem(costs, np.array([[1], [1], [1], [1]]), np.array([[2, 2]]))
    placed: list[int | None] = [1, 0, 0, 1]
    assert _traded(problem, placed, np.array([[0, 0]]))
    assert placed == [0, 0, 1, 1]


def test_a_task_moves_to_a_cheaper_node_that_has_room():
    problem = Problem(np.array([[3.0, 1.0]]), np.array([[2]]), np.array([[2, 2]]))
    placed: list[int | None] = [0]
    free = np.array([[0, 2]])
    assert _moved(problem, placed, free)
    assert placed == [1]
    assert free.tolist() == [[2, 0]]
    assert not _moved(problem, placed, free)
