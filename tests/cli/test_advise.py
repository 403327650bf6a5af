"""`foretell advise` and `foretell learn` as users see them: the loop, and words for mistakes."""

from __future__ import annotations

import json
import textwrap
import tomllib

import pandas as pd
import pytest
from click.testing import CliRunner

from foretell.cli._main import cli

JOBS = """
    def train(images, workers):
        if images == 999:
            raise RuntimeError("no")
        return {"train_s": images / 100 / workers + 0.4 * workers}
"""
SWEEP = """
meters = []
time_limit_s = 60
[workload]
use = "python"
call = "jobs:train"
[parameters]
images = [500, 1000, 2000, 4000]
workers = [1, 2, 4]
"""
QUESTION = ["--vary", "workers=1,2,4,8,16", "--fix", "images=4000", "--allow-far"]


def run(*words):
    return CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A sweep that was measured, and the model of its table."""
    folder = tmp_path_factory.mktemp("advise")
    (folder / "jobs.py").write_text(textwrap.dedent(JOBS))
    (folder / "sweep.toml").write_text(SWEEP)
    assert run("measure", folder / "sweep.toml", "-o", folder / "runs.csv", "-q").exit_code == 0
    fit = ("fit", folder / "runs.csv", "--target", "train_s", "-o", folder / "models", "-q", "-j1")
    assert run(*fit).exit_code == 0
    return folder


@pytest.fixture
def folder(measured, tmp_path, monkeypatch):
    """A copy of it, to change."""
    for path in measured.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "models").symlink_to(measured / "models")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_advice_measured_on_top_of_the_table_closes_the_loop(folder):
    result = run("advise", "models", *QUESTION, "--budget", "5m", "--data", "runs.csv",
                 "-k", 2, "-o", "next.toml")  # fmt: skip
    assert result.exit_code == 0, result.output
    first = result.stdout.splitlines()[0]
    assert first.startswith("Run workers=")
    assert "better" in first
    assert "sweep written to next.toml   ·  foretell measure next.toml --append runs.csv" in (
        result.stdout
    )
    proposed = tomllib.loads((folder / "next.toml").read_text())
    assert proposed["workload"] == {"use": "python", "call": "jobs:train"}
    assert proposed["time_limit_s"] == 60
    before = pd.read_csv("runs.csv")
    result = run("measure", "next.toml", "--append", "runs.csv", "-q")
    assert result.exit_code == 0, result.output
    after = pd.read_csv("runs.csv")
    new = after.iloc[len(before) :]
    assert new[["images", "workers"]].to_dict("records") == proposed["configurations"]
    pd.testing.assert_frame_equal(after.iloc[: len(before)][before.columns], before)


def test_json_says_all_that_the_text_says(folder):
    words = ["advise", "models", *QUESTION, "--budget", "5m", "--data", "runs.csv"]
    found = json.loads(run(*words, "--json").stdout)
    assert found["text"] == run(*words).stdout.strip()
    assert found["budget"] == {"kind": "time", "most": 300.0}
    assert found["runs"][0]["cost"] <= 300
    assert found["plan"]["chosen"]["configuration"]["images"] == 4000


def test_an_advised_run_that_fails_loses_nothing_and_is_not_advised_again(folder):
    (folder / "jobs.py").write_text("def train(images, workers):\n    raise RuntimeError('no')\n")
    words = ["advise", "models", *QUESTION, "--data", "runs.csv", "-o", "next.toml"]
    assert run(*words).exit_code == 0
    failed = tomllib.loads((folder / "next.toml").read_text())["configurations"]
    result = run("measure", "next.toml", "--append", "runs.csv", "-q")
    assert result.exit_code == 0, result.output
    assert "13 runs, 12 of them went well" in result.stdout
    assert run(*words, "--force").exit_code == 0
    again = tomllib.loads((folder / "next.toml").read_text())["configurations"]
    assert again != failed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "1ms"], "--budget '0.001 s': is below the cheapest run"),
        (["--budget", "20"], "--budget 20: a number without a unit is money"),
        (["--budget", "1x"], "--budget 1x: must be a time, an energy or money"),
        (["--data", "none.csv"], "there is no file none.csv"),
        (["--sweep", "none.toml"], "there is no sweep file"),
        (["-k", "0"], "--runs: must be at least 1, not 0"),
        (["--least-chance", "5"], "between 0 and 1"),
        (["--measure", "imags=1,2"], "no model has a column 'imags'. Did you mean 'images'?"),
        (["--measure", "images"], "has no values"),
        (["-o", "next.toml"], "-o needs to know how the job is run"),
        (["--fix", "imags=3"], "Did you mean 'images'?"),
    ],
)
def test_mistakes_are_said_in_words(folder, words, message):
    result = run("advise", "models", *QUESTION, *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (folder / "next.toml").exists()


def test_an_existing_file_is_kept_unless_forced(folder):
    (folder / "next.toml").write_text("mine")
    words = ["advise", "models", *QUESTION, "--sweep", "sweep.toml", "-o", "next.toml"]
    result = run(*words)
    assert result.exit_code == 2
    assert "exists already" in result.stderr
    assert (folder / "next.toml").read_text() == "mine"
    assert run(*words, "--force").exit_code == 0
    assert "configurations" in (folder / "next.toml").read_text()


def test_a_new_table_and_an_old_one_exclude_each_other(folder):
    result = run("measure", "sweep.toml", "-o", "new.csv", "--append", "runs.csv")
    assert result.exit_code == 2
    assert "give one of them" in result.stderr


def learn(choices, *rest):
    given = ("--vary", choices, "--fix", "images=4000", "--target", "train_s")
    return run("learn", "sweep.toml", "-o", "learned", *given, *rest)


def test_learn_shows_its_rounds_and_ends_with_the_plan(folder):
    result = learn("workers=1,2,4", "--budget", "5m")
    assert result.exit_code == 0, result.output
    assert "plan workers=" in result.stderr
    assert "next images=" in result.stderr
    assert result.stdout.startswith("Use workers=4")
    assert "no affordable run is likely to change the plan" in result.stdout
    planned = run("plan", "learned", "--vary", "workers=1,2,4", "--fix",
                  "images=4000")  # fmt: skip
    # The model alone is less sure than with the runs.
    assert planned.stdout.startswith("Use workers=4")


def test_learn_whose_budget_ends_before_there_is_a_plan_says_so_with_its_exit_code(folder):
    result = learn("workers=1,2", "--budget", "3s")
    assert result.exit_code == 1, result.output
    assert "--budget '3 s': the budget ends before there is a plan: 1 run took 5.4 s" in (
        result.stderr
    )
    assert "Raise --budget" in result.stderr
    assert len(pd.read_csv("learned/runs.csv")) == 1


def test_learn_without_a_plan_within_the_limits_says_so_with_its_exit_code(folder):
    result = learn("workers=1,2", "--deadline", "1s", "-q")
    assert result.exit_code == 1, result.output
    assert "No configuration meets the limits" in result.output


def test_runs_that_the_model_has_not_seen_are_told(folder):
    words = ("advise", "models", *QUESTION, "--data", "runs.csv", "--budget", "1h")
    assert run(*words).stderr == ""
    runs = pd.read_csv("runs.csv")
    pd.concat([runs, runs.head(1)]).to_csv("more.csv", index=False)
    words = ("advise", "models", *QUESTION, "--data", "more.csv", "--budget", "1h")
    assert f"has {len(runs) + 1} runs, and the model of train_s was fitted to {len(runs)}" in (
        run(*words).stderr
    )


def test_the_runs_in_the_directory_of_the_model_are_used_and_it_is_said(folder):
    words = ("advise", "models", *QUESTION, "--budget", "1h", "--json")
    found = run(*words)
    assert "models/runs.csv" in found.stderr
    given = run(*words, "--data", "runs.csv")
    assert given.stderr == ""
    assert json.loads(found.stdout)["text"] == json.loads(given.stdout)["text"]


def test_no_run_is_proposed_twice(folder):
    made = pd.read_csv("runs.csv")[["images", "workers"]].to_dict("records")
    words = ["advise", "models", *QUESTION, "-k", "9", "--least-chance", "0.0001", "--json"]
    proposed = [r["configuration"] for r in json.loads(run(*words).stdout)["runs"]]
    assert proposed
    assert not [c for c in proposed if c in made]


def test_with_everything_fixed_the_prediction_is_told(folder):
    fixed = ("--fix", "images=400000", "--fix", "workers=2")  # a hundred times the largest measured
    planned = run("plan", "models", *fixed)
    assert planned.exit_code == 0
    assert "Use images=400000, workers=2" in planned.stdout
    advised = run("advise", "models", *fixed)
    assert advised.exit_code == 0
    assert "Predicted now: images=400000, workers=2" in advised.stdout


def test_text_in_the_target_is_refused_with_its_row(folder):
    runs = pd.read_csv("runs.csv").astype({"train_s": object})
    runs.loc[3, "train_s"] = "failed"
    runs.to_csv("bad.csv", index=False)
    result = run("advise", "models", *QUESTION, "--budget", "5m", "--data", "bad.csv")
    assert isinstance(result.exception, SystemExit)
    assert "bad.csv, column 'train_s'" in result.stderr and "row 4" in result.stderr
