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
    """Jobs of several priorities on one engine: predict waits, choose what to drop, run jobs.

    A class file (TOML) has the classes of jobs, the lowest priority first, how many arrive, and how
    long one takes; `foretell queue learn` writes one from logs.
    """
    if ctx.invoked_subcommand is None:
        echo(ctx.get_help())


for verb in (predict, choose, learn, run, submit, status):
    command.add_command(verb)
