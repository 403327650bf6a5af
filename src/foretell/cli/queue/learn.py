"""`foretell queue learn`: a class file from the event logs of Spark."""

from __future__ import annotations

from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json, echo_notes, echo_unchanged


@click.command()
@option.path("--events", metavar="DIR", required=True, help="The folder with Spark's event logs.")
@click.option(
    "--by",
    metavar="WHAT",
    help="What makes a class: property, group or application; by default what the logs have.",
)
@click.option(
    "--order", metavar="NAME,...", help="Classes by priority, the lowest first; logs do not tell."
)
@option.output("Write a class file instead of printing it.")
@option.force
@option.json("Print the classes and remarks as JSON.")
def learn(
    events: Path,
    by: str | None,
    order: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Learn a class file from Spark event logs.

    Slots, tasks, their times and variation, overheads and arrival rates come from the logs. A log
    that was cut is used as far as it is whole.
    """
    from foretell.adapters.spark.learning import learn_queue
    from foretell.files.directory import check_new, write_new

    if output is not None:
        check_new(output, force=force)
    names = [name.strip() for name in order.split(",")] if order else []
    found = learn_queue(events, by=by, order=names)
    if output is not None:
        write_new(output, found.toml().encode(), force=force)
        echo_notes(found.notes)
        echo(f"{output} written.", err=True)
    if as_json:
        echo_json(found.to_json())
    elif output is None:
        echo_unchanged(found.toml())
