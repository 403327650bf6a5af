"""`foretell cluster simulate`: what policies would take in energy and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json
from foretell.errors import Option, UsageError

#: Tasks times nodes times seeds up to which other weights of energy are tried without being asked.
_MOST_SWEPT = 50_000


@click.command()
@option.path_argument("cluster")
@option.path("--tasks", metavar="CSV", help="Tasks that arrive; otherwise made up as [trace] says.")
@click.option(
    "--policy",
    metavar="POLICY,...",
    help="Policies with their settings: kube,heats:H=0,geometric:H=1:moves=on [default: "
    "kube,geometric:H=0,geometric:H=0.5,geometric:H=1].",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The first seed.")
@click.option(
    "--seeds", "n_seeds", type=int, default=1, show_default=True, help="How many seeds to try."
)
@option.output("Write a report (.html, .md, .pdf), or all tasks (.csv).")
@option.force
@option.json("Print all figures as JSON.")
def simulate(
    cluster: Path,
    tasks: Path | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Play tasks on a cluster under several policies, and compare energy and times.

    The same seed gives the same output, byte for byte.
    """
    from foretell.cluster.simulate import simulate_cluster, simulate_weights
    from foretell.files.directory import check_new, write_new
    from foretell.report.write import FORMATS

    is_table = output is not None and output.suffix.lower() == ".csv"
    if output is not None:  # what cannot be written is refused before the work
        check_new(output, force=force)
        if not is_table and output.suffix.lower().lstrip(".") not in ("", *FORMATS):
            endings = ", ".join(f".{form}" for form in FORMATS)
            raise UsageError(
                f"a report ends in {endings}, and a table of tasks in .csv, not {output.suffix}",
                option=Option("output", str(output)),
                remedy=("rename it",),
            )
    from foretell.report.placement import recommendation, write_simulation

    found = simulate_cluster(cluster, tasks, **given)
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
    is_report = output is not None and not is_table
    size = found.n_tasks * found.n_nodes * len(found.seeds)
    is_swept = is_report or (output is None and not as_json and size <= _MOST_SWEPT)
    sweep = simulate_weights(cluster, tasks, **given) if is_swept else None
    if not as_json and sweep is not None and (advice := recommendation(sweep)):
        echo(advice)
    if output is None:
        if not as_json:
            more = ", and swept over H" if size > _MOST_SWEPT else ""
            echo(f"With pictures{more}: -o saving.html", err=True)
    elif is_table:
        write_new(output, found.tasks().to_csv(index=False).encode(), force=force)
        echo(f"{output} written.", err=True)
    else:
        report = write_simulation(found, sweep, output, force=force)
        echo(f"{report.path}   {report.n_bytes / 1000:.0f} kB", err=True)
