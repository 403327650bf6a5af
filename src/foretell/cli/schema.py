"""`foretell schema`: the JSON schema of campaign files, for editors."""

from __future__ import annotations

import click

from foretell.cli import _options as option
from foretell.cli._output import echo_json


@click.command()
@option.json("Print it as JSON, as without this option.")
def command(as_json: bool) -> None:
    """Print the JSON schema of campaign files; point your editor's TOML plug-in to it."""
    from foretell.model.campaigns.toml import campaign_schema

    echo_json(campaign_schema())
