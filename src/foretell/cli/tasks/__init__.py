"""`foretell tasks`: how long a task graph takes."""

from __future__ import annotations

import click

from foretell.cli._output import echo
from foretell.cli.tasks.foresee import foresee
from foretell.cli.tasks.run import run


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Tell how long a task graph takes before it runs, and run it."""
    if ctx.invoked_subcommand is None:
        echo(ctx.get_help())


for verb in (foresee, run):
    command.add_command(verb)
