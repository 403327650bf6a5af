"""`foretell tune eta`: the answer, JSON, and errors in the words of the command line."""

import json

import pandas as pd
import pytest
from click.testing import CliRunner

from foretell.cli._main import cli
from foretell.model.fit import fit_model

SPACE = """
start_up_s = 2.0
[hyperparameters]
batch_size = [16, 32, 64]
[system]
threads = [2, 1]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eta")
    (folder / "space.toml").write_text(SPACE)
    rows = [
        {"batch_size": b, "threads": t, "epoch_s": 100 / b / t**0.5 * (1 + 0.01 * k)}
        for b in (16, 32, 64)
        for t in (1, 2, 4)
        for k in range(2)
    ]
    campaign = {
        "data": {"target": "epoch_s"},
        "features": {"log": ["batch_size"]},
        "techniques": {"LRRidge": {"alpha": 0.1}},
    }
    fit_model(campaign, pd.DataFrame(rows), output=folder / "models")
    return folder


def run(folder, *words):
    space, model = str(folder / "space.toml"), str(folder / "models")
    return CliRunner().invoke(cli, ["tune", "eta", space, "--model", model, *words])


def test_the_answer_comes_first(folder):
    shown = run(folder, "--cores", "4", "--trials", "20", "--max-epochs", "9")
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert lines[0].startswith("About ")
    assert lines[1].startswith("asha: 20 trials, 2 at a time with 2 threads each; ")
    assert any(line.startswith("1 thread per trial") for line in lines)


def test_json_has_all_figures(folder):
    shown = run(folder, "--cores", "4", "--trials", "20", "--max-epochs", "9", "--json")
    found = json.loads(shown.output)
    assert found["lower_s"] < found["time_s"] < found["upper_s"]
    assert found["start_up_s"] == 2.0
    assert {c["kind"] for c in found["changes"]} >= {"threads", "epochs"}


def test_cores_are_those_of_the_machine_by_default(folder):
    from foretell.executors import n_cores

    shown = run(folder, "--trials", "5", "--max-epochs", "3", "--json")
    if n_cores() >= 2:
        assert json.loads(shown.output)["cores"] == n_cores()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--scheduler", "ahsa"), "--scheduler: unknown scheduler 'ahsa'. Did you mean 'asha'?"),
        (("--eta", "1.5"), "--eta 1.5: must be at least 2"),
        (("--max-epochs", "0"), "--max-epochs: must be at least 1"),
        (("--cores", "1"), "--cores: a trial has 2 threads, and there is 1 core:"),
        (("--trials", "0"), "--trials: must be from 1"),
        (("--scheduler", "hyperband", "--min-epochs", "3"), "--min-epochs 3: hyperband has no"),
        (("--scheduler", "random", "--min-epochs", "3"), "--min-epochs 3: random has no"),
        (("--scheduler", "random", "--eta", "2"), "--eta 2: random has no rungs"),
        (("--scheduler", "optuna-halving", "--eta", "2.5"), "--eta 2.5: must be a whole number"),
        (("--scheduler", "optuna-hyperband", "--eta", "2.5"), "--eta 2.5: must be a whole number"),
        (
            ("--scheduler", "asha", "--study", "mine"),
            "--study mine: the name of a study",
        ),
        (("--job", "lenet"), "--job: is of a store of epochs, and the model is none"),
        (("--share",), "--share: is of a store of epochs, and the model is none"),
        (("--start-up", "-3"), "--start-up: must be at least 0"),
    ],
)
def test_errors_speak_of_flags(folder, words, told):
    shown = run(folder, "--cores", "4", *words)
    assert shown.exit_code == 2
    assert told in shown.output


def test_help_is_shown_without_a_verb():
    shown = CliRunner().invoke(cli, ["tune"])
    assert shown.exit_code == 0
    assert "eta" in shown.output


def test_a_word_among_numbers_of_the_space_is_named(folder):
    space = folder / "wrong.toml"
    space.write_text(SPACE.replace("[16, 32, 64]", '[16, 32, "big"]'))
    words = ["tune", "eta", str(space), "--model", str(folder / "models"), "--cores", "4"]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 2
    assert "the space lists 'big' for batch_size" in shown.output
