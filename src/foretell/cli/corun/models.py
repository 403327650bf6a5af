"""`foretell corun score` and `fit`: how good models of co-runs are, and what is learned."""

from __future__ import annotations

from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json

_machine = option.path(
    "--machine", help="What was measured of the machine [default: that of this user]."
)


_gru = click.option(
    "--gru", is_flag=True,
    help="Train the sequence-to-sequence model, too: minutes, and the extra torch.",
)  # fmt: skip


@click.command()
@option.path_argument("folder")
@_machine
@_gru
@click.option(
    "--ablations", is_flag=True,
    help="Judge what was tried and is never used, too: minutes, and the extra torch.",
)  # fmt: skip
@option.json("Print all errors as JSON.")
def score(folder: Path, machine: Path | None, gru: bool, ablations: bool, as_json: bool) -> None:
    """Judge every model beside every baseline, on the co-runs of FOLDER.

    FOLDER is what `foretell corun measure` wrote. Every co-run is predicted by a model that never
    saw it, or one of its programs.
    """
    from foretell.corun.models.gru.train import GruOptions
    from foretell.corun.models.score import score_co_runs

    options = GruOptions() if gru else None
    found = score_co_runs(folder, machine=machine, gru=options, ablations=ablations)
    if as_json:
        echo_json(found.to_json())
    else:
        echo(str(found))


@click.command()
@option.path_argument("folder")
@option.output("The model to write, such as here.corun.", required=True)
@_machine
@_gru
@option.force
@option.json("Print all errors as JSON.")
def fit(
    folder: Path, output: Path, machine: Path | None, gru: bool, force: bool, as_json: bool
) -> None:
    """Learn from the co-runs of FOLDER, and write a model for `foretell corun predict`.

    It has the errors for intervals, and a residual on the fluid model if that wins on programs that
    it never saw.
    """
    from foretell.corun.models.gru.train import GruOptions
    from foretell.corun.models.score import fit_co_runs
    from foretell.files.directory import check_new

    check_new(output, force=force)
    options = GruOptions() if gru else None
    _, scores = fit_co_runs(folder, output, machine=machine, gru=options, force=force)
    if as_json:
        echo_json(scores.to_json())
    else:
        echo(str(scores))
    echo(f"{output}: name it with --model", err=True)
