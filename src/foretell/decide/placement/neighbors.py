"""Neighbors: how tasks with profiles slow one another on the node that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from foretell.decide.corun.fluid import steady_speeds
from foretell.decide.corun.jobs import Capacity, JobNeeds
from foretell.decide.placement.fleet import Fleet
from foretell.decide.placement.tasks import Task

Array = NDArray[np.float64]
#: The feature of a task that names its profile.
PROFILE = "profile"


class Neighbors:
    """Which tasks with profiles run on each node, and how fast each of them is.

    A task needs at any time what it needs on average. What CPUs it asked for decides where it has
    room; what it uses, by its profile, decides how far it slows others.

    Parameters
    ----------
    needs
        What jobs need alone, by the name that tasks give as their profile.
    """

    def __init__(self, fleet: Fleet, needs: Mapping[str, JobNeeds]) -> None:
        self._fleet = fleet
        self._needs = {name: job.steady() for name, job in needs.items()}
        self._capacities = [Capacity(max(1, int(t.capacity.cpus))) for t in fleet.types]
        self._here: dict[int, dict[int, JobNeeds]] = {}
        self._known: dict[tuple[int, tuple[str, ...]], tuple[float, ...]] = {}

    def add(self, node: int, number: int, task: Task) -> None:
        """Note that a task starts on a node."""
        job = self._job(task)
        if job is not None:
            self._here.setdefault(node, {})[number] = job

    def remove(self, node: int, number: int) -> None:
        """Note that a task has left a node."""
        self._here.get(node, {}).pop(number, None)

    def speeds(self, node: int) -> dict[int, float]:
        """Return the speed of each task with a profile on a node; 1 is as alone."""
        here = self._here.get(node, {})
        return dict(zip(here, self._speeds(node, list(here.values())), strict=True))

    def slowdowns(self, task: Task, nodes: NDArray[np.int64]) -> Array | None:
        """Return how many times longer a task would take on some nodes, beside what runs there."""
        job = self._job(task)
        if job is None:
            return None
        found = np.ones(len(nodes))
        for place, node in enumerate(nodes):
            here = self._here.get(int(node))
            if here:
                found[place] = 1 / self._speeds(int(node), [job, *here.values()])[0]
        return found

    def _job(self, task: Task) -> JobNeeds | None:
        return self._needs.get(str(task.features.get(PROFILE, "")))

    def _speeds(self, node: int, jobs: Sequence[JobNeeds]) -> tuple[float, ...]:
        kind = int(self._fleet.type_of[node])
        key = (kind, tuple(job.name for job in jobs))
        if key not in self._known:
            self._known[key] = tuple(steady_speeds(jobs, self._capacities[kind]))
        return self._known[key]
