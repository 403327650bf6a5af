"""A study of Optuna that is killed goes on where it was, with the three lines in it."""

import subprocess
import sys

import optuna

from foretell.tune import open_store

STUDY = """
import pathlib, sys, time
import optuna
from foretell.tune import pipeline
from foretell.tune.hook import steadiness
steadiness.MOST_LOAD = steadiness._MOST_VARIATION = 1e9
folder = pathlib.Path(sys.argv[1])

def objective(trial):
    x = trial.suggest_float("x", 0, 1)
    for epoch in pipeline(trial, {"prefetch": [1, 2]}, store=folder / "store").epochs(range(4)):
        trial.report(x, epoch)
        if trial.number == 2 and epoch == 2 and not (folder / "free").exists():
            print("reached", flush=True)
            time.sleep(600)  # until the study is killed
    return x

storage = f"sqlite:///{folder}/study.db"
study = optuna.create_study(study_name="s", storage=storage, load_if_exists=True)
study.optimize(objective, n_trials=5)
"""


def test_a_killed_study_goes_on_and_its_store_is_whole(tmp_path):
    words = [sys.executable, "-c", STUDY, str(tmp_path)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout.readline() == "reached\n"
    process.kill()
    process.communicate()
    store = open_store(tmp_path / "store")
    assert store.path is not None
    assert len(store.rows("s")) == 11  # two whole trials, and three epochs of the third
    (tmp_path / "free").touch()
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    study = optuna.load_study(study_name="s", storage=f"sqlite:///{tmp_path}/study.db")
    done = [t for t in study.trials if t.state == optuna.trial.TrialState.COMPLETE]
    assert len(done) == 7
    assert len(store.rows("s")) == 11 + 5 * 4
