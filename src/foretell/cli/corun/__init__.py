"""`foretell corun`: when jobs end that share a machine."""

from __future__ import annotations

import click

from foretell.cli._output import echo
from foretell.cli.corun.group import group
from foretell.cli.corun.machine import machine
from foretell.cli.corun.measure import measure
from foretell.cli.corun.models import fit, score
from foretell.cli.corun.predict import predict
from foretell.cli.corun.profile import profile


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Tell when jobs end that share a machine, and which to put together.

    Profile each job once, alone. Then predict any of them together.
    """
    if ctx.invoked_subcommand is None:
        echo(ctx.get_help())


for verb in (machine, profile, predict, group, measure, score, fit):
    command.add_command(verb)
