"""The journals of completed tasks: what is stored survives, and each task counts once."""

import math
import subprocess
import sys

import pytest

from foretell.cluster.maintenance.completed import CompletedTasks, Ending, completed_task
from foretell.cluster.models import open_estimates
from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.tasks import read_task
from foretell.errors import StorageError

CLUSTER = {
    "node_type": [
        {"name": "a", "count": 1, "capacity": {"cpu": 4}, "time_s": "work / cpu",
         "power": {"k0": 2, "k1": 1, "k2": 0.03}, "columns": {"governor": "powersave"}},
        {"name": "b", "count": 1, "capacity": {"cpu": 4}, "time_s": "2 * work / cpu"},
    ]
}  # fmt: skip
DAY_S = 86_400.0


def ended(uid, at_s=1e9, time_s=60.0, of_type=0, energy_j=None):
    cluster = read_cluster(CLUSTER)
    estimates, _ = open_estimates(cluster)
    types = [table.node_type for table in cluster.node_type]
    task = read_task("cpu=2,work=100,class=batch")
    ending = Ending(uid, at_s, f"{types[of_type].name}-1", time_s, energy_j)
    return completed_task(estimates, types[of_type], task, ending)


def test_a_task_is_stored_with_what_was_predicted_and_what_it_took(tmp_path):
    with CompletedTasks(tmp_path / "store") as store:
        store.append([ended("1", time_s=60.0)])
    (found,) = CompletedTasks(tmp_path / "store").read(0, 2e9)
    assert (found.type, found.node, found.class_name) == ("a", "a-1", "batch")
    assert (found.predicted_time_s, found.time_s) == (50.0, 60.0)
    assert found.time_error == pytest.approx(1 / 6)
    assert found.columns["work"] == 100
    assert found.columns["governor"] == "powersave"
    assert len(found.digest) == 64


def test_an_energy_that_was_not_measured_is_modelled_from_the_power_curve():
    found = ended("1", time_s=60.0)
    assert found.energy_j == pytest.approx(60 * (math.exp(0.03 * 50) - 1))
    assert found.energy_source == "modelled"
    assert math.isnan(found.energy_error)
    measured = ended("1", energy_j=500.0)
    assert (measured.energy_j, measured.energy_source) == (500.0, "measured")
    assert measured.energy_error == pytest.approx(abs(measured.predicted_energy_j / 500 - 1))
    unknown = ended("1", of_type=1)
    assert math.isnan(unknown.energy_j)


def test_tasks_of_a_window_come_in_order_and_each_once(tmp_path):
    with CompletedTasks(tmp_path) as store:
        for uid, day in (("c", 3), ("a", 1), ("d", 40), ("b", 2), ("a", 5)):
            store.append([ended(uid, at_s=1e9 + day * DAY_S)])
    found = CompletedTasks(tmp_path).read(1e9 + 1.5 * DAY_S, 1e9 + 10 * DAY_S)
    assert [t.uid for t in found] == ["b", "c", "a"]
    found = CompletedTasks(tmp_path).read(1e9, 1e9 + 10 * DAY_S)
    assert [t.uid for t in found] == ["a", "b", "c"]
    assert found[0].at_s == 1e9 + DAY_S


def test_processes_store_side_by_side(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from test_completed import ended, CompletedTasks\n"
        "store = CompletedTasks(__import__('pathlib').Path(sys.argv[1]))\n"
        "store.append([ended('other')])\n"
    )
    here = __file__.rpartition("/")[0]
    with CompletedTasks(tmp_path) as store:
        store.append([ended("own")])
        subprocess.run([sys.executable, "-c", code, str(tmp_path), here], check=True)
        store.append([ended("own too")])
    assert {t.uid for t in CompletedTasks(tmp_path).read(0, 2e9)} == {"own", "other", "own too"}


def test_a_line_cut_short_by_a_crash_loses_only_itself(tmp_path):
    with CompletedTasks(tmp_path) as store:
        store.append([ended("1"), ended("2")])
    (path,) = tmp_path.glob("*.journal")
    path.write_bytes(path.read_bytes()[:-10])
    assert [t.uid for t in CompletedTasks(tmp_path).read(0, 2e9)] == ["1"]
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(StorageError, match="is damaged at byte 0"):
        CompletedTasks(tmp_path).read(0, 2e9)


def test_nothing_stored_is_no_task(tmp_path):
    assert CompletedTasks(tmp_path / "missing").read(0, 2e9) == []
