"""`foretell export`: a model as JSON, Python or SQL, for use without foretell."""

from __future__ import annotations

from pathlib import Path

import click

from foretell.errors import ModelError


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--as",
    "form",
    type=click.Choice(["json", "python", "sql"]),
    required=True,
    help="json: a documented tree. python: a module with predict(row). sql: one expression.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.")
@click.option("--force", is_flag=True, help="Write over an existing file.")
def command(model: Path, form: str, output: Path | None, force: bool) -> None:
    """Write a model for use without foretell.

    MODEL is a model file, or a directory of `foretell fit`, whose best model is taken. It must
    have a formula, as linear models and laws do. Columns have the names they were trained with.
    """
    from foretell.files.directory import write_new
    from foretell.model.saved.export import export_model, models_with_formula
    from foretell.model.saved.model import load_model

    loaded = load_model(model)
    try:
        text = export_model(loaded, form)
    except ModelError as error:
        others = models_with_formula(model) if model.is_dir() else []
        if not others:
            raise
        found = ", ".join(str(path) for path in others)
        raise ModelError(f"{error} Models that can be exported: {found}.") from None
    if output is None:
        click.echo(text, nl=False)
        return
    write_new(output, text.encode(), force=force)
    click.echo(f"{output} written")
