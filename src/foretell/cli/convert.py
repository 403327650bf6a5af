"""`foretell convert`: an aMLLibrary campaign file in, TOML out."""

from __future__ import annotations

from pathlib import Path

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json


@click.command()
@option.path_argument("old")
@option.path_argument("new")
@option.force
@option.json("Print what was written as JSON.")
def command(old: Path, new: Path, force: bool, as_json: bool) -> None:
    """Turn an aMLLibrary campaign file OLD into a TOML file NEW that does the same."""
    from foretell.files.directory import write_new
    from foretell.model.campaigns.sources import load_campaign
    from foretell.model.campaigns.toml import write_toml

    campaign, _, warnings = load_campaign(old)
    text = write_toml(campaign)
    write_new(new, text.encode(), force=force)
    if as_json:
        echo_json({"file": str(new), "bytes": len(text.encode()), "warnings": list(warnings)})
        return
    for warning in warnings:
        echo(f"warning: {warning}", err=True)
    echo(f"{new} written   ·  run it: foretell fit {new} -o models/")
