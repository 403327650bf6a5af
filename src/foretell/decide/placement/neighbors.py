"""Neighbors: how tasks with profiles slow one another on the node that they share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from foretell.decide.corun.fluid import steady_speeds
from foretell.decide.corun.jobs import Capacity, JobNeeds
from foretell.decide.placement.cluster import Cluster
from foretell.decide.placement.fleet import Fleet
from foretell.decide.placement.tasks import Task

Array = NDArray[np.float64]
#: The feature of a task that names its profile.
PROFILE = "profile"
_MOST_KNOWN = 100_000


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
        self._always: dict[int, tuple[str, ...]] = {}
        self._tasks: dict[int, dict[int, str]] = {}
        self._here: dict[int, tuple[str, ...]] = {}  # the names on a node, sorted
        self._known: dict[tuple[int, tuple[str, ...]], dict[str, float]] = {}

    @classmethod
    def of(cls, cluster: Cluster, fleet: Fleet, needs: Mapping[str, JobNeeds]) -> Neighbors | None:
        """Return what runs on nodes by the cluster file; None where nothing has a profile."""
        if not needs:
            return None
        found = cls(fleet, needs)
        places = {name: i for i, name in enumerate(fleet.names)}
        for state in cluster.node:
            found._always[places[state.name]] = tuple(state.running)
            found._note(places[state.name])
        return found

    def add(self, node: int, number: int, task: Task) -> None:
        """Note that a task starts on a node."""
        if self.knows(task):
            self._tasks.setdefault(node, {})[number] = profile_of(task)
            self._note(node)

    def remove(self, node: int, number: int) -> None:
        """Note that a task has left a node."""
        if self._tasks.get(node, {}).pop(number, None) is not None:
            self._note(node)

    def knows(self, task: Task) -> bool:
        """Whether a task has a profile."""
        return profile_of(task) in self._needs

    def speeds(self, node: int) -> dict[int, float]:
        """Return the speed of each task with a profile on a node; 1 is as alone."""
        here = self._tasks.get(node)
        if not here:
            return {}
        by_name = self._speeds(node, self._here[node])
        return {number: by_name[name] for number, name in here.items()}

    def slowdowns(self, task: Task, nodes: NDArray[np.int64]) -> Array | None:
        """Return how many times longer a task would take on some nodes, beside what runs there."""
        if not self.knows(task):
            return None
        found, name = np.ones(len(nodes)), profile_of(task)
        for place, node in enumerate(nodes.tolist()):
            here = self._here.get(node)
            if here:
                found[place] = 1 / self._speeds(node, tuple(sorted((name, *here))))[name]
        return found

    def slowdown_there(self, task: Task, node: int) -> float:
        """Return how many times longer a task takes on the node where it runs."""
        name, here = profile_of(task), self._here.get(node, ())
        return 1 / self._speeds(node, here)[name] if name in here else 1.0

    def _note(self, node: int) -> None:
        tasks = self._tasks.get(node, {}).values()
        self._here[node] = tuple(sorted((*self._always.get(node, ()), *tasks)))

    def _speeds(self, node: int, names: tuple[str, ...]) -> dict[str, float]:
        """Return the speeds of jobs by name: those of one name are equally fast."""
        cores = self._fleet.cores(node)
        found = self._known.get((cores, names))
        if found is None:
            jobs = [self._needs[name] for name in names]
            found = dict(zip(names, steady_speeds(jobs, Capacity(cores)), strict=True))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[cores, names] = found
        return found


def profile_of(task: Task) -> str:
    """Return the name of the profile that a task gives; empty if it gives none."""
    return str(task.features.get(PROFILE, ""))
