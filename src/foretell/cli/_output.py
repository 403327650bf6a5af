"""What verbs print: text that is safe on a terminal, JSON for programs, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from foretell.wording import printable_lines

NOTHING_USABLE, WRONG_INPUT, INTERRUPTED = 1, 2, 130


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text; control characters in names from files become escapes."""
    click.echo(printable_lines(text), err=err, nl=nl)


def echo_json(value: Any) -> None:
    """Print a value as JSON."""
    echo_unchanged(json.dumps(value, indent=1) + "\n")


def echo_unchanged(text: str) -> None:
    """Print what another program reads, such as JSON or an exported model."""
    click.echo(text, nl=False)


def echo_notes(notes: Iterable[str]) -> None:
    """Print notes for the user beside the result."""
    for note in notes:
        echo(f"note: {note}", err=True)
