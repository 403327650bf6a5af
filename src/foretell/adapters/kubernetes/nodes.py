"""Nodes of Kubernetes: their type by labels, what they have, and which pods they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from foretell.adapters.kubernetes.client import Object
from foretell.decide.placement.cluster import Cluster, NodeTypeTable
from foretell.decide.placement.fleet import PODS
from foretell.errors import UsageError
from foretell.machines import Node, NodeType, Resources
from foretell.wording import counted

#: The type of nodes that match none of the cluster file: nothing is predicted there.
NO_TYPE = "(no node type)"
_MOST_NAMED = 5
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True)
class Taint:
    """What keeps pods off a node that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True)
class LiveNode:
    """A node as it is now.

    Attributes
    ----------
    type
        Its type, with what this node can give to pods as its capacity.
    problem
        Why it cannot take any pod, whatever it has; empty if it can.
    """

    name: str
    type: NodeType
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    is_ready: bool = True
    problem: str = ""

    @property
    def node(self) -> Node:
        """The node as the decide stage knows it."""
        return Node(self.name, self.type)


class NodeTypes:
    """Finds the type of a node, by the labels or names that the cluster file gives.

    >>> from foretell.decide.placement.cluster import read_cluster
    >>> types = NodeTypes(read_cluster({"node_type": [
    ...     {"name": "small", "selector": {"size": "s"}, "capacity": {"cpu": 4}}]}))
    >>> types.find("a", {"size": "s", "zone": "1"}).name, types.find("b", {}).name
    ('small', '(no node type)')
    """

    def __init__(self, cluster: Cluster) -> None:
        for table in cluster.node_type:
            if not table.selector and not table.nodes and table.name != NO_TYPE:
                raise UsageError(
                    f"node type {table.name} has no selector, so its nodes cannot be found in "
                    'Kubernetes; write selector = { "node.kubernetes.io/instance-type" = "..." }, '
                    'or nodes = ["..."]'
                )
        self.tables = [table for table in cluster.node_type if table.name != NO_TYPE]

    def matching(self, name: str, labels: Mapping[str, str]) -> list[NodeTypeTable]:
        """Return all types that a node matches."""
        return [
            table
            for table in self.tables
            if name in table.nodes or (table.selector and table.selector.items() <= labels.items())
        ]

    def find(self, name: str, labels: Mapping[str, str]) -> NodeType:
        """Return the type of a node; one about which nothing is known unless exactly one fits."""
        found = self.matching(name, labels)
        return found[0].node_type if len(found) == 1 else _NO_TYPE

    def check(self, name: str, labels: Mapping[str, str]) -> None:
        """Raise a UsageError that names both types if a node matches more than one."""
        found = [table.name for table in self.matching(name, labels)]
        if len(found) > 1:
            raise UsageError(
                f"node {name} matches several node types: {', '.join(found)}; make their "
                "selectors different, so that each node has one type"
            )


def live_cluster(cluster: Cluster) -> Cluster:
    """Return a cluster with a type more, for nodes that match none."""
    unknown = NodeTypeTable(name=NO_TYPE, count=1, capacity={"cpu": 1})
    return cluster.model_copy(update={"node_type": [*cluster.node_type, unknown], "node": []})


def read_node(item: Object, types: NodeTypes) -> LiveNode:
    """Read a node from the JSON of Kubernetes."""
    name, labels = _name_and_labels(item)
    spec, status = item.get("spec") or {}, item.get("status") or {}
    taints = [_taint(taint) for taint in spec.get("taints") or ()]
    if spec.get("unschedulable"):
        taints.append(Taint(_UNSCHEDULABLE))
    kind, problem = types.find(name, labels), ""
    given = status.get("allocatable") or status.get("capacity") or {}
    try:
        has = Resources.read(given)
    except UsageError as error:
        has, problem = Resources(), f"what it can give cannot be read: {error}"
    else:
        missing = [
            what for what, n in (("CPUs", has.cpus), ("pods", has.custom.get(PODS))) if not n
        ]
        if missing:
            problem = f"it offers no {' and no '.join(missing)}"
    ready = any(
        c.get("type") == "Ready" and c.get("status") == "True"
        for c in status.get("conditions") or ()
    )
    return LiveNode(name, replace_capacity(kind, has), labels, tuple(taints), ready, problem)


def described_types(n_by_type: Mapping[str, int], without: Sequence[str]) -> str:
    """Say how many nodes there are of each type, and which have none.

    >>> described_types({"server": 2, "board": 0, NO_TYPE: 1}, ["x"])
    '3 nodes: server 2, board 0; 1 node has no type: x'
    """
    types = ", ".join(f"{name} {n}" for name, n in n_by_type.items() if name != NO_TYPE)
    found = f"{counted(sum(n_by_type.values()), 'node')}: {types}"
    if not without:
        return found
    have = "has" if len(without) == 1 else "have"
    more = f" and {len(without) - _MOST_NAMED} more" if len(without) > _MOST_NAMED else ""
    named = ", ".join(without[:_MOST_NAMED])
    return f"{found}; {counted(len(without), 'node')} {have} no type: {named}{more}"


def replace_capacity(kind: NodeType, capacity: Resources) -> NodeType:
    """Return a type of node with other amounts of resources."""
    if kind.power is not None:  # idle and busy power follow from the curve, and are not given again
        return replace(kind, capacity=capacity, idle_w=None, busy_w=None)
    return replace(kind, capacity=capacity)


def _name_and_labels(item: Object) -> tuple[str, Mapping[str, str]]:
    meta: Mapping[str, Any] = item["metadata"]
    return meta["name"], meta.get("labels") or {}


def _taint(taint: Mapping[str, str]) -> Taint:
    return Taint(taint["key"], taint.get("value") or "", taint.get("effect") or "NoSchedule")


_NO_TYPE = NodeType(NO_TYPE, Resources())
