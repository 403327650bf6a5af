"""Class files: what they mean, and that mistakes in them are named with place and remedy."""

import math

import numpy as np
import pytest

from foretell.decide.queueing.queue_file import read_queue
from foretell.errors import UsageError

SPEC = """
slots = 20
[[class]]
name = "low"
rate_per_min = 0.33
tasks = { 50 = 0.8, 30 = 0.2 }
map_s = 35.0
overhead_s = { fixed = 6, per_kept = 2 }
shuffle_s = 2.0
reduce_tasks = 20
reduce_s = 1.0
drop = 0.2
max_error = 0.15
p95_s = 600
error = { 0.1 = 0.085, 0.2 = 0.15, "0.4" = 0.32 }
[[class]]
name = "high"
rate_per_h = 36
service = { mean_s = 60, scv = 0 }
sprint_after_s = 65
weight = 9
[sprint]
mechanism = "command"
speedup = 2.5
base_w = 180
sprint_w = 270
budget_j = 22000
refill_w = 9
[sprint.settings]
start = "boost on"
[run]
engine = "spark"
"""


def test_a_file_gives_classes_lowest_first_with_rates_limits_and_sprints(tmp_path):
    path = tmp_path / "classes.toml"
    path.write_text(SPEC)
    queue = read_queue(path)
    low, high = queue.classes
    assert (queue.slots, queue.discipline, queue.folder) == (20, "non-preemptive", tmp_path)
    assert low.rate_per_s == pytest.approx(0.33 / 60)
    assert high.rate_per_s == pytest.approx(0.01)
    assert low.tasks == {50: 0.8, 30: 0.2}
    assert low.overhead.at(0.5) == 7
    assert high.overhead.at(0.5) == 0
    assert low.error == {0.1: 0.085, 0.2: 0.15, 0.4: 0.32}
    assert (low.drop, low.sprint_after_s, high.sprint_after_s) == (0.2, None, 65)
    assert (low.kind, high.kind, high.weight) == ("tasks", "service", 9)
    assert queue.sprint.settings == {"start": "boost on"}
    assert (queue.run.engine, queue.run.retries) == ("spark", 2)


LOW = {"name": "low", "rate_per_s": 0.1, "service": {"mean_s": 2.0, "scv": 1.0}}
TASKS = {"name": "low", "rate_per_s": 0.1, "tasks": 5, "map_s": 1.0}


def queue_of(*classes, **top):
    return {"slots": 2, "class": list(classes), **top}


def changed(base, **changes):
    return queue_of({k: v for k, v in {**base, **changes}.items() if v is not None})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({}, ["class", "required"]),
        ({"class": []}, ["class", "must not be empty"]),
        (changed(LOW, name=None), ["class[0].name", "required"]),
        (changed(LOW, rate_per_s=-1), ["class[0].rate_per_s", "more than 0", "-1", "such as"]),
        (changed(LOW, rate_per_s=0), ["class[0].rate_per_s", "more than 0"]),
        (changed(LOW, rate_per_s=math.nan), ["class[0].rate_per_s", "nan"]),
        (changed(LOW, rate_per_s=math.inf), ["class[0].rate_per_s", "inf"]),
        (changed(LOW, rate_per_s=None), ["low has no rate", "rate_per_min"]),
        (changed(LOW, rate_per_h=3), ["class[0]", "rate_per_s and rate_per_h", "keep one"]),
        (changed(LOW, rate_per_sec=3), ["class[0]", "'rate_per_sec'", "'rate_per_s'"]),
        (changed(LOW, service=None), ["low does not say how long", "tasks"]),
        (changed(LOW, tasks=5), ["tasks and service", "one of"]),
        (changed(LOW, service={"mean_s": 0, "scv": 1}), ["service.mean_s", "more than 0", "0"]),
        (changed(LOW, service={"mean_s": 1, "scv": -1}), ["service.scv", "at least 0", "-1"]),
        (changed(LOW, service={"mean_s": 1}), ["service.scv", "required"]),
        (changed(LOW, map_s=3.0), ["map_s goes with tasks", "service"]),
        (changed(LOW, overhead_s=3.0), ["overhead_s goes with tasks", "service"]),
        (changed(LOW, column="t"), ["column goes with runs"]),
        (changed(LOW, drop=0.1), ["low drops 0.1", "tasks"]),
        (changed(TASKS, drop=0.96), ["class[0].drop", "from 0 to 0.95", "0.96", "20 %"]),
        (changed(TASKS, drop=-0.1), ["class[0].drop", "-0.1"]),
        (changed(TASKS, map_s=None), ["map_s is missing"]),
        (changed(TASKS, tasks=0), ["class[0].tasks", "whole number", "0"]),
        (changed(TASKS, tasks=2.5), ["class[0].tasks", "2.5"]),
        (changed(TASKS, tasks=True), ["class[0].tasks", "True"]),
        (changed(TASKS, tasks={"5": 0.5, "4": 0.4}), ["class[0].tasks", "sum to 1", "0.9"]),
        (changed(TASKS, tasks={"5": 1.5, "4": -0.5}), ["class[0].tasks", "from 0 to 1", "1.5"]),
        (changed(TASKS, tasks={"five": 1}), ["class[0].tasks", "'five'"]),
        (changed(TASKS, reduce_tasks=3), ["reduce_tasks", "reduce_s is missing"]),
        (changed(TASKS, stages=0), ["class[0].stages", "at least 1"]),
        (changed(TASKS, stages=[{"tasks": 3, "task_s": 1}]), ["tasks and stages"]),
        (
            changed(LOW, service=None, stages=[{"tasks": 3, "task_s": -1}]),
            ["class[0].stages[0].task_s", "more than 0", "-1"],
        ),
        (changed(TASKS, overhead_s=-2), ["class[0].overhead_s", "at least 0", "-2"]),
        (changed(TASKS, overhead_s={"fixd": 2}), ["overhead_s", "'fixd'"]),
        (changed(TASKS, sprint_after_s=-1), ["class[0].sprint_after_s", "at least 0", "never"]),
        (changed(TASKS, sprint_after_s=5), ["low sprints after 5 s", "speedup"]),
        (
            changed(TASKS, error={"0.1": 0.2, "0.2": 0.1}),
            ["class[0].error", "0.2 at 0.1", "larger"],
        ),
        (changed(TASKS, error={"1.2": 0.2}), ["class[0].error", "1.2"]),
        (changed(TASKS, error={"0.1": -0.2}), ["class[0].error", "-0.2"]),
        (changed(TASKS, weight=-1), ["class[0].weight", "-1"]),
        (changed(LOW, service=None, runs="r.csv", only="a >"), ["class[0].only", "a >"]),
        (queue_of(LOW, LOW), ["2 classes are called 'low'"]),
        (queue_of(LOW, slots=0), ["slots", "from 1 to 10000", "0", "20"]),
        (queue_of(LOW, slots=20_000), ["slots", "from 1 to 10000", "20000"]),
        ({"class": [TASKS]}, ["slots is missing"]),
        (queue_of(LOW, discipline="preemtive"), ["discipline", "'preemtive'"]),
        (queue_of(LOW, slot=3), ["'slot'", "'slots'"]),
        (queue_of(LOW, sprint={"speedup": 0.5}), ["sprint.speedup", "at least 1", "0.5"]),
        (queue_of(LOW, sprint={"base_w": -1}), ["sprint.base_w", "at least 0", "-1"]),
        (
            queue_of(LOW, sprint={"base_w": 9, "sprint_w": 5}),
            ["sprint", "sprint_w is 5", "exchange"],
        ),
        (queue_of(LOW, sprint={"budget_j": 9}), ["sprint", "refill_w is missing"]),
        (queue_of(LOW, sprint={"budget_j": 9, "refill_w": 1}), ["sprint", "base_w or sprint_w"]),
        (queue_of(LOW, run={"retries": -1}), ["run.retries", "at least 0"]),
        (queue_of(LOW, arrivals={"kind": "burst"}), ["arrivals.kind", "'mmap'", "'burst'"]),
        (queue_of(LOW, arrivals={"D0": [[-1]]}), ["arrivals", "mmap"]),
        (queue_of(LOW, arrivals={"kind": "mmap"}), ["arrivals", "D0"]),
        (
            queue_of(LOW, arrivals={"kind": "mmap", "D0": [[-1]], "D1": [[1]], "E": [[1]]}),
            ["arrivals.E", "'E'"],
        ),
        (
            queue_of(LOW, arrivals={"kind": "mmap", "D0": [[-1]], "D1": [[1]]}),
            ["low has rate_per_s", "[arrivals]"],
        ),
        (
            changed(LOW, rate_per_s=None)
            | {"arrivals": {"kind": "mmap", "D0": [[-2]], "D1": [[1]]}},
            ["arrivals", "sum to 0", "row 1 sums to -1"],
        ),
        (
            changed(LOW, rate_per_s=None)
            | {"arrivals": {"kind": "mmap", "D0": [[-1, 2], [1, -3]], "D1": [[1, -2], [1, 1]]}},
            ["arrivals.D1", "-2"],
        ),
        (
            changed(LOW, rate_per_s=None)
            | {"arrivals": {"kind": "mmap", "D0": [[-1]], "D1": [[0.5]], "D2": [[0.5]]}},
            ["1 classes and 2 matrices"],
        ),
        (
            changed(LOW, rate_per_s=None)
            | {"arrivals": {"kind": "mmap", "D0": [[-1, 0], [0, -1]], "D1": [[1]]}},
            ["arrivals.D1", "2 rows"],
        ),
        (
            changed(LOW, rate_per_s=None)
            | {"arrivals": {"kind": "mmap", "D0": [[-2, 1], [0, 0]], "D1": [[1, 0], [0, 0]]}},
            ["arrivals.D0", "never left", "row 2", "rate out of"],
        ),
        (
            changed(LOW, rate_per_s=None)
            | {"arrivals": {"kind": "mmap", "D0": [[-1, 0], [0, -4]], "D1": [[1, 0], [0, 4]]}},
            ["arrivals.D0", "states 1 and 2", "rates between"],
        ),
        (
            changed(LOW, rate_per_s=None)
            | {"arrivals": {"kind": "mmap", "D0": [[-2, 1], [0, -1]], "D1": [[1, 0], [0, 1]]}},
            ["arrivals.D0", "in both directions"],
        ),
    ],
)
def test_mistakes_are_named_with_place_rule_value_and_remedy(source, expected):
    with pytest.raises(UsageError) as error:
        read_queue(source)
    for part in expected:
        assert part in str(error.value)


def test_rates_of_markov_arrivals_are_those_of_the_stationary_process():
    off, on = 0.2, 0.5  # per second out of and into the state in which jobs arrive
    arrivals = {
        "kind": "mmap",
        "D0": [[-(off + 3.0), off], [on, -on]],
        "D1": [[1.0, 0], [0, 0]],
        "D2": [[2.0, 0], [0, 0]],
    }
    low = {k: v for k, v in LOW.items() if k != "rate_per_s"}
    queue = read_queue({"class": [low, {**low, "name": "high"}], "arrivals": arrivals})
    share = on / (on + off)
    rates = [c.rate_per_s for c in queue.classes]
    assert np.allclose(rates, [share * 1.0, share * 2.0])


def test_what_was_read_is_read_again_as_it_is():
    queue = read_queue(queue_of(LOW))
    assert read_queue(queue) is queue


def test_an_unknown_class_is_named_with_the_nearest():
    with pytest.raises(UsageError, match=r"'lo'.*'low'"):
        read_queue(queue_of(LOW)).named("lo")
