"""What a simulation comes to: energy, makespan, waits, slowdowns, moves and regret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from foretell.decide.placement.fleet import Fleet
from foretell.decide.placement.optimum import TimedProblem, solve_timed
from foretell.simulate.cluster import Played, Scene

#: Up to which size the best schedule can be computed.
MOST_TASKS, MOST_NODES = 12, 4
_N_SLOTS = 150


@dataclass(frozen=True)
class Figures:
    """The figures of one policy with one seed.

    Attributes
    ----------
    slowdown
        The time from arrival to end, over the time on the fastest type of node.
    regret
        How much more the tasks cost than they could, (E/min E)^H · (T/min T)^(1−H) on average,
        with the wait counted in T: than in the best schedule, or at most so, if this is not known.
    """

    task_j: float
    idle_j: float
    total_j: float
    makespan_s: float
    mean_wait_s: float
    mean_completion_s: float
    mean_slowdown: float
    p95_slowdown: float
    n_moves: int
    n_unplaced: int
    regret: float

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def figures_of(played: Played, optimum: float | None = None) -> Figures:
    """Compute the figures; ``optimum`` is the mean cost of the best schedule, if it is known."""
    tasks = played.tasks
    completion = tasks["end_s"] - tasks["arrival_s"]
    slowdown = tasks["slowdown"]
    return Figures(
        task_j=played.task_j,
        idle_j=played.idle_j,
        total_j=played.task_j + played.idle_j,
        makespan_s=played.makespan_s,
        mean_wait_s=float(tasks["wait_s"].mean()),
        mean_completion_s=float(completion.mean()),
        mean_slowdown=float(slowdown.mean()),
        p95_slowdown=float(np.quantile(slowdown, 0.95)),
        n_moves=played.n_moves,
        n_unplaced=len(played.unplaced),
        regret=max(0.0, mean_cost(played) / (optimum or 1.0) - 1),
    )


def mean_cost(played: Played) -> float:
    """Return what tasks cost on average; 1 if each had its best node at once."""
    tasks = played.tasks
    energy = (tasks["energy_j"] / tasks["least_j"]) ** tasks["H"]
    time = ((tasks["end_s"] - tasks["arrival_s"]) / tasks["fastest_s"]) ** (1 - tasks["H"])
    return float((energy * time).mean())


def best_cost(scene: Scene, played: Sequence[Played], H: float) -> float | None:
    """Return the mean cost of the best schedule of a small scene; None if it is too large.

    Waiting counts, and so may be worth it. Schedules that are known bound how long it lasts.
    """
    problem = timed_problem(scene, played, H)
    total = None if problem is None else solve_timed(problem)
    return None if total is None else total / len(scene.arrivals)


def timed_problem(
    scene: Scene, played: Sequence[Played], H: float, *, may_wait_more: bool = True
) -> TimedProblem | None:
    """Return a small scene as a problem over time; None if it is too large.

    Parameters
    ----------
    may_wait_more
        Whether a task may start later than in all schedules that are known. At H = 1 waiting costs
        nothing, and otherwise the best schedule lets everything wait for the most frugal node.
    """
    fleet = Fleet.of(scene.cluster)
    n_tasks, n_nodes = len(scene.arrivals), len(fleet)
    if not (0 < n_tasks <= MOST_TASKS and 0 < n_nodes <= MOST_NODES) or scene.noise:
        return None
    start_s = scene.arrivals[0].at_s
    end_s = max(p.makespan_s for p in played) * 1.2 + start_s
    slot_s = (end_s - start_s) / _N_SLOTS
    starts = start_s + slot_s * np.arange(_N_SLOTS)
    costs = np.full((n_tasks, n_nodes, _N_SLOTS), np.inf)
    lengths = np.zeros((n_tasks, n_nodes), dtype=np.int64)
    needs = []
    for i, arrival in enumerate(scene.arrivals):
        need = fleet.need(arrival.task.needs)
        if need is None or not (usable := fleet.room(need) & fleet.ready).any():
            return None
        needs.append(need)
        true = scene.truth.of(arrival.task)
        times, energies = (of[fleet.type_of] for of in (true.time_s, true.energy_j))
        weight = H if arrival.task.H is None else arrival.task.H
        energy = (energies / energies[usable].min()) ** weight
        wait = np.maximum(starts - arrival.at_s, 0.0)
        ratio = (wait[None, :] + times[:, None]) / times[usable].min()
        costs[i] = energy[:, None] * ratio ** (1 - weight)
        costs[i][:, starts + slot_s <= arrival.at_s] = np.inf
        costs[i][~usable] = np.inf
        if not may_wait_more:
            costs[i][:, starts > max(p.tasks["start_s"].iloc[i] for p in played)] = np.inf
        lengths[i] = np.maximum(np.floor(times / slot_s).astype(np.int64) - 1, 0)
    return TimedProblem(costs, lengths, np.array(needs), fleet.free)
