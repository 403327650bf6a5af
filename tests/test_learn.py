"""Learning: from no run at all to a plan, stopped and continued, within its budget."""

from __future__ import annotations

import json
import textwrap

import pandas as pd
import pytest

from foretell.errors import DatasetError, StorageError, UsageError
from foretell.files.journal import decode
from foretell.learn import LearnOptions, learn_plan

#: Jobs whose times are made up: work divides among workers, who have to meet. Of the second one,
#: eight workers are too many.
JOBS = """
    from pathlib import Path

    def train(images, workers):
        with (Path(__file__).parent / "calls.txt").open("a") as file:
            file.write(f"{images} {workers}\\n")
        return {"train_s": images / 100 / workers + 0.4 * workers}

    def crowded(images, workers):
        if workers == 8:
            raise RuntimeError("no room for eight")
        return train(images, workers)
"""
SWEEP = """
meters = []
[workload]
use = "python"
call = "jobs:train"
[parameters]
images = {from = 500, to = 4000, factor = 2}
workers = [1, 2, 4, 8]
"""
REQUEST = {"vary": {"workers": [1, 2, 4, 8]}, "fix": {"images": 4000}}
WORDS = ["learn", "sweep.toml", "--vary", "workers=1,2,4,8", "--fix", "images=4000",
         "--target", "train_s", "--budget", "10m"]  # fmt: skip
N_ALL = 16  # runs that could be made


def prepare(folder):
    (folder / "jobs.py").write_text(textwrap.dedent(JOBS))
    (folder / "sweep.toml").write_text(SWEEP)
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return prepare(tmp_path)


def options(**rest):
    return LearnOptions(**{"targets": ["train_s"], "budget": "10m", **rest})


def calls(folder):
    path = folder / "calls.txt"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """What comes of it when nobody interferes, and where."""
    folder = prepare(tmp_path_factory.mktemp("learn"))
    seen = []
    learned = learn_plan(
        folder / "sweep.toml", REQUEST, folder / "learned", options(progress=seen.append)
    )
    assert seen == learned.rounds
    return learned, folder


def test_it_starts_from_nothing_and_ends_with_the_best_plan(straight):
    learned, folder = straight
    # 4000/100/8 + 3.2 is 8.2; four workers take 11.6.
    assert learned.plan.chosen.configuration == {"images": 4000, "workers": 8}
    assert learned.reason == "sure"
    assert len(set(calls(folder))) == len(calls(folder)) < N_ALL
    table = pd.read_csv(learned.table)
    assert learned.rounds[-1].n_runs == len(table) == len(calls(folder))
    assert learned.rounds[-1].spent == pytest.approx(table["train_s"].sum())
    assert (folder / "learned" / "train_s.foretell").exists()


def test_the_same_call_again_measures_nothing_and_says_the_same(straight):
    learned, folder = straight
    before = calls(folder)
    again = learn_plan(folder / "sweep.toml", REQUEST, folder / "learned", options())
    assert calls(folder) == before
    assert again.plan.to_json() == learned.plan.to_json()


def test_killed_in_the_middle_it_goes_on_and_measures_nothing_twice(folder, foretell, straight):
    journal = folder / "learned" / "runs.journal"
    for n_runs in (2, 5):
        run = foretell(*WORDS, "-o", "learned")
        if run.reaches(lambda n=n_runs: journal.exists() and len(_runs(journal)) >= n):
            run.kill()
    kept = _runs(journal)
    assert len(kept) >= 5
    last = foretell(*WORDS, "-o", "learned", "--quiet", "--json")
    assert last.wait() == 0, last.text
    found = json.loads(last.text)
    assert _runs(journal)[: len(kept)] == kept
    made = [tuple(r["configuration"].values()) for r in _runs(journal)]
    assert len(set(made)) == len(made) == found["n_runs"]
    assert len(calls(folder)) <= len(made) + 2  # two may have been cut off in their midst
    assert found["plan"]["chosen"] == straight[0].plan.to_json()["chosen"]


def _runs(journal):
    return [r for r in decode(journal.read_bytes())[0] if r["kind"] == "run"]


def test_a_run_that_fails_loses_nothing_and_is_neither_planned_nor_made_again(folder):
    (folder / "sweep.toml").write_text(SWEEP.replace("jobs:train", "jobs:crowded"))
    learned = learn_plan("sweep.toml", REQUEST, "learned", options())
    table = pd.read_csv(learned.table)
    failed = table[table["status"] == "failed"]
    assert len(failed) >= 1
    assert (failed["workers"] == 8).all()
    assert not failed.duplicated(["images", "workers"]).any()
    if (failed["images"] == 4000).any():
        assert learned.plan.chosen.configuration["workers"] == 4


def test_a_small_budget_ends_it_and_a_larger_one_goes_on(folder):
    small = learn_plan("sweep.toml", REQUEST, "learned", options(budget="50s", least_chance=1e-9))
    first = calls(folder)
    assert small.reason == "spent"
    large = learn_plan("sweep.toml", REQUEST, "learned", options(least_chance=0.5))
    assert calls(folder)[: len(first)] == first
    assert large.rounds[0].n_runs == len(first)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"vary": {"workers": [1, 2]}}, "several values of 'images'"),
        ({**REQUEST, "fix": {"images": 1000, "epochs": 3}}, "'epochs' is no parameter"),
        ({**REQUEST, "deadline": "1x"}, "--deadline"),
    ],
)
def test_questions_that_cannot_be_answered_are_refused_before_anything_is_measured(
    folder, request_, words
):
    with pytest.raises(UsageError, match=words):
        learn_plan("sweep.toml", request_, "learned", options())
    assert not calls(folder)


def test_a_directory_of_other_results_is_left_alone(folder):
    (folder / "learned").mkdir()
    (folder / "learned" / "runs.csv").write_text("mine\n1\n")
    with pytest.raises(StorageError, match="exists already"):
        learn_plan("sweep.toml", REQUEST, "learned", options())
    assert (folder / "learned" / "runs.csv").read_text() == "mine\n1\n"


def test_an_unknown_target_is_said_with_the_columns_there_are(folder):
    with pytest.raises(DatasetError, match=r"no column 'tran_s'\. Did you mean 'train_s'"):
        learn_plan("sweep.toml", REQUEST, "learned", options(targets=["tran_s"]))
