"""Placing a task: the nodes of a cluster ranked by predicted time and energy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from foretell.cluster.models import open_estimates
from foretell.cluster.profiles import profiles_of
from foretell.decide.placement.answer import Placement, place
from foretell.decide.placement.choose import Chooser, PolicyChoice, read_policy
from foretell.decide.placement.cluster import Cluster, read_cluster
from foretell.decide.placement.neighbors import Neighbors
from foretell.decide.placement.tasks import Task, read_h, read_task


def place_task(
    cluster: Path | str | Mapping[str, Any] | Cluster,
    task: str | Mapping[str, Any] | Task,
    *,
    H: float | None = None,
    policy: str | PolicyChoice | None = None,
    seed: int = 0,
) -> Placement:
    """Rank the nodes of a cluster for a task.

    Parameters
    ----------
    cluster
        A cluster file, or a dict of its shape.
    task
        What it needs and its features: ``"cpu=2,memory=1Gi,iterations=800"``, or a dict. With a
        feature ``profile``, times are those beside the tasks that run on a node.
    H
        The weight of energy: 1 is energy alone, 0 speed alone; by default that of the task, or of
        the cluster file.
    policy
        How nodes are scored, such as ``"heats"``; by default as the cluster file says.
    seed
        Decides among equals, if the policy does that at random.

    >>> types = [{"name": "fast", "count": 1, "capacity": {"cpu": 8}, "time_s": 10, "energy_j": 90},
    ...          {"name": "slow", "count": 1, "capacity": {"cpu": 8}, "time_s": 60, "energy_j": 30}]
    >>> place_task({"node_type": types}, "cpu=2", H=1).chosen.node
    'slow-1'
    """
    read, asked = read_cluster(cluster), read_task(task)
    read.check_nodes()
    if H is not None:
        asked = replace(asked, H=read_h(H))
    chosen = policy if policy is not None else read.policy.score
    choice = read_policy(chosen) if isinstance(chosen, str) else chosen
    estimates, _ = open_estimates(read)
    chooser = Chooser(read, estimates, choice, seed)
    chooser.neighbors = Neighbors.of(read, chooser.fleet, profiles_of(read, [asked]))
    return place(chooser, choice, asked)
