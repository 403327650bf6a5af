"""`foretell cluster maintain`: models refitted on the tasks that completed."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import NOTHING_USABLE, echo, echo_json


@click.command()
@option.path_argument("cluster")
@option.jobs
@option.json("Print what became of each model as JSON.")
def maintain(cluster: Path, jobs: int | None, as_json: bool) -> None:
    """Refit models on the tasks that completed, and promote those that are not worse.

    A model is promoted if its error on the newest fifth of the tasks does not grow; the old one is
    kept. After an interruption, the same command goes on. The exit code is 1 when no refit worked.
    """
    from foretell.cluster.maintenance.maintain import maintain_models
    from foretell.executors import n_cores

    found = maintain_models(cluster, n_jobs=n_cores() if jobs is None else jobs)
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))
    if all(outcome.verdict == "failed" for outcome in found.models):
        sys.exit(NOTHING_USABLE)
