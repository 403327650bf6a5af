"""`foretell convert`: an aMLLibrary campaign file in, TOML out."""

from __future__ import annotations

from pathlib import Path

import click

from foretell.errors import StorageError


@click.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Write over an existing file.")
def command(old: Path, new: Path, force: bool) -> None:
    """Turn an aMLLibrary campaign file OLD into a TOML file NEW that does the same."""
    from foretell.model.directory import write_whole
    from foretell.model.sources import load_campaign
    from foretell.model.toml import write_toml

    campaign, _, warnings = load_campaign(old)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    if new.exists() and not force:
        raise StorageError(f"{new} exists already; name another file, or add --force")
    write_whole(new, write_toml(campaign).encode())
    click.echo(f"{new} written   ·  run it: foretell fit {new} -o models/")
