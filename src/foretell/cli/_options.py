"""Options that several verbs share, and how errors write options: as flags."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from foretell.errors import Option

Command = TypeVar("Command", bound=Callable[..., Any])


class Decorator(Protocol):
    """Adds an argument or an option to a command."""

    def __call__(self, command: Command, /) -> Command:
        """Return the command with it."""


#: Flags of options whose verb does not declare them under their Python name.
_FLAGS = {
    "output": "-o",
    "n_jobs": "--jobs",
    "time_limit_s": "--time-limit",
    "is_sure": "--yes",
    "most": "--max",
    "least": "--min",
    "form": "--as",
    "n_runs": "--runs",
    "n_seeds": "--seeds",
    "start_up_s": "--start-up",
}


def flag(option: Option, command: click.Command | None = None) -> str:
    """Write an option as on the command line of a verb, by default of the one that runs.

    >>> print(flag(Option("allow_far")), flag(Option("fix", "8", key="nodes")))
    --allow-far --fix nodes=8
    """
    context = click.get_current_context(silent=True)
    if command is None and context is not None:
        command = context.command
    declared = {} if command is None else {p.name: p.opts[-1] for p in command.params}
    word = "--" + option.name.replace("_", "-")
    word = _FLAGS.get(option.name, word)
    if option.name != "output":  # whose short form is the usual one
        word = declared.get(option.name, word)
    if option.key is not None:
        return f"{word} {option.key}={option.value or '...'}"
    return word if option.value is None else f"{word} {shlex.quote(option.value)}"


def path_argument(name: str, **settings: Any) -> Decorator:
    """Add an argument that names a file or a directory."""
    return click.argument(name, type=click.Path(path_type=Path), **settings)


def path(*names: str, **settings: Any) -> Decorator:
    """Add an option that names a file or a directory."""
    return click.option(*names, type=click.Path(path_type=Path), **settings)


def columns(name: str, text: str) -> Decorator:
    """Add an option that names a column, and can be repeated."""
    return click.option(name, multiple=True, metavar="COLUMN", help=text)


def output(text: str, **settings: Any) -> Decorator:
    """Add ``-o``: where results are written."""
    return path("-o", "--output", help=text, **settings)


def json(text: str) -> Decorator:
    """Add ``--json``: the result for programs."""
    return click.option("--json", "as_json", is_flag=True, help=text)


model_argument = path_argument("model")
models_argument = path_argument("models", nargs=-1, required=True)
force = click.option("--force", is_flag=True, help="Write over an existing file.")
quiet = click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
jobs = click.option("-j", "--jobs", type=int, help="Worker processes [default: all cores].")
on = click.option("--on", metavar="WHERE", help="'ray', or the address of a Ray cluster.")
