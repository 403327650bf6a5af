"""Replanning: a dispatcher whose jobs come or run otherwise than its file says chooses again."""

import numpy as np
import pytest

from foretell.adapters.dispatcher import replanning
from foretell.adapters.dispatcher.events import Event
from foretell.adapters.dispatcher.jobs import Job
from foretell.adapters.dispatcher.replanning import Replanner, Treatment
from foretell.decide.queueing.queue_file import read_queue
from foretell.errors import UsageError
from foretell.queue.choose import choose_drops

from .conftest import await_that

#: Three waves of 40 s, or two if a fifth is dropped.
LOW = {"name": "low", "rate_per_min": 0.2, "tasks": 5, "map_s": 40.0, "map_scv": 0.0,
       "error": {0.2: 0.1}, "max_error": 0.15}  # fmt: skip
RATE_PER_S = LOW["rate_per_min"] / 60


def queue_of(*, replan=True, **more):
    run = {"replan": True} if replan else {}
    return read_queue({"slots": 2, "class": [{**LOW, **more}], "run": run})


def job(*, arrived_at=0.0, took_s=120.0, drop=0.0):
    found = Job("id", "low", 0, ["true"], arrived_at=arrived_at)
    found.busy_s, found.drop = took_s, drop
    return found


@pytest.fixture
def start():
    opened = []

    def begin(queue, **options):
        told = []
        opened.append(Replanner(queue, tell=told.append, **options))
        return opened[-1], told

    yield begin
    for replanner in opened:
        replanner.close()


def arrive(replanner, factor, n=150):
    gaps = np.random.default_rng(4).exponential(1 / (factor * RATE_PER_S), n)
    for at_s in np.cumsum(gaps):
        replanner.observe(Event("accepted", job(arrived_at=float(at_s))))


def test_jobs_that_come_more_often_than_the_file_says_are_dropped_from(start):
    replanner, told = start(queue_of(p95_s=400), every_s=0.0)
    assert replanner.treatments == [Treatment(0.0, None)]
    arrive(replanner, 2.0)
    await_that(lambda: replanner.treatments[0].drop == 0.2, told)
    assert "times as often as the class file says" in told[0]
    assert any("Drop 20 % of 'low'" in text for text in told)


def test_jobs_that_take_longer_are_dropped_from_and_what_was_dropped_is_expected(start):
    replanner, told = start(queue_of(p95_s=700), every_s=0.0)
    for _ in range(40):
        replanner.observe(Event("done", job(took_s=80.0, drop=0.2)))  # two waves
    for _ in range(40):
        replanner.observe(Event("done", job(took_s=200.0)))
    await_that(lambda: replanner.treatments[0].drop == 0.2, told)
    assert told[0].startswith("low: jobs take 1.6")


def test_without_a_plan_that_keeps_the_limits_the_old_one_stays(start):
    queue = queue_of(p95_s=300)
    assert choose_drops(queue).chosen is not None
    replanner, told = start(queue, every_s=0.0)
    arrive(replanner, 3.0)
    await_that(lambda: any(text.startswith("the plan stays") for text in told), told)
    assert replanner.treatments == [Treatment(0.0, None)]


def test_a_queue_that_would_grow_without_end_is_told_and_the_plan_stays(start):
    replanner, told = start(queue_of(p95_s=400), every_s=0.0)
    arrive(replanner, 9.0)
    await_that(lambda: len(told) > 1, told)
    assert replanner.treatments == [Treatment(0.0, None)]


def test_a_plan_stays_for_ten_minutes(start):
    clock = [0.0]
    replanner, told = start(queue_of(p95_s=400), clock=lambda: clock[0])
    arrive(replanner, 2.0)
    await_that(lambda: told, "a change")
    assert not any("planned" in text for text in told)
    clock[0] = 600.0
    replanner.observe(Event("accepted", job(arrived_at=1e6)))  # which has it look at the clock
    await_that(lambda: replanner.treatments[0].drop == 0.2, told)


def test_nothing_is_followed_unless_the_file_asks_for_it(start):
    replanner, told = start(queue_of(replan=False, p95_s=400), every_s=0.0)
    arrive(replanner, 5.0)
    assert not replanner._thread.is_alive()
    assert replanner._inbox.empty()
    assert told == []


def test_plans_are_for_jobs_that_are_finished_first():
    with pytest.raises(UsageError, match="non-preemptive"):
        read_queue({"discipline": "repeat", "slots": 2, "class": [LOW], "run": {"replan": True}})


def test_a_dispatcher_drops_what_was_planned_again(queue, monkeypatch):
    monkeypatch.setattr(replanning, "EVERY_S", 0.0)
    dispatcher = queue.open(**{"slots": 2, "run": {"replan": True}, "class": [LOW]})
    for i in range(15):  # of a moment, where the file expects minutes
        queue.submit(f"job {i}", "echo $FORETELL_DROP >> drops")
    monkeypatch.setattr(dispatcher._replanner, "_arrived", lambda *_: None)  # they come at once
    dispatcher.run(until_empty=True)
    await_that(lambda: dispatcher._replanner.treatments[0].drop == 0.2, "another plan")
    queue.submit("last", "echo $FORETELL_DROP >> drops")
    dispatcher.run(until_empty=True)
    drops = (queue.folder / "drops").read_text().split()
    assert (drops[0], drops[-1]) == ("0.0", "0.2")
    notes = [event.text for event in queue.events if event.kind == "note"]
    assert any(text.startswith("planned again: Drop 20 %") for text in notes)
