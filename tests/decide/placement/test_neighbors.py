"""Neighbors: slowdowns of tasks with profiles by what runs on a node, for all who choose nodes."""

import numpy as np
import pytest

from foretell.decide.corun.jobs import CPU, JobNeeds, Phase
from foretell.decide.placement.choose import Chooser, read_policy
from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.estimates import Estimates, type_models
from foretell.decide.placement.moves import Mover, Running
from foretell.decide.placement.neighbors import Neighbors
from foretell.decide.placement.reserving import first_room
from foretell.decide.placement.tasks import read_task
from foretell.decide.placement.waiting import Waiting
from foretell.errors import UsageError

CLUSTER = {
    "migration": {"min_age_s": 10, "min_remaining_s": 10, "start_s": 5},
    "profiles": {"one": "one.profile", "two": "two.profile"},
    "node_type": [
        {"name": "n", "count": 2, "capacity": {"cpu": 2}, "time_s": 100, "energy_j": 50},
    ],
}


def needs(name, cores):
    return JobNeeds(name, (Phase(10.0, {CPU: cores}, threads=cores),))


NEEDS = {"one": needs("one", 1.0), "two": needs("two", 2.0)}


def chooser(policy="geometric:H=0", **more):
    cluster = read_cluster({**CLUSTER, **more})
    found = Chooser(cluster, Estimates(type_models(cluster, {})), read_policy(policy))
    found.neighbors = Neighbors.of(cluster, found.fleet, NEEDS)
    return found


def both(found, text):
    return found.neighbors.slowdowns(read_task(text), np.array([0, 1]))


def test_a_task_is_slowed_by_what_runs_on_a_node_until_that_has_left():
    found = chooser()
    assert both(found, "profile=two").tolist() == [1.0, 1.0]
    found.neighbors.add(0, 7, read_task("profile=two"))
    # Two threads beside two on two cores: half of the time. Beside one thread of three: 4/3 cores.
    assert both(found, "profile=two") == pytest.approx([2.0, 1.0])
    assert both(found, "profile=one") == pytest.approx([1.5, 1.0])
    found.neighbors.remove(0, 7)
    assert both(found, "profile=two").tolist() == [1.0, 1.0]


def test_the_cores_are_those_of_the_node_not_of_its_type_in_the_file():
    found = chooser()
    found.fleet.capacity[found.fleet.row["cpus"], 0] = 3_800_000  # what a live node has
    for node in (0, 1):
        found.neighbors.add(node, node, read_task("profile=two"))
    assert both(found, "profile=two") == pytest.approx([1.0, 2.0])


def test_tasks_without_a_known_profile_neither_slow_nor_are_slowed():
    found = chooser()
    found.neighbors.add(0, 1, read_task("profile=other"))
    found.neighbors.add(0, 2, read_task("cpu=2"))
    assert both(found, "profile=two").tolist() == [1.0, 1.0]
    assert both(found, "cpu=1") is None
    found.neighbors.remove(0, 1)


def test_what_the_cluster_file_says_is_running_slows_a_task():
    found = chooser(node=[{"name": "n-2", "running": ["two", "one"]}])
    # Two threads of five on two cores are 4/5 of a core, of two that it needs.
    assert both(found, "profile=two") == pytest.approx([1.0, 2.5])
    assert found.neighbors.speeds(1) == {}  # it is none of our tasks


def test_a_profile_that_runs_must_be_one_of_the_file():
    with pytest.raises(UsageError, match=r"\[profiles\] has no 'tow'.*two"):
        read_cluster({**CLUSTER, "node": [{"name": "n-1", "running": ["tow"]}]})


def test_tasks_that_arrive_together_are_not_put_where_they_slow_one_another():
    """Together their costs would be taken as independent; ties then put both on one node."""
    found = chooser("geometric:H=0.5")
    tasks = [(read_task("cpu=1,profile=two"), found.fleet.need(read_task("cpu=1").needs))] * 2
    assert found.assign(tasks) is None
    first = found.choose(*tasks[0])
    found.fleet.take(first, tasks[0][1])
    found.neighbors.add(first, 0, tasks[0][0])
    assert found.choose(*tasks[1]) != first


def test_a_running_task_is_as_slow_as_its_neighbors_make_it():
    found = chooser()
    task = read_task("cpu=1,profile=two,migratable=resume")
    need = found.fleet.need(task.needs)
    for number in (0, 1):
        found.fleet.take(0, need)
        found.neighbors.add(0, number, task)
    assert found.staying(task, need, 0) == (pytest.approx(200.0), 50.0)
    running = Running(task, need, 0, started_s=0.0)
    room = first_room(found, found.fleet.need(read_task("cpu=2").needs), [running] * 2,
                      np.array([True, False]), 10.0)  # fmt: skip
    assert room.end_s == pytest.approx(200.0)
    move = Mover(read_cluster(CLUSTER).migration, found).find(running, Waiting(), 50.0)
    # A quarter is done. What is left takes 150 s here and 75 s on the empty node.
    assert (move.to, move.share) == (1, pytest.approx(0.75))
