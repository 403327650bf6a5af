"""Searches that are resumed: warm ones begin with the store of their cold one, on this machine."""

import argparse
import json

import pytest
from benchmarks.tune import Setup, missing, prepared_store, store_of
from benchmarks.tune_table import pairs_of

from foretell.tune import open_store
from foretell.tune.store import EpochRow
from foretell.tune.store.store import machine_id

OPTIONS = argparse.Namespace(
    seeds=[0], workloads=["LeNet"], schedulers=["asha"], ways=["v1", "ours cold", "ours warm"],
    trials=9, max_epochs=3, busy=0,
)  # fmt: skip
KEY = ("LeNet", "asha")


def run(way, machine, max_epochs=3):
    return {
        "workload": "LeNet", "scheduler": "asha", "way": way, "seed": 0, "machine": machine,
        "cores_of_others": 0.0, "n_trials": 9, "max_epochs": max_epochs, "n_busy": 0,
    }  # fmt: skip


def ways_missing(tmp_path, *runs):
    path = tmp_path / "tune.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in runs))
    return [way for _, _, way, _ in missing(OPTIONS, path, tmp_path)]


def test_searches_of_several_machines_are_no_pairs():
    done = [run(way, "elsewhere") for way in OPTIONS.ways]
    assert len(pairs_of([*done, run("v1", "here")])) == 2


def test_what_is_missing_is_told_by_machine_and_by_store(tmp_path):
    here = machine_id()
    assert ways_missing(tmp_path, run("v1", "elsewhere")) == OPTIONS.ways
    assert ways_missing(tmp_path, *(run(way, here) for way in OPTIONS.ways)) == []
    assert ways_missing(tmp_path, *(run(w, here, 27) for w in OPTIONS.ways)) == OPTIONS.ways
    old = {"workload": "LeNet", "scheduler": "asha", "way": "v1", "seed": 0, "cores_of_others": 0.0}
    assert ways_missing(tmp_path, old, {**old, "machine": here}) == OPTIONS.ways
    # A warm search needs the store of its cold one, and that is not here.
    known = [run("v1", here), run("ours cold", here)]
    assert ways_missing(tmp_path, *known) == ["ours cold", "ours warm"]
    store_of(tmp_path, *KEY, "ours cold", 0).touch()
    assert ways_missing(tmp_path, *known) == ["ours warm"]


def test_searches_of_several_setups_have_stores_of_their_own():
    setups = [Setup(27, 27), Setup(9, 27), Setup(27, 9), Setup(27, 27, 1)]
    assert len({setup.folder for setup in setups}) == 4


def test_a_warm_search_begins_with_what_the_cold_one_left_and_nothing_else(tmp_path):
    with pytest.raises(FileNotFoundError, match="cold"):
        prepared_store(tmp_path, *KEY, "ours warm", 0)
    for trial, way, n in (("a", "ours cold", 1), ("b", "ours warm", 2), ("c", "ours warm", 2)):
        with open_store(prepared_store(tmp_path, *KEY, way, 0)) as store:
            store.add_epochs([EpochRow("LeNet", trial, 0, "steady", {}, {"threads": 1}, 1.0)])
            assert {row.trial for row in store.rows()} == {"a", trial}
            assert store.n_rows("LeNet") == n
