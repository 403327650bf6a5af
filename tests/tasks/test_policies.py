"""Policies: which of the tasks that are ready a worker takes next."""

import random

import pytest

from foretell.tasks.running.policies import POLICIES

RANKS = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 3.0}


def ready(policy, n_workers=2, urgent=(), seed=0):
    """Return the ready tasks of a policy; of some the priority is above 0."""
    levels = dict(urgent)
    return POLICIES[policy](
        n_workers, lambda item: RANKS.get(item, 0.0), lambda item: levels.get(item, 0), seed=seed
    )


def all_of(found, worker=0):
    return [found.take(worker) for _ in range(len(found))]


def test_breadth_takes_the_oldest_whoever_made_it_ready():
    found = ready("breadth")
    for item, worker in (("a", None), ("b", 1), ("c", 0)):
        found.add(item, worker)
    assert all_of(found) == ["a", "b", "c"]
    assert found.take(0) is None


def test_breadth_keeps_the_first_that_became_ready_by_a_worker_and_queues_the_others():
    found = ready("breadth")
    found.add("a")
    assert found.next_after(0, ["b", "c"]) == "b"
    assert all_of(found) == ["a", "c"]
    found.add("a")
    assert found.next_after(0, []) == "a"


def test_breadth_keeps_none_before_something_urgent():
    found = ready("breadth", urgent={"d": 1})
    assert found.next_after(0, ["b", "d"]) == "d"
    assert all_of(found) == ["b"]


def test_work_takes_the_newest_of_its_own_and_steals_the_oldest_of_another():
    found = ready("work")
    for item in "abcd":
        found.add(item, 0)
    assert found.take(0) == "d"
    assert found.take(1) == "a"
    assert found.take(1) == "b"
    assert found.take(0) == "c"
    assert found.take(1) is None


def test_work_gives_what_is_submitted_to_workers_in_turn():
    found = ready("work")
    for item in "abcd":
        found.add(item)
    assert [found.take(0), found.take(0)] == ["c", "a"]
    assert [found.take(1), found.take(1)] == ["d", "b"]


def test_work_steals_from_whom_the_seed_says():
    def stolen(seed):
        found = ready("work", n_workers=4, seed=seed)
        for worker, item in enumerate("abc"):
            found.add(item, worker)
        return found.take(3)

    expected = [random.Random(seed).choice("abc") for seed in range(20)]
    assert [stolen(seed) for seed in range(20)] == expected
    assert len(set(expected)) > 1


def test_critical_takes_the_longest_way_first_and_of_equals_the_oldest():
    found = ready("critical")
    for item in "abcd":
        found.add(item)
    assert all_of(found) == ["b", "d", "c", "a"]


def test_critical_sorts_by_new_ranks(monkeypatch):
    found = ready("critical")
    for item in "abcd":
        found.add(item)
    monkeypatch.setitem(RANKS, "a", 9.0)
    found.reorder()
    assert all_of(found) == ["a", "b", "d", "c"]


@pytest.mark.parametrize("policy", POLICIES)
def test_tasks_with_a_higher_priority_go_first_under_every_policy(policy):
    found = ready(policy, urgent={"c": 1, "d": 2, "a": 1})
    for item in "abcd":
        found.add(item, 0)
    assert [found.take(0) for _ in range(4)] == ["d", "a", "c", "b"]
