"""`foretell advise`: the next run worth paying for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json, echo_notes
from foretell.cli._plan_options import (
    candidates_option,
    least_chance_option,
    load_models,
    plan_options,
    read_axes,
    read_options,
    run_budget_option,
    runs_option,
)
from foretell.errors import UsageError
from foretell.wording import printable_lines

if TYPE_CHECKING:
    from foretell.model.saved.model import SavedModel


@click.command()
@option.models_argument
@plan_options
@candidates_option
@run_budget_option
@runs_option
@option.path(
    "--data",
    metavar="TABLE",
    help="The runs made so far, with those that hit a time limit [default: runs.csv of the model].",
)
@click.option(
    "--measure",
    multiple=True,
    metavar="COLUMN=VALUES",
    help="What else can be measured: size=1..64*2 [default: smaller jobs like the plan's].",
)
@least_chance_option
@click.option(
    "--precision",
    type=float,
    metavar="SHARE",
    help="Stop when both ends of the interval are this near: 0.2 is 20 % [default: never].",
)
@click.option("--repeats", is_flag=True, help="Also propose runs that were made before.")
@option.path(
    "--sweep",
    metavar="FILE",
    help="The sweep that measured the data [default: from the description beside the data].",
)
@option.output("Write the runs as a sweep for `foretell measure`.")
@option.force
@option.json("Print the advice as JSON.")
def command(  # noqa: PLR0913 - one parameter per option
    models: tuple[Path, ...],
    candidates: Path | None,
    budget: str | None,
    n_runs: int,
    data: Path | None,
    measure: tuple[str, ...],
    least_chance: float,
    precision: float | None,
    repeats: bool,
    sweep: Path | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Propose the next runs: those that most improve the plan for what they cost.

    MODELS and the question are those of `foretell plan`. With nothing to choose, the runs are those
    that most narrow the interval of the prediction.
    """
    from foretell.decide.advise.next_run import advise
    from foretell.decide.advise.next_sweep import next_sweep, sweep_toml
    from foretell.decide.advise.options import AdviceOptions
    from foretell.files.directory import write_new

    loaded = load_models(models)
    if data is None:
        data = _runs_of_models(models, loaded)
    used = _sweep(sweep, data)
    if output is not None and used is None:
        raise UsageError(
            "-o needs to know how the job is run: give the sweep that measured the data (--sweep "
            "FILE), or its table with the description beside it (--data runs.csv)"
        )
    options = AdviceOptions(
        budget=budget,
        n_runs=n_runs,
        measure=read_axes(measure) or None,
        least_chance=least_chance,
        sweep=used,
        repeats=repeats,
        precision=precision,
    )
    _note_unseen(loaded, data)
    advice = advise(loaded, read_options(given), data=data, candidates=candidates, options=options)
    if output is not None and used is not None and advice.proposals:
        runs = [proposal.configuration for proposal in advice.proposals]
        remark = printable_lines(f"Proposed by foretell advise.\n{advice!r}")
        text = sweep_toml(next_sweep(used, runs, advice.n_past), remark)
        write_new(output, text.encode(), force=force)
    if as_json:
        echo_json(advice.to_json(option.flag))
        return
    echo(repr(advice))
    if output is not None and advice.proposals:
        has_journal = data is not None and data.with_suffix(".journal").is_file()
        where = f"--append {data}" if has_journal else "-o new_runs.csv"
        echo(f"sweep written to {output}   ·  foretell measure {output} {where}")


def _runs_of_models(paths: Sequence[Path], models: Sequence[SavedModel]) -> Path | None:
    """Return the table of runs in the directory of a model, if it has all that is needed."""
    from foretell.dataset import read_dataset
    from foretell.model.directory import RUNS

    needed = {name for model in models for name in [*model.columns, model.target]}
    for path in paths:
        table = (path if path.is_dir() else path.parent) / RUNS
        if table.is_file() and needed <= set(read_dataset(table).columns):
            echo_notes([f"the runs made so far are read from {table}; --data names others"])
            return table
    return None


def _note_unseen(models: Sequence[SavedModel], data: Path | None) -> None:
    """Say if the table has runs that a model was not fitted to."""
    from foretell.dataset import read_dataset

    if data is None:
        return
    dataset = read_dataset(data)
    for model in models:
        dataset.require([model.target])
        n_runs = len(dataset.for_target(model.target)[0].frame)
        if n_runs > model.n_rows:
            note = (
                f"{data} has {n_runs} runs, and the model of {model.target} was fitted to "
                f"{model.n_rows}; fit again, into another directory, to use them all"
            )
            echo_notes([note])


def _sweep(sweep: Path | None, data: Path | None) -> dict[str, Any] | None:
    """Return the sweep that measured the data, as plain values; None if it is not known."""
    from foretell.dataset import read_description
    from foretell.measure.sweep import read_sweep
    from foretell.measure.table_sweeps import dumped

    found = sweep
    if found is None and data is not None:
        found = read_description(data).get("sweep")
    return dumped(read_sweep(found)) if isinstance(found, Path | dict) else None
