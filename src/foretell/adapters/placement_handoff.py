"""Placements in the formats of other schedulers: PEAKS, preferred node affinity, Kueue."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from foretell.adapters.handoff import yaml_lines
from foretell.cluster.place import place_task
from foretell.decide.placement.answer import Placement, RankedNode
from foretell.decide.placement.cluster import Cluster, NodeTypeTable, read_cluster
from foretell.decide.placement.tasks import Task
from foretell.errors import Option, UsageError, listing, suggest
from foretell.machines import NodeType

PEAKS = "peaks"  # the one form that is not about a task
_MOST_WEIGHT = 100  # of a preferred affinity
_HOST = "kubernetes.io/hostname"
_KUEUE = "kueue.x-k8s.io/v1beta2"
_QUEUE = "foretell"
_MEBIBYTE = 2**20
#: How Kubernetes calls resources that foretell has its own names for.
_RESOURCES = {"cpus": "cpu", "memory_bytes": "memory", "gpus": "nvidia.com/gpu"}
#: PEAKS knows exponential curves alone; with this k2 one is straight to 0.3 % of its rise.
_STRAIGHT_K2 = 1e-4


def hand_off_placement(
    cluster: Path | str | Mapping[str, Any] | Cluster,
    task: str | Mapping[str, Any] | Task | None,
    form: str,
    *,
    H: float | None = None,
    policy: str | None = None,
) -> str:
    """Write what foretell prefers in the format of another scheduler.

    Types of nodes are ranked, each by an empty node of it, so that what is written does not depend
    on what is in use now.

    Parameters
    ----------
    cluster
        A cluster file, or a dict of its shape.
    task
        What it needs and its features; ``peaks`` needs none.
    form
        ``peaks``: the power of each node, as JSON; ``affinity``: preferred node affinity for a pod;
        ``kueue``: a ClusterQueue with its flavors in order.
    H, policy
        As in ``place_task``.

    >>> types = [{"name": "a", "nodes": ["a1"], "capacity": {"cpu": 4}, "time_s": 9,
    ...           "power": {"k0": 2, "k1": 1, "k2": 0.03}}]
    >>> print(hand_off_placement({"node_type": types}, None, "peaks"))
    {
      "a1": {
        "k0": 2.0,
        "k1": 1.0,
        "k2": 0.03
      }
    }
    <BLANKLINE>
    """
    check_form(form)
    read = read_cluster(cluster)
    if form == PEAKS:
        return _as_peaks(read)
    if task is None:
        raise UsageError(f"the form '{form}' is about a task", option=Option("task"))
    one_each = [table.model_copy(update={"count": 1, "nodes": []}) for table in read.node_type]
    types = read.model_copy(update={"node_type": one_each, "node": []})
    placement = place_task(types, task, H=H, policy=policy)
    _check_ranked(placement)
    tables = {table.name: table for table in read.node_type}
    return FORMS[form]([(tables[node.type], node) for node in placement.nodes])


def check_form(form: str) -> None:
    """Raise a UsageError unless the form is known."""
    known = [PEAKS, *FORMS]
    if form not in known:
        raise UsageError(f"unknown format. {suggest(form, known)}", option=Option("form", form))


def _check_ranked(placement: Placement) -> None:
    if not placement.nodes:
        reasons = listing(f"{node}: {why}" for node, why in placement.excluded.items())
        raise UsageError(f"no type of node can take this task ({reasons}); ask for less")
    if placement.is_blind:
        estimate = placement.nodes[0].estimate
        remark = estimate.remark or estimate.trust
        raise UsageError(
            f"no prediction can be used for this task ({remark}), so no type is better than another"
        )


# PEAKS


def _as_peaks(cluster: Cluster) -> str:
    """Return the power of each node.

    PEAKS takes a node that its file does not name for one that draws nothing, and prefers it, so
    every node must have a power.
    """
    found: dict[str, dict[str, float]] = {}
    for table in cluster.node_type:
        if not table.nodes:
            raise UsageError(
                f"node type {table.name}: PEAKS knows nodes by their names in Kubernetes, and the "
                'cluster file has none; write nodes = ["a", "b"]'
            )
        found |= dict.fromkeys(table.node_names, _coefficients(table.node_type))
    return json.dumps(found, indent=2) + "\n"


def _coefficients(kind: NodeType) -> dict[str, float]:
    if kind.power is not None:
        return {"k0": kind.power.k0, "k1": kind.power.k1, "k2": kind.power.k2}
    if kind.idle_w is None or kind.busy_w is None:
        raise UsageError(
            f"node type {kind.name}: its power is not known, and PEAKS would take it for free; "
            "write power = { k0, k1, k2 }, or idle_w and busy_w"
        )
    k1 = (kind.busy_w - kind.idle_w) / math.expm1(100 * _STRAIGHT_K2)
    return {"k0": kind.idle_w - k1, "k1": k1, "k2": _STRAIGHT_K2}


# Node affinity


Ranked = Sequence[tuple[NodeTypeTable, RankedNode]]


def _as_affinity(ranked: Ranked) -> str:
    """Return the preferred node affinity of a pod: a weight for each type."""
    weights = _weights([node.score for _, node in ranked])
    terms = [
        {"weight": weight, "preference": {"matchExpressions": _expressions(table)}}
        for (table, _), weight in zip(ranked, weights, strict=True)
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return _yaml({"affinity": affinity})


def _weights(scores: Sequence[float]) -> list[int]:
    """Return weights from 1 to 100 in proportion to scores; different scores stay different."""
    floor = min(0.0, *scores)
    best = max(scores)
    found: dict[float, int] = {}
    last = _MOST_WEIGHT + 1
    for score in sorted(set(scores), reverse=True):
        share = (score - floor) / (best - floor) if best > floor else 1.0
        last = found[score] = max(1, min(round(_MOST_WEIGHT * share), last - 1))
    return [found[score] for score in scores]


def _expressions(table: NodeTypeTable) -> list[dict[str, Any]]:
    if table.selector:
        return [{"key": key, "operator": "In", "values": [value]}
                for key, value in table.selector.items()]  # fmt: skip
    if not table.nodes:
        raise UsageError(
            f"node type {table.name}: an affinity finds nodes by their labels or names in "
            "Kubernetes, and the cluster file has neither; write selector = { ... } or "
            'nodes = ["a", "b"]'
        )
    return [{"key": _HOST, "operator": "In", "values": table.nodes}]


# Kueue


def _as_kueue(ranked: Ranked) -> str:
    """Return a flavor for each type, and a queue that tries them from the best on."""
    names = _flavor_names([table for table, _ in ranked])
    flavors, quotas = [], []
    for table, _ in ranked:
        if not table.selector:
            raise UsageError(
                f"node type {table.name}: a flavor of Kueue finds nodes by their labels; "
                "write selector = { ... }"
            )
        if not table.node_names:
            raise UsageError(
                f"node type {table.name}: the quota of a flavor needs the number of its nodes; "
                "write count = 3"
            )
        flavors.append(
            {"apiVersion": _KUEUE, "kind": "ResourceFlavor",
             "metadata": {"name": names[table.name]}, "spec": {"nodeLabels": table.selector}}
        )  # fmt: skip
        quotas.append((table.node_type.capacity * len(table.node_names)).amounts())
    covered = [name for name in dict.fromkeys(n for quota in quotas for n in quota)
               if name != "pods" or all("pods" in quota for quota in quotas)]  # fmt: skip
    group = {
        "coveredResources": [_RESOURCES.get(name, name) for name in covered],
        "flavors": [
            {"name": names[table.name], "resources": [
                {"name": _RESOURCES.get(name, name),
                 "nominalQuota": _quantity(name, quota.get(name, 0.0))} for name in covered]}
            for (table, _), quota in zip(ranked, quotas, strict=True)
        ],
    }  # fmt: skip
    queue = {"apiVersion": _KUEUE, "kind": "ClusterQueue", "metadata": {"name": _QUEUE},
             "spec": {"namespaceSelector": {}, "resourceGroups": [group]}}  # fmt: skip
    return "---\n".join(_yaml(document) for document in [*flavors, queue])


def _flavor_names(tables: Sequence[NodeTypeTable]) -> dict[str, str]:
    """Return names that Kubernetes accepts for objects; no two types may have the same one."""
    found: dict[str, str] = {}
    for table in tables:
        name = re.sub(r"[^a-z0-9-]+", "-", table.name.lower()).strip("-")[:63].strip("-")
        if not name or name in found.values():
            raise UsageError(
                f"node type {table.name}: cannot be named '{name}' in Kubernetes; rename it"
            )
        found[table.name] = name
    return found


def _quantity(resource: str, amount: float) -> str:
    """Write an amount as Kubernetes does."""
    if resource == "memory_bytes" and amount and not amount % _MEBIBYTE:
        return f"{int(amount // _MEBIBYTE)}Mi"
    return str(int(amount)) if amount == int(amount) else f"{round(1000 * amount)}m"


def _yaml(value: Mapping[str, Any]) -> str:
    return "".join(f"{line}\n" for line in yaml_lines(value))


#: The formats that rank types for a task, and the function that writes each.
FORMS: dict[str, Callable[[Ranked], str]] = {"affinity": _as_affinity, "kueue": _as_kueue}
