"""`foretell corun measure`: programs measured alone and together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from foretell.cli import _options as option
from foretell.cli._output import NOTHING_USABLE, echo, echo_json
from foretell.wording import counted

if TYPE_CHECKING:
    from foretell.corun.measuring.measure import MeasuredSet, MeasureProgress

_MOST_SHOWN = 8


@click.command()
@option.path_argument("programs", metavar="SET.toml")
@option.output("Folder for the journal, the table, profiles and traces.", required=True)
@click.option("--dry-run", is_flag=True, help="Print the runs; run nothing.")
@option.quiet
@option.json("Print how the runs went as JSON.")
def measure(programs: Path, output: Path, dry_run: bool, quiet: bool, as_json: bool) -> None:
    """Measure programs alone, in pairs, shifted, in triples and pinned.

    Runs that others disturb are repeated. The same command continues where it was stopped, and
    makes runs again that failed.
    """
    from foretell.cli._progress import shown_progress
    from foretell.corun.measuring.measure import measure_co_runs
    from foretell.corun.measuring.set_file import planned_runs, read_set

    if dry_run:
        runs = planned_runs(read_set(programs))
        echo("\n".join([*(run.key for run in runs), counted(len(runs), "run")]))
        return

    def failed(progress: MeasureProgress) -> str:
        return f", {progress.n_failed} failed" if progress.n_failed else ""

    with shown_progress("run", failed, quiet=quiet) as progress:
        found = measure_co_runs(programs, output, progress=progress)
    if as_json:
        echo_json({**vars(found), "folder": str(found.folder), "failures": dict(found.failures)})
    else:
        _show(found)
    if not found.n_ok:
        sys.exit(NOTHING_USABLE)


def _show(found: MeasuredSet) -> None:
    disturbed = f", {found.n_disturbed} disturbed by others" if found.n_disturbed else ""
    lost = f", {len(found.failures)} failed" if found.failures else ""
    echo(f"{counted(found.n_ok, 'usable run')}{disturbed}{lost}: {found.folder / 'runs.csv'}")
    for key, reason in list(found.failures.items())[:_MOST_SHOWN]:
        echo(f"  {key}: {reason}")
