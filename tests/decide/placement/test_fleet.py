"""Nodes that have lost a device in use are closed only to tasks that ask for it."""

import pytest

from foretell.decide.placement.choose import Chooser, read_policy
from foretell.decide.placement.cluster import read_cluster
from foretell.decide.placement.estimates import Estimates, type_models
from foretell.decide.placement.moves import Running
from foretell.decide.placement.reserving import first_room
from foretell.decide.placement.tasks import read_task
from foretell.decide.placement.waiting import Waiter, Waiting

DEVICE = "example.com/device"
PLAIN, ASKING = "cpu=2", f"cpu=2,{DEVICE}=1"


@pytest.fixture
def chooser():
    """One node of 4 CPUs, on which a task has two devices, of which one has failed since."""
    kind = {"name": "n", "nodes": ["n"], "capacity": {"cpu": 4, DEVICE: 2}, "time_s": 10}
    cluster = read_cluster({"node_type": [kind]})
    found = Chooser(cluster, Estimates(type_models(cluster, {})), read_policy("geometric"))
    fleet = found.fleet
    fleet.take(0, fleet.need(read_task(f"cpu=1,{DEVICE}=2").needs))
    fleet.capacity[fleet.row[DEVICE], 0] //= 2
    return found


def need_of(chooser, text):
    return chooser.fleet.need(read_task(text).needs)


@pytest.mark.parametrize(("text", "fits"), [(PLAIN, True), (ASKING, False)])
def test_an_overused_resource_matters_only_to_tasks_that_ask_for_it(chooser, text, fits):
    fleet, task, need = chooser.fleet, read_task(text), need_of(chooser, text)
    waiter, waiting = Waiter(0, task, need), Waiting()
    waiting.add(waiter)
    assert list(fleet.fitting(need)) == [0] * fits
    assert (fleet.lacking(0, need) == "") is fits
    assert (waiting.next_for(fleet, 0) is waiter) is fits
    assert waiting.fit_without(fleet, fleet.capacity - fleet.used) is fits
    small = text.replace("cpu=2", "cpu=1")
    placed = chooser.assign([(read_task(small), need_of(chooser, small))] * 2)
    assert placed == ([0, 0] if fits else [None, None])


@pytest.mark.parametrize(("text", "node"), [("cpu=4", 0), (f"cpu=4,{DEVICE}=1", None)])
def test_room_is_expected_where_a_resource_that_is_not_asked_for_is_overused(chooser, text, node):
    fleet = chooser.fleet
    fleet.take(0, need_of(chooser, "cpu=1"))
    task = read_task("cpu=1")
    running = [Running(task, need_of(chooser, "cpu=1"), 0, 0.0) for _ in range(2)]
    found = first_room(chooser, need_of(chooser, text), running, fleet.ready, 0.0)
    assert (None if found is None else found.node) == node
