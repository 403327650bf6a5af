"""`foretell tune`: how long a hyperparameter search takes."""

from __future__ import annotations

import click

from foretell.cli._output import echo
from foretell.cli.tune.eta import eta


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Tell how long a hyperparameter search takes, and what would make it shorter."""
    if ctx.invoked_subcommand is None:
        echo(ctx.get_help())


for verb in (eta,):
    command.add_command(verb)
