"""The best placement there is, by integer programming: all tasks at once, or over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_MOST_PAIRS = 20_000  # of a task and a node: more take HiGHS longer than a few seconds
_MOST_VARIABLES = 200_000


@dataclass(frozen=True, eq=False)
class Problem:
    """Tasks to place at the same moment.

    Attributes
    ----------
    costs
        One row per task, one column per node; infinite where a task must not go.
    needs
        One row per task, one column per resource.
    free
        One row per resource, one column per node.
    """

    costs: Array
    needs: NDArray[np.int64]
    free: NDArray[np.int64]

    @property
    def is_small(self) -> bool:
        """Whether it can be solved in seconds."""
        return self.costs.size <= _MOST_PAIRS


def solve(problem: Problem) -> list[int | None]:
    """Return the node of each task: as many tasks as possible, at the least sum of costs."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    tasks, nodes = np.nonzero(np.isfinite(problem.costs))
    n_tasks, n_nodes = problem.costs.shape
    if len(tasks) == 0:
        return [None] * n_tasks
    cost = problem.costs[tasks, nodes]
    reward = 1.0 + n_tasks * float(cost.max())  # a placed task is worth more than all costs
    pairs = np.arange(len(tasks))
    once = csr_array((np.ones(len(tasks)), (tasks, pairs)), shape=(n_tasks, len(tasks)))
    limits = [LinearConstraint(once, ub=np.ones(n_tasks))]
    for need, free in zip(problem.needs.T, problem.free, strict=True):
        size = max(1.0, float(need.max()))  # HiGHS is most exact with numbers near 1
        used = csr_array((need[tasks] / size, (nodes, pairs)), shape=(n_nodes, len(tasks)))
        limits.append(LinearConstraint(used, ub=np.minimum(free / size, 1e9)))
    found = milp(
        cost - reward,
        integrality=np.ones(len(tasks), dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=limits,
        options={"mip_rel_gap": 1e-9},
    )
    placed: list[int | None] = [None] * n_tasks
    if found.x is not None:
        for pair in np.flatnonzero(found.x > 0.5):
            placed[tasks[pair]] = int(nodes[pair])
    return placed


@dataclass(frozen=True, eq=False)
class TimedProblem:
    """Tasks that arrive over time, with time cut into slots of equal length.

    Attributes
    ----------
    costs
        By task, node and slot in which the task starts; infinite where it must not.
    n_slots
        Through how many whole slots each task surely runs on each node, after the one in which it
        starts. Only these count as in use, so that no schedule is better than the optimum found.
    """

    costs: Array
    n_slots: NDArray[np.int64]
    needs: NDArray[np.int64]
    free: NDArray[np.int64]


def solve_timed(problem: TimedProblem) -> float | None:
    """Return the least sum of costs of all tasks; None if it is not found."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array, csr_array

    tasks, nodes, starts = np.nonzero(np.isfinite(problem.costs))
    n_tasks, n_nodes, horizon = problem.costs.shape
    if not 0 < len(tasks) <= _MOST_VARIABLES:
        return None
    variables = np.arange(len(tasks))
    once = csr_array((np.ones(len(tasks)), (tasks, variables)), shape=(n_tasks, len(tasks)))
    limits = [LinearConstraint(once, lb=np.ones(n_tasks), ub=np.ones(n_tasks))]
    lengths = problem.n_slots[tasks, nodes]
    runs = np.repeat(variables, lengths)
    offsets = np.arange(len(runs)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    slots = starts[runs] + 1 + offsets
    inside = slots < horizon
    runs, slots = runs[inside], slots[inside]
    cells = nodes[runs] * horizon + slots
    for need, free in zip(problem.needs.T, problem.free, strict=True):
        size = max(1.0, float(need.max()))
        used = coo_array(
            (need[tasks[runs]] / size, (cells, runs)), shape=(n_nodes * horizon, len(tasks))
        )
        room = np.repeat(np.minimum(free / size, 1e9), horizon)
        limits.append(LinearConstraint(used.tocsr(), ub=room))
    cost = problem.costs[tasks, nodes, starts]
    found = milp(
        cost,
        integrality=np.ones(len(tasks), dtype=np.int64),
        bounds=Bounds(0, 1),
        constraints=limits,
        options={"mip_rel_gap": 1e-4, "time_limit": 60.0},
    )
    return None if found.x is None else float(found.fun)
