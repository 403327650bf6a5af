"""The best placement there is, by integer programming: all tasks at once, or over time."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint

Array = NDArray[np.float64]
_MOST_PAIRS = 20_000  # of a task and a node: more take HiGHS longer than a few seconds
_MOST_VARIABLES = 200_000
_MOST_TASKS = 100  # that may trade places with one another
_MOST_ROUNDS = 20
_LEAST_GAIN = 1e-9
_MOST_S = 60.0  # after which HiGHS returns the best it has found


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

    @property
    def is_moderate(self) -> bool:
        """Whether it can be approximated in milliseconds."""
        return len(self.costs) <= _MOST_TASKS and self.costs.size <= _MOST_PAIRS


def solve(problem: Problem) -> list[int | None]:
    """Return the node of each task: as many tasks as possible, at the least sum of costs."""
    from scipy.optimize import LinearConstraint
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
    found = _minimized(cost - reward, limits, gap=1e-9)
    placed: list[int | None] = [None] * n_tasks
    if found is not None:
        for pair in np.flatnonzero(found > 0.5):
            placed[tasks[pair]] = int(nodes[pair])
    return placed


def approximate(problem: Problem) -> list[int | None]:
    """Return a node for each task, near the optimum, in milliseconds.

    First goes the task that would lose most if it did not get its best node: in all, or for each
    share of a node that it takes. Then tasks move, make room or trade places as long as that lowers
    the sum of costs. The better of the two ways is kept.
    """
    capacity = np.maximum(problem.free.max(axis=1), 1)
    size = np.maximum((problem.needs / capacity).max(axis=1), 1e-9)
    found = []
    for weight in (np.ones(len(size)), 1 / size):
        placed, free = _by_loss(problem, weight)
        for _ in range(_MOST_ROUNDS):
            steps = (_moved, _traded, _made_room)
            if not any(step(problem, placed, free) for step in steps):
                break
        cost = sum(problem.costs[t, n] for t, n in enumerate(placed) if n is not None)
        found.append((placed.count(None), float(cost), placed))
    return min(found, key=lambda way: way[:2])[2]


def _by_loss(problem: Problem, weight: Array) -> tuple[list[int | None], NDArray[np.int64]]:
    """Place tasks by what they would lose, weighted; return their nodes, and what stays free."""
    free = problem.free.copy()
    placed: list[int | None] = [None] * len(problem.costs)
    open_tasks = list(range(len(problem.costs)))
    while open_tasks:
        fits = np.all(problem.needs[open_tasks][:, :, None] <= free[None], axis=1)
        costs = np.where(fits, problem.costs[open_tasks], np.inf)
        ranked = np.sort(costs, axis=1)
        best = ranked[:, 0]
        second = ranked[:, 1] if ranked.shape[1] > 1 else np.full(len(best), np.inf)
        can_go = np.isfinite(best)
        loss = np.full(len(best), -1.0)  # of a task that fits nowhere anymore
        loss[can_go] = (second[can_go] - best[can_go]) * weight[open_tasks][can_go]
        first = int(np.argmax(loss))
        task = open_tasks.pop(first)
        if can_go[first]:
            node = int(np.argmin(costs[first]))
            placed[task] = node
            free[:, node] -= problem.needs[task]
    return placed, free


def _made_room(problem: Problem, placed: list[int | None], free: NDArray[np.int64]) -> bool:
    """Let a task push another one off a cheaper node if both together gain; say if one did."""
    costs, needs = problem.costs, problem.needs
    has_changed = False
    for task, here in enumerate(placed):
        if here is None:
            continue
        for other, there in enumerate(placed):
            if there is None or there == here or costs[task, there] >= costs[task, here]:
                continue
            if not (needs[task] <= free[:, there] + needs[other]).all():
                continue
            room = free.copy()
            room[:, here] += needs[task]
            room[:, there] -= needs[task]
            fits = np.all(needs[other][:, None] <= room, axis=0)
            fits[there] = False
            options = np.where(fits, costs[other], np.inf)
            to = int(np.argmin(options))
            gain = costs[task, here] + costs[other, there] - costs[task, there] - options[to]
            if gain > _LEAST_GAIN:
                free[:] = room
                free[:, there] += needs[other]
                free[:, to] -= needs[other]
                placed[task], placed[other] = there, to
                has_changed = True
                break
    return has_changed


def _moved(problem: Problem, placed: list[int | None], free: NDArray[np.int64]) -> bool:
    """Move tasks to cheaper nodes with room; return whether there was one."""
    has_changed = False
    for task, node in enumerate(placed):
        if node is None:
            continue
        need = problem.needs[task]
        costs = np.where(np.all(need[:, None] <= free, axis=0), problem.costs[task], np.inf)
        best = int(np.argmin(costs))
        if costs[best] < problem.costs[task, node] - _LEAST_GAIN:
            free[:, node] += need
            free[:, best] -= need
            placed[task] = best
            has_changed = True
    return has_changed


def _traded(problem: Problem, placed: list[int | None], free: NDArray[np.int64]) -> bool:
    """Let pairs of tasks trade places if that is cheaper and fits; return whether one did."""
    has_changed = False
    costs, needs = problem.costs, problem.needs
    for a in range(len(placed)):
        for b in range(a + 1, len(placed)):
            here, there = placed[a], placed[b]
            if here is None or there is None or here == there:
                continue
            gain = costs[a, here] + costs[b, there] - costs[a, there] - costs[b, here]
            if not gain > _LEAST_GAIN:
                continue
            extra = needs[a] - needs[b]
            if (extra <= free[:, there]).all() and (-extra <= free[:, here]).all():
                free[:, there] -= extra
                free[:, here] += extra
                placed[a], placed[b] = there, here
                has_changed = True
    return has_changed


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
    from scipy.optimize import LinearConstraint
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
    found = _minimized(cost, limits, gap=1e-4)
    return None if found is None else float(cost @ np.round(found))


def _minimized(cost: Array, limits: Sequence[LinearConstraint], gap: float) -> Array | None:
    """Minimize a cost over choices that are 0 or 1; return None if nothing is found."""
    from scipy.optimize import Bounds, milp

    with c_output_discarded():
        found = milp(
            cost,
            integrality=np.ones(len(cost), dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=limits,
            options={"mip_rel_gap": gap, "time_limit": _MOST_S},
        )
    return None if found.x is None else np.asarray(found.x, dtype=float)


@contextmanager
def c_output_discarded() -> Iterator[None]:
    """Discard what libraries in C print to stdout, where results belong.

    HiGHS 1.12 prints a line of its own even if it is told not to:
    https://github.com/ERGO-Code/HiGHS/issues/2783. Remove this once SciPy has a later one.
    """
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    try:
        kept = os.dup(1)
    except OSError:  # there is no stdout
        yield
        return
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        flush(None)
        os.dup2(kept, 1)
        os.close(kept)
