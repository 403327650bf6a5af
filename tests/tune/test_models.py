"""Models of epoch times from a store of epochs: fitted to a job, or refused with a remedy."""

import contextlib
import sqlite3
from dataclasses import replace

import pandas as pd
import pytest

from foretell.errors import StorageError, UsageError
from foretell.tune import Rules, Search, TimeLeft, open_store, predict_search
from foretell.tune.gaps import without_gaps
from foretell.tune.models import epoch_times_of, store_in
from foretell.tune.optuna import Callback
from foretell.tune.store import EpochRow

SPACE = {"hyperparameters": {"batch_size": [16, 32, 64]}, "system": {"threads": [2, 1]}}


def rows(job, n):
    """Epochs of 64 s by the batch size and the threads; the first of each trial is longer."""
    found = []
    for i in range(n):
        batch, threads = (16, 32, 64)[i % 3], 1 + i % 2
        seconds = 64 / batch / threads * (1 + 0.01 * (i % 5))
        for epoch in range(3):
            phase = "warm-up" if epoch == 0 else "steady"
            took = seconds * (5 if epoch == 0 else 1)
            found.append(
                EpochRow(
                    job, f"t{i}", epoch, phase, {"batch_size": batch}, {"threads": threads}, took
                )
            )
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "tune.sqlite"
    with open_store(path) as store:
        store.add_epochs([*rows("lenet", 12), *rows("few", 2)])
    return path


def test_a_store_predicts_the_epochs_of_its_job(store):
    for path in (store, store.parent):  # or the folder that it is in
        found = predict_search(
            SPACE, model=path, job="lenet", trials=90, max_epochs=4, cores=4, scheduler="random",
            n_draws=40,
        )  # fmt: skip
        mean_s = (64 / 16 + 64 / 32 + 64 / 64) / 3 / 2 * 1.02
        assert found.time.median_s == pytest.approx(90 * 4 * mean_s / 2, rel=0.15)
        assert {c.text for c in found.changes} >= {"1 thread per trial"}


@pytest.mark.parametrize(("load", "told"), [(0.74, "others used 0.7 cores"), (0.0, "20 %")])
def test_a_store_whose_epochs_were_all_left_out_says_why(tmp_path, load, told):
    with open_store(tmp_path / "tune.sqlite") as store:
        store.add_epochs(
            [replace(row, phase="left out", load_others=load) for row in rows("lenet", 12)]
        )
    for job in ("lenet", None):
        with pytest.raises(UsageError, match="all 36 epochs") as caught:
            epoch_times_of(tmp_path, job)
        assert told in str(caught.value)


def test_epochs_of_other_machines_count_only_if_that_is_asked_for(tmp_path):
    with open_store(tmp_path / "tune.sqlite") as store:
        store.add_epochs([replace(row, machine="elsewhere") for row in rows("lenet", 12)])
    with pytest.raises(UsageError) as caught:
        epoch_times_of(tmp_path)
    assert "36 epochs, all of other machines" in str(caught.value)
    assert caught.value.remedy[1].name == "share"
    assert set(epoch_times_of(tmp_path, share=True).columns) == {"batch_size", "threads"}


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (None, "several jobs: few, lenet; name one"),
        ("lent", "Did you mean 'lenet'?"),
        ("few", "6 usable epochs"),
    ],
)
def test_a_store_that_does_not_know_the_job_is_refused(store, job, told):
    with pytest.raises(UsageError) as caught:
        epoch_times_of(store, job)
    assert told in str(caught.value)


def broken(path, kind):
    if kind == "of another version":
        open_store(path).close()
        with contextlib.closing(sqlite3.connect(path)) as data:
            data.execute("PRAGMA user_version = 7")
    elif kind == "damaged":
        path.write_bytes(b"SQLite format 3\0" + b"damaged" * 1000)
    else:
        with contextlib.closing(sqlite3.connect(path)) as data:
            data.execute("CREATE TABLE studies (name TEXT)")


@pytest.mark.parametrize(
    ("kind", "cause"),
    [("of another version", "its version is 7"), ("damaged", "not a database|malformed"),
     ("of another program", "its version is 0")],
)  # fmt: skip
def test_a_store_that_cannot_be_used_is_refused_with_the_cause(tmp_path, kind, cause):
    path = tmp_path / "tune.sqlite"
    broken(path, kind)
    with pytest.raises(StorageError, match=cause):
        epoch_times_of(path)
    if kind == "of another version":
        with pytest.raises(StorageError, match=cause):
            epoch_times_of(tmp_path)
    else:  # there may be models in the folder
        assert store_in(tmp_path) is None


def test_a_database_of_another_program_does_not_hide_the_store_beside_it(tmp_path):
    broken(tmp_path / "optuna.sqlite", "of another program")
    open_store(tmp_path / "tune.sqlite").close()
    assert store_in(tmp_path) == tmp_path / "tune.sqlite"


def test_a_new_hyperparameter_costs_no_older_epochs_and_is_told(tmp_path):
    old = rows("lenet", 12)
    new = [replace(r, trial=f"new {r.trial}", hyper={**r.hyper, "dropout": i / 10})
           for i, r in enumerate(rows("lenet", 2))]  # fmt: skip
    with open_store(tmp_path / "tune.sqlite") as store:
        store.add_epochs([*old, *new])
    times = epoch_times_of(tmp_path)
    assert set(times.columns) == {"batch_size", "threads"}
    note = "The model leaves out dropout, which 24 of 28 epochs lack."
    asked = {"trials": 9, "max_epochs": 2, "cores": 4, "scheduler": "random", "n_draws": 20}
    assert note in predict_search(SPACE, model=times, **asked).notes


def test_threads_that_are_a_hyperparameter_too_are_those_that_held(tmp_path):
    drawn = [replace(r, hyper={**r.hyper, "threads": 9}) for r in rows("lenet", 12)]
    with open_store(tmp_path / "tune.sqlite") as store:
        store.add_epochs(drawn)
    times = epoch_times_of(tmp_path)
    assert set(times.columns) == {"batch_size", "threads"}
    one, two = times.mean_s(pd.DataFrame({"batch_size": [32, 32], "threads": [1, 2]}))
    assert one / two == pytest.approx(2, rel=0.1)


def test_rows_that_lack_what_most_have_are_left_out_and_told():
    table = pd.DataFrame({"batch": [16, 32, None, 64], "epoch_s": [4.0, 2.0, 9.0, 1.0]})
    found, notes = without_gaps(table, "epoch_s")
    assert list(found["epoch_s"]) == [4.0, 2.0, 1.0]
    assert notes == ["The model leaves out 1 of 4 epochs, which lack batch."]


def test_hyperparameters_of_which_each_epoch_has_one_do_not_cost_all_epochs():
    table = pd.DataFrame(
        {
            "batch": [16, 32] * 4,
            "momentum": [0.8, 0.9, 0.9, 0.8] + [None] * 4,
            "beta": [None] * 4 + [0.9, 0.99, 0.99, 0.9],
            "epoch_s": [4.0, 2.0] * 4,
        }
    )
    found, notes = without_gaps(table, "epoch_s")
    assert list(found.columns) == ["batch", "beta", "epoch_s"]
    assert len(found) == 4
    assert notes == [
        "The model leaves out momentum, which 4 of 8 epochs lack.",
        "The model leaves out 4 of 8 epochs, which lack beta.",
    ]


def test_a_job_of_a_store_can_be_named_for_the_time_left(store):
    given = {"space": SPACE, "model": store}
    for make in (lambda **more: TimeLeft(Search("random", 4, Rules(2)), **given, **more),
                 lambda **more: Callback(4, 2, **given, **more)):  # fmt: skip
        with pytest.raises(UsageError, match="several jobs"):
            make()
        make(job="lenet", share=True)


def test_a_callback_may_name_the_job_of_its_own_store_beside_a_model(store):
    times = epoch_times_of(store, "lenet")
    assert epoch_times_of(times, "ray") is times
