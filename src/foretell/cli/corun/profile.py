"""`foretell corun profile`: one run of a job alone, traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json, echo_notes
from foretell.cli.corun.machine import priority, read_seconds


@click.command(context_settings={"ignore_unknown_options": True})
@option.output("The profile to write, such as a.profile.", required=True)
@click.option(
    "--for", "seconds", metavar="TIME",
    help="Stop it after this time: for a job without end, such as a service.",
)  # fmt: skip
@click.option(
    "--bubbles", is_flag=True,
    help="Run it once more beside a bubble, to find the memory bandwidth it needs.",
)  # fmt: skip
@option.path("--machine", help="What was measured of this machine [default: that of this user].")
@priority
@option.force
@option.json("Print the phases as JSON.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def profile(
    output: Path,
    seconds: str | None,
    machine: Path | None,
    force: bool,
    as_json: bool,
    command: tuple[str, ...],
    **given: Any,
) -> None:
    """Run COMMAND alone, and write what it needs over time.

    Only the processes that it starts are sampled. Write -- before the command.
    """
    from foretell.corun.machine import chosen_machine
    from foretell.corun.profile import profile_job, write_profile
    from foretell.files.directory import check_new

    check_new(output, force=force)
    found = profile_job(
        command,
        name=output.stem,
        seconds=None if seconds is None else read_seconds(seconds, "for"),
        machine=chosen_machine(machine),
        bubbles=given["bubbles"],
        priority=given["priority"],
    )
    write_profile(found, output, force=force)
    if as_json:
        needs = found.needs(found.facts.n_usable)
        phases = [{"seconds": p.seconds, "threads": p.threads, **p.needs} for p in needs.phases]
        echo_json({"name": found.name, "wall_time_s": found.wall_s, "phases": phases})
    else:
        echo(str(found))
    echo_notes(found.notes())
