"""`foretell measure`: run a sweep of configurations, and write a table of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json, echo_unchanged
from foretell.spaces.quantities import duration
from foretell.statuses import Status
from foretell.wording import counted

if TYPE_CHECKING:
    from foretell.measure.measure import Estimate, MeasuredSweep, PreparedSweep, SweepProgress

_MOST_ROWS_SHOWN = 20


@click.command()
@option.path_argument("sweep", metavar="SWEEP.toml")
@option.output("Table to write (.csv); its journal, log and description are beside it.")
@option.path(
    "--append",
    metavar="TABLE",
    help="Add the runs to a table that foretell measured, such as those that `advise` proposes.",
)
@click.option("--dry-run", is_flag=True, help="Print the runs and the time they take; run nothing.")
@option.on
@click.option("--yes", is_flag=True, help="Run a sweep of very many runs without asking.")
@option.quiet
@option.json("Print the description of the table, or the runs of --dry-run, as JSON.")
def command(  # noqa: PLR0913 - one parameter per option
    sweep: Path,
    output: Path | None,
    append: Path | None,
    dry_run: bool,
    on: str | None,
    yes: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run every configuration of a sweep and write one row per run.

    The same command continues where it was stopped.
    """
    from foretell.cli._progress import shown_progress
    from foretell.measure.measure import MeasureOptions, estimate_time, measure_sweep, prepare_sweep

    if output is not None and append is not None:
        raise click.UsageError("-o writes a new table and --append adds to one; give one of them.")
    table = output or append
    if dry_run:
        prepared = prepare_sweep(sweep, is_sure=True)
        estimate = estimate_time(prepared, table)
        if as_json:
            runs = [{"configuration": r.configuration, "repeat": r.repeat} for r in prepared.runs]
            echo_json({"runs": runs, "n_left": estimate.n_left, "total_s": estimate.total_s})
        else:
            echo(f"{_plan_text(prepared)}\n\n{_estimate_text(prepared, estimate)}")
        return
    if table is None:
        raise click.UsageError("Missing option '-o': name the table to write, such as runs.csv")
    if table.suffix != ".csv":
        raise click.UsageError(f"the table must be a .csv file, not {table}")

    def failed(progress: SweepProgress) -> str:
        return f", {progress.n_failed} failed" if progress.n_failed else ""

    with shown_progress("run", failed, quiet=quiet) as progress:
        options = MeasureOptions(on, yes, progress, append=append is not None)
        measured = measure_sweep(sweep, table, options)
    if as_json:
        from foretell.dataset import description_path

        echo_unchanged(description_path(measured.table).read_text())
    else:
        echo(_summary(measured))


def _plan_text(prepared: PreparedSweep) -> str:
    names = list(prepared.runs[0].configuration)
    rows = [["run", *names, "repeat"]]
    for run in prepared.runs[:_MOST_ROWS_SHOWN]:
        values = [str(run.configuration[n]) for n in names]
        rows.append([str(run.index + 1), *values, str(run.repeat)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in rows]
    more = len(prepared.runs) - _MOST_ROWS_SHOWN
    if more > 0:
        lines.append(f"… and {more:,} more")
    return "\n".join(lines)


def _estimate_text(prepared: PreparedSweep, estimate: Estimate) -> str:
    n_done = len(prepared.runs) - estimate.n_left
    text = counted(len(prepared.runs), "run")
    text += f", {n_done:,} of them finished" if n_done else ""
    if prepared.sweep.warm_up:
        text += f", each after {prepared.sweep.warm_up} to warm up"
    if estimate.total_s is None or estimate.run_s is None:
        return f"{text}; write expected_s or time_limit_s into the sweep to know how long they take"
    total, each = duration(estimate.total_s), duration(estimate.run_s)
    match estimate.source:
        case "finished":
            return f"{text}; the others take about {total}: those took {each} on average"
        case "expected":
            return f"{text}; they take about {total}: {each} each"
    return f"{text}; they take {total} at most: {each} each"


def _summary(measured: MeasuredSweep) -> str:
    from foretell.measure.table import to_row

    records = measured.records
    lines = [
        f"{measured.table}   {counted(len(records), 'run')}, {measured.n_ok} of them went well"
    ]
    if measured.n_new < len(records):
        lines[0] += f"; {measured.n_new} {'is' if measured.n_new == 1 else 'are'} new"
    failed = [r for r in records if r["status"] != Status.OK]
    for record in failed[:3]:
        settings = ", ".join(f"{n} = {v}" for n, v in record["configuration"].items())
        lines.append(f"{record['status']}: {settings}: {record['reason']}")
    if len(failed) > 3:
        lines.append(f"… and {len(failed) - 3} more; {measured.table.with_suffix('.log')} has all")
    n_shared = sum(to_row(r).get("is_shared") == "yes" for r in records)
    if n_shared:
        lines.append(
            f"{n_shared} of them shared the machine with other load: is_shared is yes. With "
            "most_other_load and retries in the sweep, such runs are made again"
        )
    if measured.n_deleted:
        rows = "1 row was" if measured.n_deleted == 1 else f"{measured.n_deleted} rows were"
        lines.append(f"{rows} deleted from the table before; the runs are not made again")
    lines += [f"no {name}: {why}" for name, why in measured.missing.items()]
    if len({str(record["configuration"]) for record in records}) > 1:
        fit = f"foretell fit {measured.table} --target wall_time_s -o {_free_directory()}/"
        lines.append(f"fit: {fit}")
    else:
        lines.append(f"One configuration, so there is nothing to fit.{_mean_power(records)}")
    return "\n".join(lines)


def _mean_power(records: Sequence[Mapping[str, Any]]) -> str:
    """Say the mean power of runs, if their energy was measured."""
    from foretell.measure.table import to_row

    rows = [to_row(r) for r in records if r["status"] == Status.OK]
    known = [row for row in rows if row.get("energy_j") is not None]
    time_s = sum(float(row["wall_time_s"]) for row in known)
    if not time_s:
        return ""
    watts = sum(float(row["energy_j"]) for row in known) / time_s
    return f" Mean power: {watts:.3g} W (energy_j / wall_time_s)."


def _free_directory() -> str:
    """Return a name for models that is not taken: a fit on other data goes elsewhere."""
    names = ("models", *(f"models-{i}" for i in range(2, 1000)))
    return next(name for name in names if not Path(name).exists())
