"""`foretell fit`: build models from a table of runs, or run a campaign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json
from foretell.wording import percent

if TYPE_CHECKING:
    from foretell.model.results.fit import Fit
    from foretell.model.run_options import Progress, RunOptions


@click.command()
@option.path_argument("source", metavar="RUNS_OR_CAMPAIGN")
@option.output(
    "Directory for models and results. The same command continues what is unfinished there.",
    required=True,
)
@option.columns("--target", "Column to predict, with a table of runs; several give one model each.")
@option.columns("--use", "Predict from this column only.")
@option.columns("--skip", "Leave this column out.")
@option.columns("--categorical", "Read its numbers as names.")
@click.option("--drop-missing", is_flag=True, help="Leave out rows with a missing value.")
@option.path("--data", help="Table of runs to use instead of the one the campaign names.")
@option.jobs
@option.on
@click.option("--time-limit", type=float, metavar="S", help="End after about this many seconds.")
@click.option("--seed", type=int, metavar="K", help="Override the campaign's seed.")
@click.option("--racing", is_flag=True, help="Stop trials once they are worse than the best.")
@option.quiet
@option.json("Print results.json instead of the table.")
def command(  # noqa: PLR0913 - one parameter per option
    source: Path,
    output: Path,
    target: tuple[str, ...],
    use: tuple[str, ...],
    skip: tuple[str, ...],
    categorical: tuple[str, ...],
    drop_missing: bool,
    data: Path | None,
    seed: int | None,
    racing: bool,
    quiet: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Build and validate models.

    RUNS_OR_CAMPAIGN is a table of runs (.csv, .tsv, .parquet), for which --target names the
    column to predict and everything else is chosen automatically; or a campaign, a TOML file or
    an aMLLibrary .ini file as it is. Options that name a COLUMN can be repeated.
    """
    from foretell.cli._progress import shown_progress
    from foretell.model.fit import FitRequest
    from foretell.model.table import ColumnChoice

    columns = ColumnChoice(use, skip, categorical, drop_missing)
    targets = target[0] if len(target) == 1 else target or None
    request = FitRequest(source, data, targets, columns, seed, racing)
    piece = "rehearsal" if request.is_table else "trial"
    with shown_progress(piece, _best, quiet=quiet) as progress:
        options = _run_options(output, progress, **how)
        fitted = request.run(options, warn=lambda text: echo(f"warning: {text}", err=True))
    if not isinstance(fitted, dict):
        _print(fitted, as_json=as_json)
    elif as_json:
        echo_json({name: fit.results.to_json() for name, fit in fitted.items()})
    else:
        for name, fit in fitted.items():
            echo(f"{name}\n")
            _print(fit, as_json=False)
            echo("")
        echo(f"plan with all of them: foretell plan {output} --vary COLUMN=VALUES")


def _run_options(
    output: Path, progress: Any, *, jobs: int | None, on: str | None, time_limit: float | None
) -> RunOptions:
    from foretell import cli
    from foretell.executors import n_cores
    from foretell.model.run_options import RunOptions

    n_jobs = n_cores() if jobs is None and on is None else jobs
    options = RunOptions(output, n_jobs, time_limit, progress, on)
    return options if cli.started_at is None else replace(options, started=cli.started_at)


def _best(progress: Progress) -> str:
    if progress.best_error == float("inf"):
        return ""
    if progress.score_name == "mape":
        return f", best {percent(progress.best_error)}"
    return f", best {progress.best_error:.4g}"


def _print(fit: Fit, *, as_json: bool) -> None:
    if as_json:
        echo_json(fit.results.to_json())
        return
    echo(str(fit), nl=False)
    best = fit.directory / "best.foretell"
    echo(
        f"\n{best}   {best.stat().st_size / 1000:,.0f} kB   in "
        f"{fit.results.times.total_s:.1f} s"
        f"   ·  predict: foretell predict {fit.directory} new.csv"
        f"   ·  look: foretell report {fit.directory}"
    )
