"""Learning: from no run at all to a plan, stopped and continued, within its budget."""

from __future__ import annotations

import json
import textwrap

import pandas as pd
import pytest

import foretell
from foretell.errors import DatasetError, NothingUsableError, StorageError, UsageError
from foretell.files.journal import decode
from foretell.learn.loop import learn_plan
from foretell.learn.result import LearnOptions

#: Jobs whose times are made up: work divides among workers, who have to meet. Of the second one,
#: eight workers are too many.
JOBS = """
    from pathlib import Path

    def train(images, workers):
        with (Path(__file__).parent / "calls.txt").open("a") as file:
            file.write(f"{images} {workers}\\n")
        time_s = images / 100 / workers + 0.4 * workers
        return {"train_s": time_s, "used_j": 10 * workers * time_s}

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
    assert foretell.load_model(folder / "learned").target == "train_s"  # as other verbs find it


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


@pytest.mark.slow
def test_on_a_cluster_it_comes_to_the_same_runs_and_plan(ray_cluster, folder, foretell, straight):
    run = foretell(*WORDS, "-o", "learned", "--quiet", "--json", "--on", ray_cluster.address)
    assert run.wait(170) == 0, run.text
    assert json.loads(run.text)["plan"] == straight[0].plan.to_json()
    here, there = pd.read_csv(straight[0].table), pd.read_csv(folder / "learned" / "runs.csv")
    assert there["node"].notna().all()  # which runs on this machine do not have
    assert "node" not in here
    assert (there[["images", "workers"]] == here[["images", "workers"]]).all(axis=None)


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
    small = learn_plan("sweep.toml", REQUEST, "learned", options(budget="30s", least_chance=1e-9))
    first = calls(folder)
    assert small.reason == "spent"
    large = learn_plan("sweep.toml", REQUEST, "learned", options(least_chance=0.5))
    assert calls(folder)[: len(first)] == first
    assert large.rounds[0].n_runs == len(first)


def test_first_runs_beyond_the_budget_are_not_made(folder):
    learned = learn_plan("sweep.toml", REQUEST, "learned", options(budget="50s"))
    assert calls(folder)[0] == "500 1"
    # The first took 5.4 s, so eight times as many images are taken for 43 s.
    assert "4000 1" not in calls(folder)
    assert learned.rounds[-1].spent <= 50
    # Of what may be planned, something was run before the budget was used up for smaller jobs.
    assert any(call.startswith("4000 ") for call in calls(folder))
    assert learned.plan.chosen.configuration["workers"] == 8


@pytest.mark.parametrize(
    ("budget", "n_runs", "words"),
    [
        # One run takes 5.4 s, and the second 3.8 s.
        ("3s", 1, "1 run took 5.4 s, 1 of them went well, and a model needs 3"),
        ("14s", 2, "2 runs took 9.23 s, 2 of them went well"),
        ("20s", 3, "3 runs took 12.5 s, all with images=500"),
    ],
)
def test_a_budget_that_ends_before_a_model_says_what_was_spent_and_what_to_do(
    folder, budget, n_runs, words
):
    with pytest.raises(NothingUsableError, match=f"budget='{budget[:-1]} s': .*{words}.*Raise"):
        learn_plan("sweep.toml", REQUEST, "learned", options(budget=budget))
    before = calls(folder)
    assert len(before) == n_runs
    with pytest.raises(NothingUsableError):
        learn_plan("sweep.toml", REQUEST, "learned", options(budget=budget))
    assert calls(folder) == before
    learn_plan("sweep.toml", REQUEST, "learned", options(budget="10m", least_chance=0.9))
    assert calls(folder)[:n_runs] == before
    assert len(set(calls(folder))) == len(calls(folder))


def test_levels_that_the_budget_never_reached_are_said(folder):
    """Of four machines, some are tried: nobody can say which is the best."""
    job = "def train(machine, n):\n    return {'train_s': 10.0 + n + 'abcd'.index(machine)}\n"
    (folder / "jobs.py").write_text(job)
    values = 'machine = ["a", "b", "c", "d"]\nn = [1, 2]'
    head = SWEEP[: SWEEP.index("images =")]
    (folder / "sweep.toml").write_text(head + values)
    request = {"vary": {"machine": ["a", "b", "c", "d"], "n": [1, 2]}}
    with pytest.raises(NothingUsableError, match=r"first runs were not made.*never measured at"):
        learn_plan("sweep.toml", request, "learned", options(budget="35s"))
    learned = learn_plan("sweep.toml", request, "learned", options(budget="10m"))
    assert learned.plan.chosen.configuration["n"] == 1


def test_killed_under_a_small_budget_it_comes_to_the_same_runs(folder, foretell, tmp_path_factory):
    other = prepare(tmp_path_factory.mktemp("straight"))
    learn_plan(other / "sweep.toml", REQUEST, other / "learned", options(budget="50s"))
    journal = folder / "learned" / "runs.journal"
    words = [*WORDS[:-1], "50s", "-o", "learned", "--quiet"]
    for n_runs in (1, 4):
        run = foretell(*words)
        if run.reaches(lambda n=n_runs: journal.exists() and len(_runs(journal)) >= n):
            run.kill()
    assert foretell(*words).wait() == 0
    straight = _runs(other / "learned" / "runs.journal")
    assert _configurations(_runs(journal)) == _configurations(straight)


def _configurations(runs):
    return [run["configuration"] for run in runs]


def test_energy_bounds_the_runs_where_a_model_tells_it(folder):
    asked = options(targets=["train_s", "used_j"], budget="600J", least_chance=1e-9)
    learned = learn_plan("sweep.toml", REQUEST, "learned", asked)
    used_j = pd.read_csv(folder / "learned" / "runs.csv")["used_j"]
    assert learned.rounds[-1].kind == "energy"
    assert learned.rounds[-1].spent == pytest.approx(used_j.sum())
    assert learned.reason == "spent"
    assert used_j.iloc[:-1].sum() < 600  # a run that was started is finished
    assert set(learned.models) == {"train_s", "used_j"}


def test_money_bounds_the_first_runs_too(folder):
    # One image-run of 5.4 s on one worker costs 5.4; on eight, it is eight times as dear.
    request = {**REQUEST, "prices": {"price_per_hour": 3600, "nodes": "workers"}}
    with pytest.raises(NothingUsableError, match=r"budget='20.0 \$': .*runs took"):
        learn_plan("sweep.toml", request, "learned", options(budget="20"))
    table = pd.read_csv(folder / "learned" / "runs.csv")
    assert (table["train_s"] * table["workers"]).sum() <= 20


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"budget": "1x"}, "must be a time, an energy or money"),
        ({"budget": "20"}, "money, which needs prices"),
        ({"budget": "5kJ"}, "no model predicts the energy"),
        ({"budget": "0s"}, "budget='0s'"),
        ({"n_runs": 0}, "at least 1"),
        ({"least_chance": 5}, "between 0 and 1"),
        ({"targets": ["speed"]}, "'speed' does not say its unit"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_anything_is_measured(folder, given, words):
    with pytest.raises(UsageError, match=words):
        learn_plan("sweep.toml", REQUEST, "learned", options(**given))
    assert not calls(folder)
    assert not (folder / "learned").exists()


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"vary": {"workers": [1, 2]}}, "several values of 'images'"),
        ({**REQUEST, "fix": {"images": 1000, "epochs": 3}}, "'epochs' is not a parameter"),
        ({**REQUEST, "deadline": "1x"}, "deadline: "),
        ({**REQUEST, "minimize": "energy"}, "minimize='energy'"),
        ({**REQUEST, "prices": {"price_per_hour": "gpus"}}, "the prices use 'gpus'"),
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
