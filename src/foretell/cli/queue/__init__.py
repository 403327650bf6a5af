"""`foretell queue`: response times of jobs by priority."""

from __future__ import annotations

import click

from foretell.cli._output import echo
from foretell.cli.queue.choose import choose
from foretell.cli.queue.learn import learn
from foretell.cli.queue.predict import predict
from foretell.cli.queue.run import run, status, submit


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Tell how long jobs of each priority take on one engine, with their waits.

    CLASSES is a class file (TOML): classes of jobs, the lowest priority first, how many arrive, and
    how long one takes.
    """
    if ctx.invoked_subcommand is None:
        echo(ctx.get_help())


for verb in (predict, choose, learn, run, submit, status):
    command.add_command(verb)
