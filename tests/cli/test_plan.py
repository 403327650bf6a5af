"""`foretell plan`, from the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import foretell
from foretell.cli._main import cli

SPACE = ("--vary", "nodes=1..8", "--vary", "machine=m4,c4", "--fix", "size=40")
PRICES = """
by = "machine"
nodes = "nodes"
[machines.m4]
price_per_hour = 0.2
[machines.c4]
price_per_hour = 0.3
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    rows = [(s, n, m) for s in (10, 20, 40, 80) for n in (1, 2, 4, 8) for m in ("m4", "c4")]
    runs = pd.DataFrame(rows, columns=["size", "nodes", "machine"])
    factor = np.where(runs["machine"] == "m4", 1.0, 0.8)
    noise = np.random.default_rng(0).lognormal(0, 0.02, len(runs))
    runs["time_s"] = (5 + 30 * runs["size"] / runs["nodes"]) * factor * noise
    foretell.fit_model(runs, target="time_s").best.save(folder / "time.foretell")
    (folder / "prices.toml").write_text(PRICES)
    return folder


@pytest.fixture
def plan(folder, monkeypatch):
    monkeypatch.chdir(folder)

    def run(*words):
        return CliRunner().invoke(cli, ["plan", "time.foretell", *words])

    return run


def test_the_first_line_says_what_to_use(plan):
    result = plan(*SPACE, "--prices", "prices.toml", "--deadline", "5m")
    assert result.exit_code == 0
    first, second, *_ = result.stdout.splitlines()
    assert first.startswith("Use nodes=")
    assert "machine=m4" in first
    assert " $" in first
    assert "done within 5 min" in second


def test_a_request_file_says_the_same_and_options_come_on_top(plan, folder):
    (folder / "request.toml").write_text(
        'deadline = "5m"\nconfidence = 0.8\n[vary]\nnodes = {from = 1, to = 8}\n'
        'machine = ["m4", "c4"]\n[fix]\nsize = 40\n[prices]\nnodes = "nodes"\nprice_per_hour = 1\n'
    )
    told = json.loads(plan("--request", "request.toml", "--json").stdout)
    assert (told["confidence"], told["limits"]) == (0.8, {"deadline": 300.0})
    options = ("--confidence", "0.95", "--deadline", "10m", "--fix", "machine=c4", "--json")
    told = json.loads(plan("--request", "request.toml", *options).stdout)
    assert (told["confidence"], told["limits"]) == (0.95, {"deadline": 600.0})
    assert told["chosen"]["configuration"]["machine"] == "c4"


def test_no_plan_is_exit_code_one_and_says_what_binds(plan):
    result = plan(*SPACE, "--deadline", "1s")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "--deadline is too tight" in result.stderr
    assert "closest: nodes=8" in result.stderr
    as_json = plan(*SPACE, "--deadline", "1s", "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["chosen"] is None


def test_the_front_is_written_and_nothing_is_written_over(plan, folder):
    words = (*SPACE, "--prices", "prices.toml", "-o", "front.csv")
    assert plan(*words).exit_code == 0
    front = pd.read_csv(folder / "front.csv")
    assert {"nodes", "machine", "size", "time_s", "cost", "keeps_limits"} <= set(front.columns)
    assert front["time_s"].is_monotonic_increasing
    assert front["cost"].is_monotonic_decreasing
    again = plan(*words)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert plan(*words, "--force").exit_code == 0


def test_a_hand_off_alone_goes_to_stdout(plan):
    result = plan(*SPACE, "--as", "env")
    assert result.stdout == "FORETELL_SIZE=40\nFORETELL_NODES=8\nFORETELL_MACHINE=c4\n"
    assert "Use nodes=8" in result.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--vary", "nodes=1..8"), "needs 'machine' (measured: c4, m4)"),
        (("--vary", "nodes=1..8", "--fix", "machine=m4"), "needs 'size' (measured: 10 to 80)"),
        ((*SPACE, "--deadline", "1x"), "--deadline: '1x' cannot be read as time"),
        ((*SPACE, "--budget", "3"), "--budget: the cost"),
        ((*SPACE, "--as", "kubernets"), "Did you mean 'kubernetes'"),
        ((*SPACE, "--max", "nodes=many"), "is not a number"),
        ((*SPACE, "--max", "nods=3"), "nods"),
        ((*SPACE, "--vary", "nodes=2"), "given twice"),
        ((*SPACE, "--fix", "nodes=1..3"), "takes one value"),
        ((*SPACE, "--prices", "nothing.toml"), "there is no price file"),
        ((*SPACE, "--request", "nothing.toml"), "there is no request file"),
        ((*SPACE, "--candidates", "nothing.csv"), "nothing"),
        ((*SPACE, "--role", "x=y"), "write ROLE=COLUMN"),
        (("--fix", "size=40", "--vary", "nodes=1..8", "--vary", "machine=r4"), "never measured"),
        (
            ("--fix", "size=40", "--vary", "nodes=1..8", "--fix", "machine=C44"),
            "Did you mean 'c4'?",
        ),
    ],
)
def test_wrong_options_are_exit_code_two_with_one_line(plan, words, told):
    result = plan(*words)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_a_model_that_is_not_there_is_named(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(cli, ["plan", "tme.foretell", *SPACE])
    assert result.exit_code == 2
    assert "Did you mean 'time.foretell'" in result.stderr


def test_options_in_the_text_are_flags(plan):
    late = plan(*SPACE, "--deadline", "1ms")
    assert late.exit_code == 1
    assert "--deadline" in late.stderr
    far = plan(*SPACE[2:], "--vary", "nodes=1000000..2000000")
    assert far.exit_code == 1
    assert "--allow-far" in far.stderr


def test_a_bound_with_several_values_is_refused_by_its_own_name(plan):
    result = plan(*SPACE, "--max", "nodes=2,4")
    assert result.exit_code == 2
    assert "--max nodes takes one value" in result.stderr
