"""`foretell score`: how far off a model is, inside the data and beyond."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the errors as JSON.")
def command(model: Path, data: Path | None, as_json: bool) -> None:
    """Show how far off a model is: inside the data, between levels, and beyond the range.

    MODEL is a directory of `foretell fit`, or a model file. Without DATA, the errors are those of
    the rehearsals in its fit: rows held out of the measured ones. With DATA, a table with the
    measured target, they are those of the model on its rows.
    """
    from foretell.model.scoring import rehearsed_errors, score_rows, scores_text

    scores = rehearsed_errors(model) if data is None else score_rows(model, data)
    click.echo(json.dumps(scores, indent=1) if as_json else scores_text(scores))
