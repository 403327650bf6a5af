"""`foretell export`: a model as JSON, Python or SQL, for use without foretell."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json, echo_unchanged
from foretell.errors import ModelError


@click.command()
@option.model_argument
@click.option(
    "--as",
    "form",
    type=click.Choice(["json", "python", "sql"]),
    required=True,
    help="json: a documented tree. python: a module with predict(row). sql: one expression.",
)
@option.output("Write to this file.")
@option.force
@option.json("Print the exported text, or what was written, as JSON.")
def command(model: Path, form: str, output: Path | None, force: bool, as_json: bool) -> None:
    """Write a model for use without foretell.

    MODEL is a model file, or a directory of `foretell fit`, whose best model is used. It must
    have a formula, as linear models and laws do. Columns have the names they were trained with.
    """
    from foretell.files.directory import write_new

    text = _exported(model, form)
    if output is None:
        if as_json:
            echo_json({"form": form, "text": text})
        elif sys.stdout.isatty():
            echo(text, nl=False)
        else:
            echo_unchanged(text)
        return
    write_new(output, text.encode(), force=force)
    if as_json:
        echo_json({"form": form, "file": str(output), "bytes": len(text.encode())})
    else:
        echo(f"{output} written")


def _exported(path: Path, form: str) -> str:
    from foretell.model.saved.export import export_model, models_with_formula
    from foretell.model.saved.model import load_model

    try:
        return export_model(load_model(path), form)
    except ModelError as error:
        others = models_with_formula(path) if path.is_dir() else []
        if not others:
            raise
        found = ", ".join(str(other) for other in others)
        raise ModelError(f"{error} Models that can be exported: {found}.") from None
