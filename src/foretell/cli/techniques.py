"""`foretell techniques`: list the techniques and their hyperparameters."""

from __future__ import annotations

import click

from foretell.cli import _options as option
from foretell.cli._output import echo, echo_json


@click.command()
@option.json("Print as JSON.")
def command(as_json: bool) -> None:
    """List the techniques with each hyperparameter's default and default search."""
    from foretell.model.techniques import TECHNIQUES

    rows = {
        name: [
            {"name": h.name, "default": h.default, "grid": list(h.grid), "prior": h.prior}
            for h in TECHNIQUES.get(name).hyperparameters
        ]
        for name in TECHNIQUES.names()
    }
    if as_json:
        echo_json(rows)
        return
    for name, hyperparameters in rows.items():
        echo(name)
        for h in hyperparameters:
            grid = ", ".join(map(str, h["grid"])) or "–"
            echo(
                f"  {h['name']:<18} default {h['default']!s:<12} grid {grid:<28} "
                f"prior {h['prior'] or '–'}"
            )
