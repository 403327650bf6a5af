"""`foretell cluster place`: the nodes for a task, ranked."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import NOTHING_USABLE, echo, echo_json, echo_unchanged


@click.command()
@option.path_argument("cluster")
@click.option(
    "--task",
    metavar="NAME=VALUE,...",
    help="What the task needs, and its features: cpu=2,memory=1Gi,iterations=800.",
)
@click.option(
    "--H", "weight", metavar="SHARE", help="Weight of energy: 1 energy alone, 0 speed alone."
)
@click.option("--policy", metavar="POLICY", help="How nodes are scored, instead of the file's way.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides among equals.")
@click.option(
    "--as",
    "form",
    metavar="FORM",
    help="Print it for another scheduler: peaks, affinity or kueue; peaks needs no task.",
)
@option.json("Print the ranked nodes as JSON.")
def place(
    cluster: Path,
    task: str | None,
    weight: str | None,
    policy: str | None,
    seed: int,
    form: str | None,
    as_json: bool,
) -> None:
    """Rank the nodes for a task, and say why others are out.

    The exit code is 1 when no node can take the task, or when nothing is known of it on any node.
    """
    from foretell.adapters.placement_handoff import PEAKS, check_form, hand_off_placement
    from foretell.cluster.place import place_task
    from foretell.decide.placement.tasks import read_h

    if form is not None:
        check_form(form)
    if task is None and form != PEAKS:
        raise click.MissingParameter(param_hint="'--task'", param_type="option")
    H = None if weight is None else read_h(weight)
    if form is not None:
        echo_unchanged(hand_off_placement(cluster, task, form, H=H, policy=policy))
        return
    assert task is not None
    found = place_task(cluster, task, H=H, policy=policy, seed=seed)
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found), err=found.chosen is None)
    if found.chosen is None:
        sys.exit(NOTHING_USABLE)
