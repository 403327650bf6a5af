"""`foretell impact`: which settings matter, and what tuning them reaches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json
from foretell.errors import Option, UsageError

if TYPE_CHECKING:
    from foretell.dataset import Dataset


@click.command()
@click.argument("source")
@click.option("--target", metavar="COLUMN", help="Column that is judged [default: a model's].")
@click.option("--quality", metavar="COLUMN", help="Second column that is judged, such as accuracy.")
@click.option(
    "--by", multiple=True, metavar="COLUMN,...", help="Columns that tell workloads apart."
)
@click.option("--system", multiple=True, metavar="COLUMN,...", help="Settings of the system.")
@click.option("--hyper", multiple=True, metavar="COLUMN,...", help="Settings of what runs on it.")
@click.option("--skip", multiple=True, metavar="COLUMN,...", help="Columns that are not settings.")
@click.option(
    "--levels",
    multiple=True,
    metavar="COLUMN=HIGH,MEDIUM",
    help="From which ranges on an impact is high, and medium "
    "[default: 0.2,0.1 for the target, 0.05,0.01 for the quality, and for a target whose name is "
    "that of a quality, or that a study maximizes].",
)
@click.option(
    "--better",
    multiple=True,
    metavar="COLUMN=lower|higher",
    help="Which is better, where the name of the target or the quality does not tell.",
)
@click.option(
    "--baseline",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Usual value of a setting [default: the most frequent one].",
)
@click.option("--price-per-hour", type=float, default=0.0, help="Price of a machine per hour.")
@click.option(
    "--machines",
    default="1",
    metavar="N|COLUMN",
    help="How many machines a run takes [default: 1].",
)
@click.option("--price-per-gb", type=float, default=0.0, help="Price of a GB that leaves.")
@click.option(
    "--out-gb", default="0", metavar="N|COLUMN", help="GB that leave in a run [default: 0]."
)
@click.option("--study", metavar="NAME", help="Name of an Optuna study, if a storage has several.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides all draws.")
@option.output("Write a report to this file (.html, .md, .pdf), with a heat map.")
@option.force
@option.json("Print all figures as JSON.")
def command(  # noqa: PLR0913 - one parameter per option
    source: str,
    target: str | None,
    levels: tuple[str, ...],
    better: tuple[str, ...],
    baseline: tuple[str, ...],
    study: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Tell how much each setting changes a result, and what tuning which of them reaches.

    SOURCE is a table of runs (.csv, .tsv, .parquet), a folder of results of Ray Tune, the address
    of a storage of Optuna (such as sqlite:///study.db), a directory of `foretell fit`, or a model
    file. Settings are all columns that are not judged, skipped or known only after a run.
    """
    from foretell.impact.analyze import analyze_impact

    for name in ("by", "system", "hyper", "skip"):
        asked[name] = tuple(part.strip() for word in asked[name] for part in word.split(","))
    asked["machines"], asked["out_gb"] = _figure(asked["machines"]), _figure(asked["out_gb"])
    asked["levels"] = {
        name: _ranges(name, value) for name, value in _pairs("levels", levels).items()
    }
    asked["better"] = _pairs("better", better)
    asked["baseline"] = _pairs("baseline", baseline)
    if output is not None:
        from foretell.report.impact import check_output

        check_output(output, force=force)
    found = analyze_impact(_read(source, study), target, **asked)
    if output is not None:
        from foretell.report.impact import write_impact_report

        write_impact_report(found, output, force=force)
    if as_json:
        echo_json(found.to_json())
        return
    echo(str(found))
    if output is not None:
        echo(f"\n{output} written.")


def _read(source: str, study: str | None) -> str | Path | Dataset:
    """Read a study of Optuna or a folder of Ray Tune; tables and models stay paths."""
    from foretell.adapters.optuna_study import is_storage, read_optuna_study
    from foretell.adapters.ray_results import is_ray_folder, read_ray_results
    from foretell.files.content import is_database

    if is_storage(source):
        return read_optuna_study(source, study)
    path = Path(source)
    if is_database(path):
        raise UsageError(
            f"{source} is a database; if it is a storage of Optuna, give its address: "
            f"sqlite:///{source}"
        )
    if study is not None:
        raise UsageError(
            f"{source} is no storage of Optuna, whose address is like sqlite:///study.db",
            option=Option("study", study),
        )
    return read_ray_results(path) if is_ray_folder(path) else path


def _pairs(name: str, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for word in given:
        column, sign, value = word.partition("=")
        if not (column and sign and value):
            raise UsageError(f"'{word}' must be COLUMN=...", option=Option(name))
        found[column.strip()] = value.strip()
    return found


def _ranges(column: str, value: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        raise UsageError(
            f"'{value}' must be two numbers, such as 0.2,0.1",
            option=Option("levels", value, key=column),
        ) from None


def _figure(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word
