"""Errors name an option as its verb declares it."""

import click
import pytest
from click.testing import CliRunner

from foretell.cli._main import VERBS, cli
from foretell.cli._options import flag
from foretell.errors import Option


def verb(name):
    return cli.get_command(None, name)


@pytest.mark.parametrize(
    ("name", "option", "written"),
    [
        ("plan", Option("form", "ray"), "--as ray"),
        ("report", Option("form", "html"), "--format html"),
        ("plan", Option("most", "8", key="nodes"), "--max nodes=8"),
        ("advise", Option("n_runs"), "--runs"),
        ("fit", Option("output"), "-o"),
        ("fit", Option("n_jobs", "2"), "--jobs 2"),
        ("measure", Option("is_sure"), "--yes"),
    ],
)
def test_an_option_is_written_as_the_verb_declares_it(name, option, written):
    assert flag(option, verb(name)) == written


def test_the_verb_that_runs_is_the_default():
    @click.command()
    @click.option("--format", "form")
    def command(form):
        click.echo(flag(Option("form")))

    assert CliRunner().invoke(command, []).output == "--format\n"
    assert flag(Option("form")) == "--as"


@pytest.mark.parametrize(
    "command",
    [c for name in VERBS for c in getattr(verb(name), "commands", {"": verb(name)}).values()],
)
def test_shared_options_are_declared_alike(command):
    options = {p.name: p for p in command.params if isinstance(p, click.Option)}
    for word, names in {
        "output": ["-o", "--output"],
        "force": ["--force"],
        "as_json": ["--json"],
        "quiet": ["-q", "--quiet"],
        "jobs": ["-j", "--jobs"],
        "on": ["--on"],
    }.items():
        if word in options:
            assert options[word].opts == names
    assert "as_json" in options
