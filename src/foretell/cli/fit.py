"""`foretell fit`: run a campaign."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foretell.errors import UsageError

if TYPE_CHECKING:
    from foretell.model.outputs import Fit


@click.command()
@click.argument("campaign", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Directory for models and results. The same command continues what is unfinished there.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Table of runs to use instead of the one the campaign names.",
)
@click.option("-j", "--jobs", type=int, default=None, help="Worker processes [default: all cores].")
@click.option("--time-limit", type=float, metavar="S", help="End after about this many seconds.")
@click.option("--seed", type=int, metavar="K", help="Override the campaign's seed.")
@click.option("--racing", is_flag=True, help="Stop trials once they are worse than the best.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
def command(  # noqa: PLR0913 - one parameter per option
    campaign: Path,
    output: Path,
    data: Path | None,
    jobs: int | None,
    time_limit: float | None,
    seed: int | None,
    racing: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Build and validate models from a campaign file.

    CAMPAIGN is a TOML file, or an aMLLibrary .ini file as it is.
    """
    from foretell.cli._progress import shown_progress
    from foretell.dataset import read_dataset
    from foretell.model.campaign.sources import load_campaign, naming, resolve_data_path
    from foretell.model.fit import RunOptions, run_campaign

    if campaign.suffix.lower() in {".csv", ".tsv", ".parquet"}:
        raise UsageError(
            f"{campaign} is a table, and fit takes a campaign file that names one. "
            "Write five lines of TOML: docs/tutorial.md shows them."
        )
    spec, _, warnings = load_campaign(campaign)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    if racing:
        search = spec.search.model_copy(update={"racing": True})
        spec = spec.model_copy(update={"search": search})
    with naming(campaign), shown_progress(quiet=quiet) as progress:
        dataset = read_dataset(data or resolve_data_path(spec, campaign))
        options = RunOptions(output, _cores() if jobs is None else jobs, time_limit, progress)
        try:
            fit = run_campaign(spec.with_seed(seed), dataset, options, warnings)
        except KeyboardInterrupt:
            progress.stop()
            click.echo(
                f"\ninterrupted. {progress.last_line} What is finished is kept; continue with\n"
                f"  {shlex.join(['foretell', *sys.argv[1:]])}",
                err=True,
            )
            raise
    if as_json:
        click.echo(json.dumps(fit.results, indent=1))
    else:
        click.echo(str(fit), nl=False)
        click.echo(_where(fit))


def _where(fit: Fit) -> str:
    size_kb = (fit.directory / "best.foretell").stat().st_size / 1000
    return (
        f"\n{fit.directory / 'best.foretell'}   {size_kb:,.0f} kB   in "
        f"{fit.results['times']['total_s']:.1f} s"
        f"   ·  predict: foretell predict {fit.directory} new.csv"
    )


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
