"""`foretell cluster probe`: the sweeps that teach foretell each type of node."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json
from foretell.wording import counted


@click.command()
@option.path_argument("cluster")
@option.output("Folder for the sweeps.", default=Path("probe"), show_default=True)
@click.option(
    "--governor",
    "governors",
    multiple=True,
    metavar="NAME",
    help="A frequency governor to try, where the machine grants it; can be repeated.",
)
@click.option(
    "--most-memory",
    metavar="SIZE",
    help="Largest data of a run [default: an eighth of the node's memory, and at most 1Gi].",
)
@click.option(
    "--quick",
    "is_quick",
    is_flag=True,
    help="A few runs only: once each, on one CPU and on all, with less data.",
)
@option.force
@option.json("Print the files and targets as JSON.")
def probe(cluster: Path, output: Path, force: bool, as_json: bool, **given: Any) -> None:
    """Write the sweeps that teach foretell each type of node.

    Run them on a node of that type with `foretell measure`, and fit two models from the table.
    """
    from foretell.cluster.probe import ProbeOptions, write_probes
    from foretell.spaces.quantities import duration

    found = write_probes(cluster, output, options=ProbeOptions(**given), force=force)
    if as_json:
        echo_json(
            [
                {"type": p.name, "idle": str(p.idle), "sweep": str(p.sweep), "n_runs": p.n_runs,
                 "total_s": p.total_s, "targets": list(p.targets)}
                for p in found
            ]
        )  # fmt: skip
        return
    for p in found:
        time, energy = p.targets
        about = duration(60 * max(1, round(p.total_s / 60)))
        echo(f"{p.name}: {counted(p.n_runs, 'run')}, about {about}. On a node of this type:")
        for command in (
            ["measure", str(p.idle), "-o", f"{p.name}-idle.csv"],
            ["measure", str(p.sweep), "-o", f"{p.name}.csv"],
            ["fit", f"{p.name}.csv", "--target", time, "--target", energy,
             "-o", f"models/{p.name}"],
        ):  # fmt: skip
            echo(f"  foretell {shlex.join(command)}")
    if not given["governors"]:
        echo("Governors are left as they are; --governor NAME tries one that the node offers.")
    if not given["is_quick"]:
        echo("Fewer and shorter runs: --quick; then foretell advise says if others would help.")
