"""`foretell fit`: build models from a table of runs, or run a campaign."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foretell.errors import UsageError

if TYPE_CHECKING:
    from foretell.cli._progress import Display
    from foretell.model.results.fit import Fit
    from foretell.model.run_options import Progress, RunOptions

_TABLES = {".csv", ".tsv", ".parquet"}


@click.command()
@click.argument("source", metavar="RUNS_OR_CAMPAIGN", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Directory for models and results. The same command continues what is unfinished there.",
)
@click.option("--target", metavar="COLUMN", help="Column to predict, with a table of runs.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Table of runs to use instead of the one the campaign names.",
)
@click.option("-j", "--jobs", type=int, default=None, help="Worker processes [default: all cores].")
@click.option("--on", metavar="WHERE", help="'ray', or the address of a Ray cluster.")
@click.option("--time-limit", type=float, metavar="S", help="End after about this many seconds.")
@click.option("--seed", type=int, metavar="K", help="Override the campaign's seed.")
@click.option("--racing", is_flag=True, help="Stop trials once they are worse than the best.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
def command(  # noqa: PLR0913 - one parameter per option
    source: Path,
    output: Path,
    target: str | None,
    data: Path | None,
    jobs: int | None,
    on: str | None,
    time_limit: float | None,
    seed: int | None,
    racing: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Build and validate models.

    RUNS_OR_CAMPAIGN is a table of runs (.csv, .tsv, .parquet), for which --target names the
    column to predict and everything else is chosen automatically; or a campaign, a TOML file or
    an aMLLibrary .ini file as it is.
    """
    from foretell.cli._progress import shown_progress

    asked = _Asked(source, output, target, data, jobs, on, time_limit, seed, racing)
    with shown_progress("trial", _best, quiet=quiet) as progress:
        fit = asked.table(progress) if asked.is_table else asked.campaign(progress)
    if as_json:
        click.echo(json.dumps(fit.results.to_json(), indent=1))
    else:
        click.echo(str(fit), nl=False)
        click.echo(_where(fit))


@dataclass(frozen=True)
class _Asked:
    """What the command line asks for."""

    source: Path
    output: Path
    target: str | None
    data: Path | None
    jobs: int | None
    on: str | None
    time_limit: float | None
    seed: int | None
    racing: bool

    @property
    def is_table(self) -> bool:
        return self.source.suffix.lower() in _TABLES

    def table(self, progress: Display) -> Fit:
        """Fit automatically."""
        from foretell.dataset import read_dataset
        from foretell.model.automatic.fit import run_automatic

        dataset = read_dataset(self.source)
        if self.target is None:
            raise UsageError(
                f"{self.source} is a table: say which column to predict with --target. "
                f"Columns: {', '.join(dataset.columns)}."
            )
        if self.racing or self.data is not None:
            option = "--racing" if self.racing else "--data"
            raise UsageError(f"{option} belongs to campaign files, and {self.source} is a table")
        options = self._options(progress)
        return run_automatic(dataset, self.target, options, seed=self.seed)

    def campaign(self, progress: Display) -> Fit:
        """Run a campaign."""
        from foretell.dataset import read_dataset
        from foretell.model.campaigns.fit import run_campaign
        from foretell.model.campaigns.sources import load_campaign, naming, resolve_data_path

        if self.target is not None:
            raise UsageError(
                f"--target belongs to tables of runs; the campaign {self.source} names its own"
            )
        spec, _, warnings = load_campaign(self.source)
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)
        if self.racing:
            search = spec.search.model_copy(update={"racing": True})
            spec = spec.model_copy(update={"search": search})
        with naming(self.source):
            dataset = read_dataset(self.data or resolve_data_path(spec, self.source))
            options = self._options(progress)
            return run_campaign(spec.with_seed(self.seed), dataset, options, warnings)

    def _options(self, progress: Display) -> RunOptions:
        from foretell import cli
        from foretell.executors import n_cores
        from foretell.model.run_options import RunOptions

        n_jobs = n_cores() if self.jobs is None and self.on is None else self.jobs
        options = RunOptions(self.output, n_jobs, self.time_limit, progress, self.on)
        return options if cli.started_at is None else replace(options, started=cli.started_at)


def _best(progress: Progress) -> str:
    if progress.best_error == float("inf"):
        return ", best –"
    if progress.score_name == "mape":
        return f", best {100 * progress.best_error:.2f} %"
    return f", best {progress.best_error:.4g}"


def _where(fit: Fit) -> str:
    size_kb = (fit.directory / "best.foretell").stat().st_size / 1000
    return (
        f"\n{fit.directory / 'best.foretell'}   {size_kb:,.0f} kB   in "
        f"{fit.results.times.total_s:.1f} s"
        f"   ·  predict: foretell predict {fit.directory} new.csv"
        f"   ·  look: foretell report {fit.directory}"
    )
