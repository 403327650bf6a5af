"""`foretell cluster`: the node for each task, and what a policy would save."""

from __future__ import annotations

import click

from foretell.cli._output import echo
from foretell.cli.cluster.maintain import maintain
from foretell.cli.cluster.place import place
from foretell.cli.cluster.probe import probe
from foretell.cli.cluster.schedule import schedule
from foretell.cli.cluster.simulate import simulate


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Choose the node for each task, by the time and energy predicted on each type of node.

    CLUSTER is a cluster file (TOML): types of nodes with their models or formulas, and a policy.
    """
    if ctx.invoked_subcommand is None:
        echo(ctx.get_help())


for verb in (probe, place, simulate, schedule, maintain):
    command.add_command(verb)
