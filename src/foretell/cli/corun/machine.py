"""`foretell corun machine`: what this machine has, and how contention shows on it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_notes, echo_unchanged
from foretell.errors import Option, UsageError

priority = click.option("--priority", is_flag=True, help="Run before other processes; needs root.")


@click.command()
@option.output("The file to write [default: that of this user, which other verbs use].")
@click.option(
    "--seconds", metavar="TIME", default="2s", show_default=True,
    help="How long each of about twenty bubbles lasts.",
)  # fmt: skip
@priority
@option.force
@option.quiet
@option.json("Print all figures as JSON.")
def machine(
    output: Path | None, seconds: str, priority: bool, force: bool, quiet: bool, as_json: bool
) -> None:
    """Measure cores, memory bandwidth and disk of this machine, once, with bubbles.

    A bubble is a small program that presses on one resource. The machine should do nothing else
    meanwhile: bubbles that others disturb are run again, and if that does not help, nothing is
    kept unless -o names a file.
    """
    from foretell.corun.machine import default_path, measure_machine

    def tell(what: str) -> None:
        if sys.stderr.isatty() and not quiet:
            echo(f"running {what}", err=True)

    found = measure_machine(
        output,
        seconds=read_seconds(seconds, "seconds"),
        priority=priority,
        force=force,
        progress=tell,
    )
    if as_json:
        echo_unchanged(found.model_dump_json(indent=1) + "\n")
    else:
        echo(str(found))
        where = "kept for this user" if output is None else str(output)
        told = _from_home(default_path()) if output is None else "name it with --machine"
        echo(f"{where}: {told}", err=True)
    echo_notes(found.notes())


def _from_home(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def read_seconds(text: str, name: str) -> float:
    """Read a time that an option gives."""
    from foretell.spaces.quantities import TIME, read_quantity

    try:
        return read_quantity(text, TIME)
    except UsageError as error:
        raise UsageError(error.text, option=Option(name)) from None
