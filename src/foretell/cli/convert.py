"""`foretell convert`: an aMLLibrary campaign file in, TOML out."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Write over an existing file.")
def command(old: Path, new: Path, force: bool) -> None:
    """Turn an aMLLibrary campaign file OLD into a TOML file NEW that does the same."""
    from foretell.files.directory import write_new
    from foretell.model.campaigns.sources import load_campaign
    from foretell.model.campaigns.toml import write_toml

    campaign, _, warnings = load_campaign(old)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    write_new(new, write_toml(campaign).encode(), force=force)
    click.echo(f"{new} written   ·  run it: foretell fit {new} -o models/")
