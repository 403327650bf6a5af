"""The nodes of a cluster as arrays: what is free, who fits, and the power that a task adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foretell.decide.placement.cluster import Cluster, Energy
from foretell.decide.placement.estimates import TypeEstimates
from foretell.machines import Node, NodeType, Resources

Array = NDArray[np.float64]
Amounts = NDArray[np.int64]

PODS = "pods"
_CPUS, _MEMORY = "cpus", "memory_bytes"
_MILLIONTHS = 1_000_000
_BYTES = (_MEMORY, "ephemeral-storage", "hugepages-")
_UNLIMITED = 2**62


class Fleet:
    """All nodes, sorted by name, and what is in use on each of them.

    Attributes
    ----------
    ready
        Which nodes take tasks.
    reserved
        Nodes that are kept free for one task.
    n_tasks
        How many tasks run on each node.
    idle_w
        What each node draws when nothing runs; NaN if not known.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        ready: Sequence[bool] | None = None,
        types: Sequence[NodeType] | None = None,
    ) -> None:
        order = sorted(range(len(nodes)), key=lambda i: nodes[i].name)
        chosen = [nodes[i] for i in order]
        self.names = [node.name for node in chosen]
        found = {node.type.name: node.type for node in nodes}
        self.types = list(found.values() if types is None else types)
        places = {t.name: i for i, t in enumerate(self.types)}
        self.type_of = np.array([places[node.type.name] for node in chosen], dtype=np.int64)
        self.ready = np.array([True if ready is None else ready[i] for i in order], dtype=bool)
        self.reserved = np.zeros(len(chosen), dtype=bool)
        self.n_tasks = np.array([node.used != Resources() for node in chosen], dtype=np.int64)
        held = [n.type.capacity.amounts() for n in chosen]
        self.resources = sorted({_CPUS, _MEMORY, PODS, *(name for h in held for name in h)})
        self.row = {name: i for i, name in enumerate(self.resources)}
        self.capacity = self._columns([node.type.capacity for node in chosen])
        unlimited = self.capacity[self.row[PODS]] == 0
        self.capacity[self.row[PODS], unlimited] = _UNLIMITED
        self.used = self._columns([node.used for node in chosen])
        of_nodes = [self.types[i] for i in self.type_of]
        self._curves = _Curves.of(of_nodes)
        idle = [np.nan if t.idle_w is None else t.idle_w for t in of_nodes]
        self.idle_w = np.array(idle, dtype=float)
        self.can_power_off = np.array([t.can_power_off for t in of_nodes], dtype=bool)

    @classmethod
    def of(cls, cluster: Cluster) -> Fleet:
        """Return the nodes of a cluster."""
        return cls(*cluster.nodes(), [table.node_type for table in cluster.node_type])

    def __len__(self) -> int:
        return len(self.names)

    def _columns(self, held: Sequence[Resources]) -> Amounts:
        vectors = [self._vector(resources) for resources in held]
        return np.array(vectors, dtype=np.int64).reshape(-1, len(self.resources)).T.copy()

    def _vector(self, resources: Resources) -> Amounts:
        amounts = resources.amounts()
        return np.array(
            [min(round(amounts.get(n, 0.0) * _unit(n)), _UNLIMITED) for n in self.resources],
            dtype=np.int64,
        )

    def need(self, resources: Resources) -> Amounts | None:
        """Return what a task takes of each resource; None if no node has a resource it needs."""
        if not resources.amounts().keys() <= self.row.keys():
            return None
        return self.taken(resources)

    def taken(self, resources: Resources) -> Amounts:
        """Return what a task that runs takes of each resource that nodes have."""
        vector = self._vector(resources)
        vector[self.row[PODS]] = max(vector[self.row[PODS]], _MILLIONTHS)
        return vector

    def room(self, need: Amounts) -> NDArray[np.bool_]:
        """Say which nodes have room for a task now, ready or not."""
        rows = need.nonzero()[0]  # whatever else is overused, as after a device failed
        used = self.used.take(rows, 0) + need.take(rows)[:, None]
        found: NDArray[np.bool_] = np.all(used <= self.capacity.take(rows, 0), axis=0)
        return found

    @property
    def free(self) -> Amounts:
        """What is free of each resource on each node; 0 of what is overused."""
        return free_of(self.capacity - self.used)

    def fitting(self, need: Amounts, own: int | None = None) -> NDArray[np.int64]:
        """Return the nodes that can take a task now; ``own`` is the one reserved for it."""
        room = self.room(need) & self.ready
        is_open = ~self.reserved
        if own is not None:
            is_open[own] = True
        return np.flatnonzero(room & is_open)

    def could_ever_fit(self, need: Amounts) -> NDArray[np.bool_]:
        """Say which nodes would have room if they were empty."""
        found: NDArray[np.bool_] = np.all(need[:, None] <= self.capacity, axis=0)
        return found

    def take(self, node: int, need: Amounts) -> None:
        """Put a task on a node."""
        self.used[:, node] += need
        self.n_tasks[node] += 1

    def give_back(self, node: int, need: Amounts) -> None:
        """Take a task off a node."""
        self.used[:, node] -= need
        self.n_tasks[node] -= 1

    def lacking(self, node: int, need: Amounts) -> str:
        """Say what a task asks for of which a node has too little, and how much is free.

        What it has too little of even when it is empty comes first.
        """
        capacity = self.capacity[:, node]
        free = free_of(capacity - self.used[:, node])
        short = [(name, row) for name, row in self.row.items() if need[row] > free[row]]
        if not short:
            return ""
        name, row = min(short, key=lambda s: (capacity[s[1]] > 0, need[s[1]] <= capacity[s[1]]))
        if capacity[row] == 0:
            return f"no {_label(name)} in its capacity"
        left, whole = _amount(name, free[row]), _amount(name, capacity[row])
        return f"asks for {_asked(name, need[row])}; {left} of {whole} free"

    def cores(self, node: int) -> int:
        """Return how many whole CPUs a node has, at least one."""
        return max(1, round(int(self.capacity[self.row[_CPUS], node]) / _MILLIONTHS))

    def watts(self, nodes: NDArray[np.int64]) -> Array:
        """Return what nodes draw; NaN if unknown."""
        return self._curves.watts(nodes, np.minimum(self._load(nodes), 1.0))

    def extra_watts(self, nodes: NDArray[np.int64], cpus: int) -> Array:
        """Return what nodes draw more with so many millionths of a CPU in use; NaN if unknown.

        Power is taken to grow beyond full load as it does there: a node that has more to do than it
        can would otherwise add nothing, and be the best.
        """
        more = self._curves.watts(nodes, self._load(nodes, cpus))
        found: Array = more - self._curves.watts(nodes, self._load(nodes))
        return found

    def _load(self, nodes: NDArray[np.int64], extra_cpus: int = 0) -> Array:
        row = self.row[_CPUS]
        found: Array = (self.used[row, nodes] + extra_cpus) / np.maximum(
            self.capacity[row, nodes], 1
        )
        return found


def free_of(left: Amounts) -> Amounts:
    """Return what is free where so much is left: nothing of what is overused.

    So a task that does not ask for an overused resource fits there.
    """
    found: Amounts = np.maximum(left, 0)
    return found


@dataclass(frozen=True, eq=False)
class _Curves:
    """The power of each node: k0 + k1·exp(k2·u) + slope·u, with u in percent."""

    k0: Array
    k1: Array
    k2: Array
    slope: Array

    @classmethod
    def of(cls, types: Sequence[NodeType]) -> _Curves:
        rows = []
        for kind in types:
            if kind.power is not None:
                rows.append((kind.power.k0, kind.power.k1, kind.power.k2, 0.0))
            elif kind.idle_w is not None and kind.busy_w is not None:
                rows.append((kind.idle_w, 0.0, 0.0, (kind.busy_w - kind.idle_w) / 100))
            else:
                rows.append((np.nan, 0.0, 0.0, 0.0))
        return cls(*np.array(rows, dtype=float).reshape(-1, 4).T.copy())

    def watts(self, nodes: NDArray[np.int64], share: Array) -> Array:
        used, k2 = 100 * share, self.k2[nodes]
        exponential = self.k1[nodes] * np.exp(k2 * np.minimum(used, 100))
        beyond = 1 + k2 * np.maximum(used - 100, 0)  # along the tangent, which cannot overflow
        found: Array = self.k0[nodes] + exponential * beyond + self.slope[nodes] * used
        return found


@dataclass(frozen=True, eq=False)
class Candidates:
    """The nodes that can take a task, and what is predicted on each; the input of a policy.

    Arrays have one entry per candidate, in the order of the nodes' names. Predictions are NaN where
    they are not known, or not to be trusted.

    Attributes
    ----------
    slowdown
        How many times longer the task takes on each node than alone, beside what runs there; None
        where no profiles tell.
    """

    fleet: Fleet
    nodes: NDArray[np.int64]
    need: Amounts
    estimates: TypeEstimates
    energy: Energy = "task"
    slowdown: Array | None = None

    @property
    def names(self) -> list[str]:
        """The names of the nodes."""
        return [self.fleet.names[i] for i in self.nodes]

    @cached_property
    def types(self) -> NDArray[np.int64]:
        """The type of each node."""
        found: NDArray[np.int64] = self.fleet.type_of[self.nodes]
        return found

    @cached_property
    def time_s(self) -> Array:
        """The predicted time of the task."""
        found: Array = self.estimates.time_s[self.types]
        return found if self.slowdown is None else found * self.slowdown

    @cached_property
    def energy_j(self) -> Array:
        """The predicted energy that counts, by the scope that was asked for."""
        if self.energy == "marginal":
            return self.time_s * self.extra_w
        task_j: Array = self.estimates.energy_j[self.types]
        if self.energy == "task":
            return task_j
        would_be_off = self.fleet.can_power_off[self.nodes] & (self.fleet.n_tasks[self.nodes] == 0)
        return task_j + np.where(would_be_off, self.fleet.idle_w[self.nodes] * self.time_s, 0.0)

    @cached_property
    def extra_w(self) -> Array:
        """The power that a node draws more with the task on it."""
        cpus = int(self.need[self.fleet.row[_CPUS]])
        return self.fleet.extra_watts(self.nodes, cpus)

    def used_share(self, resource: str) -> Array:
        """Return the share of a resource that is in use with the task on the node."""
        row = self.fleet.row[resource]
        used = self.fleet.used[row, self.nodes] + self.need[row]
        capacity = self.fleet.capacity[row, self.nodes]
        found: Array = used / np.maximum(capacity, 1)
        return found

    @cached_property
    def cpus_left(self) -> NDArray[np.int64]:
        """Millionths of a CPU that are free once the task runs."""
        row = self.fleet.row[_CPUS]
        free = self.fleet.capacity[row, self.nodes] - self.fleet.used[row, self.nodes]
        found: NDArray[np.int64] = free - self.need[row]
        return found

    def take(self, kept: NDArray[np.bool_]) -> Candidates:
        """Keep some of the candidates."""
        slowdown = None if self.slowdown is None else self.slowdown[kept]
        nodes = self.nodes[kept]
        return Candidates(self.fleet, nodes, self.need, self.estimates, self.energy, slowdown)


def _unit(resource: str) -> int:
    """Count bytes as they are and all else in millionths, so that sums are exact and small."""
    return 1 if resource.startswith(_BYTES) else _MILLIONTHS


def _label(resource: str) -> str:
    return {_CPUS: "CPUs", _MEMORY: "memory", "gpus": "GPUs"}.get(resource, resource)


def _amount(resource: str, amount: int) -> str:
    if resource == _MEMORY:
        return f"{amount / 2**30:.3g} GiB"
    return f"{amount / _unit(resource):g}"


def _asked(resource: str, amount: int) -> str:
    """Write what a task asks for, such as 2 CPUs or 1 GiB of memory."""
    if resource == _MEMORY:
        return f"{_amount(resource, amount)} of memory"
    name = _label(resource)
    is_one = amount == _unit(resource)
    return f"{_amount(resource, amount)} {name.removesuffix('s') if is_one else name}"
