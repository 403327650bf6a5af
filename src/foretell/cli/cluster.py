"""`foretell cluster`: the node for each task, and what a policy would save."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import NOTHING_USABLE, echo, echo_json

cluster_argument = option.path_argument("cluster")


@click.group()
def command() -> None:
    """Choose the node for each task, by the time and energy predicted on each type of node.

    CLUSTER is a cluster file (TOML): types of nodes with their models or formulas, and a policy.
    """


@command.command()
@cluster_argument
@click.option(
    "--task",
    required=True,
    metavar="NAME=VALUE,...",
    help="What the task needs, and its features: cpu=2,memory=1Gi,iterations=800.",
)
@click.option(
    "--H", "weight", metavar="SHARE", help="Weight of energy: 1 energy alone, 0 speed alone."
)
@click.option("--policy", metavar="POLICY", help="How nodes are scored, instead of the file's way.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides among equals.")
@option.json("Print the ranked nodes as JSON.")
def place(
    cluster: Path, task: str, weight: str | None, policy: str | None, seed: int, as_json: bool
) -> None:
    """Rank the nodes for a task, and say why others are out.

    The exit code is 1 when no node can take the task.
    """
    from foretell.cluster.place import place_task
    from foretell.decide.placement.tasks import read_h

    H = None if weight is None else read_h(weight)
    found = place_task(cluster, task, H=H, policy=policy, seed=seed)
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found), err=found.chosen is None)
    if found.chosen is None:
        sys.exit(NOTHING_USABLE)
