"""`foretell corun group`: which jobs to put together, and which to run one after the other."""

from __future__ import annotations

from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json, echo_notes


@click.command()
@option.path_argument("jobs", metavar="JOBS.toml")
@click.option(
    "--machines", type=int, default=1, show_default=True, help="How many machines there are."
)
@click.option(
    "--max-slowdown", type=float, metavar="TIMES",
    help="How many times longer a job may take than alone: 1.3 [default: any].",
)  # fmt: skip
@option.path("--machine", help="What was measured of the machines [default: that of this user].")
@option.json("Print the groups as JSON.")
def group(
    jobs: Path, machines: int, max_slowdown: float | None, machine: Path | None, as_json: bool
) -> None:
    """Choose which jobs to put together on MACHINES of one kind.

    The plan is the one that ends first; of several such plans, the one whose jobs end first on
    average. Running one after the other is always considered.
    """
    from foretell.corun.group import group_jobs

    found = group_jobs(jobs, machines=machines, max_slowdown=max_slowdown, machine=machine)
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
        echo_notes(found.notes)
