"""The question that options ask: they add to a request file, and override it where both speak."""

import click
import pytest

from foretell.cli._plan_options import plan_options, read_options
from foretell.errors import UsageError

FILE = """
minimize = "time"
deadline = "1h"
only = ["nodes < 9"]
[vary]
nodes = [1, 2, 4]
machine = ["c4", "m4"]
[fix]
size = 3
[derive]
cores = "2 * nodes"
[most]
nodes = 8
"""


@pytest.fixture
def asked(tmp_path):
    """Read options as a verb gets them, with or without the request file."""
    (tmp_path / "request.toml").write_text(FILE)

    @click.command()
    @plan_options
    def verb(**given):
        return read_options(given)

    def read(*words, file=True):
        request = ["--request", str(tmp_path / "request.toml")] if file else []
        return verb.main([*request, *words], standalone_mode=False)

    return read


def test_a_file_alone_is_the_question(asked):
    request = asked()
    assert (request.minimize, request.deadline) == ("time", "1h")
    assert request.fix == {"size": 3}
    assert (request.derive, request.only) == ({"cores": "2 * nodes"}, ["nodes < 9"])


def test_options_override_single_values_and_add_to_lists_and_tables(asked):
    options = ("--deadline", "5m", "--only", "cores < 7", "--derive", "a = nodes + 1")
    request = asked(*options, "--max", "nodes=4", "--min", "size=1", "--allow-far", "--risk", "0.2")
    assert request.deadline == "5m"
    assert request.only == ["nodes < 9", "cores < 7"]
    assert request.derive == {"cores": "2 * nodes", "a": "nodes + 1"}
    assert (request.most, request.least) == ({"nodes": 4.0}, {"size": 1.0})
    assert request.allow_far
    assert request.risk == 0.2


def test_a_column_that_the_file_varies_can_be_fixed_and_the_other_way_round(asked):
    request = asked("--fix", "machine=c4", "--vary", "size=1,2")
    assert set(request.vary) == {"nodes", "size"}
    assert request.fix == {"machine": "c4"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fix", "nodes=1,2"], "--fix nodes takes one value; --vary nodes=... takes several"),
        (["--vary", "n=1", "--vary", "n=2"], "'n' is given twice; write n=a,b,c"),
        (["--max", "nodes=many"], "--max nodes=many: 'many' is not a number"),
        (["--derive", "nodes"], "--derive nodes: write COLUMN=EXPRESSION"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_their_flags(asked, words, message):
    with pytest.raises(UsageError) as caught:
        asked(*words, file=False)
    assert message in str(caught.value)
