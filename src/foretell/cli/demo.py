"""`foretell demo`: fit and predict on a dataset that comes along."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

import click

from foretell.errors import StorageError


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Directory for the results.",
)
@click.option("-j", "--jobs", type=int, default=None, help="Worker processes [default: all cores].")
@click.pass_context
def command(ctx: click.Context, output: Path, jobs: int | None) -> None:
    """See it work: how long will xz take to compress a file?

    The dataset holds measured runs of xz at several sizes, levels and thread counts.
    """
    from foretell.cli.fit import command as fit
    from foretell.cli.predict import command as predict

    with as_file(files("foretell") / "demo") as data:
        campaign, runs = data / "campaign.toml", data / "runs.csv"
        click.echo(f"$ foretell fit {_shown(campaign)} --data {_shown(runs)} -o {output}")
        try:
            ctx.invoke(fit, source=campaign, data=runs, output=output, jobs=jobs)
        except StorageError as error:
            raise StorageError(f"{error} For the demo: foretell demo -o ANOTHER") from None
        new = data / "new_measured.csv"
        click.echo(f"\n$ foretell predict {output} {_shown(new)}")
        ctx.invoke(predict, model=output, data=new)
    click.echo(f"\nThe results are in {output}: results.txt to read, results.json for programs.")


def _shown(path: Path) -> str:
    """Write a path as the user would type it from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
