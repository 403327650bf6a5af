"""`foretell score`: how far off a model is, and whether it has drifted."""

from __future__ import annotations

from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json


@click.command()
@option.model_argument
@option.path_argument("data", required=False)
@click.option(
    "--since",
    metavar="N or COLUMN=VALUE",
    help="Score only the last N rows, or those with at least this value of a column (a number or "
    "a date), and say whether the model has drifted.",
)
@option.json("Print the errors as JSON.")
def command(model: Path, data: Path | None, since: str | None, as_json: bool) -> None:
    """Show how far off a model is: at known values, between them, and beyond the range.

    MODEL is a directory of `foretell fit`, or a model file. Without DATA, the errors are those on
    runs held out in its fit. With DATA, a table with the measured target, they are those on its
    rows, with the share of runs in their intervals by trust class.
    """
    from foretell.model.scoring import score_model, since_of

    score = score_model(model, data, since=None if since is None else since_of(since))
    if as_json:
        echo_json(score.to_json())
    else:
        echo(str(score))
