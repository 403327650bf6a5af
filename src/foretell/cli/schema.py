"""`foretell schema`: the JSON schema of campaign files, for editors."""

from __future__ import annotations

import json

import click


@click.command()
def command() -> None:
    """Print the JSON schema of campaign files; point your editor's TOML plug-in to it."""
    from foretell.model.campaigns.toml import campaign_schema

    click.echo(json.dumps(campaign_schema(), indent=2))
