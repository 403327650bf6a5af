"""Simulated task graphs: bounds that hold for every graph, and cases worked out by hand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.simulate.graph import Overhead, TaskGraph, play_graph
from foretell.tasks.running.policies import POLICIES, upward_ranks


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 25))
    before = [
        tuple(sorted(draw(st.sets(st.integers(0, k - 1), max_size=3)))) if k else ()
        for k in range(n)
    ]
    times = draw(st.lists(st.floats(0.01, 10), min_size=n, max_size=n))
    return before, times


@st.composite
def graphs_with_waits(draw):
    """Draw a graph in which some are waits: all that is submitted later comes after them."""
    before, times = draw(graphs())
    is_wait = draw(st.lists(st.sampled_from([False, False, True]), min_size=len(times),
                            max_size=len(times)))  # fmt: skip
    last = set()
    for k in range(len(times)):
        before[k] = tuple(sorted({*before[k], *last}))
        if is_wait[k]:
            times[k], last = 0.0, {k}
    return before, times, is_wait


def play(before, times, workers, policy, overhead=None, is_wait=None):
    graph = TaskGraph.of(before, is_wait or [False] * len(before))
    ranks = upward_ranks(times, graph.after)
    ready = POLICIES[policy](workers, ranks.__getitem__, lambda _: 0)
    return play_graph(graph, times, workers, ready, overhead), max(ranks)


@pytest.mark.parametrize("policy", POLICIES)
@given(
    graph=graphs_with_waits(),
    workers=st.integers(1, 5),
    overhead=st.builds(Overhead, *[st.sampled_from([0.0, 0.01, 1.0])] * 5),
)
def test_makespan_is_within_the_bounds_of_list_schedules(policy, graph, workers, overhead):
    before, times, is_wait = graph
    played, path = play(before, times, workers, policy, overhead, is_wait)
    work = sum(times)
    assert max(work / workers, path) <= played.makespan_s * (1 + 1e-9)
    spent = (overhead.task_s + overhead.wake_s) * is_wait.count(False)
    spent += sum(t for t in times if t < overhead.wake_s)
    assert played.makespan_s <= (work / workers + path + spent) * (1 + 1e-9)


@pytest.mark.parametrize("policy", POLICIES)
@given(graph=graphs(), workers=st.integers(1, 4))
def test_tasks_follow_what_they_depend_on_and_workers_do_one_at_a_time(policy, graph, workers):
    before, times = graph
    played, _ = play(before, times, workers, policy)
    for task, own in enumerate(before):
        assert all(played.end_s[b] <= played.start_s[task] + 1e-9 for b in own)
    for worker in range(workers):
        own = sorted((s, e) for s, e, w in zip(played.start_s, played.end_s, played.worker,
                                               strict=True) if w == worker)  # fmt: skip
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(own))


def test_one_worker_takes_the_sum_of_all_times_and_overheads():
    played, _ = play([(), (0,), ()], [1.0, 2.0, 3.0], 1, "breadth", Overhead(run_s=0.5))
    assert played.makespan_s == pytest.approx(7.5)


def test_tasks_begin_after_they_are_submitted_while_others_run():
    played, _ = play([(), (), ()], [3.0, 1.0, 1.0], 2, "breadth", Overhead(submit_s=1.0))
    assert played.start_s == [1.0, 2.0, 3.0]


def test_submitting_and_beginning_tasks_take_turns():
    played, _ = play([(), ()], [5.0, 5.0], 2, "breadth", Overhead(submit_s=1.0, run_s=0.5))
    assert played.start_s == [1.5, 3.0]  # submitting the second took from 1.5 to 2.5


def test_workers_wait_for_a_program_that_goes_on_submitting():
    overhead = Overhead(submit_s=1.0, patience_s=10.0)
    played, _ = play([(), (), ()], [1.0, 1.0, 1.0], 2, "breadth", overhead)
    assert played.start_s == [3.0, 3.0, 4.0]
    overhead = Overhead(submit_s=1.0, patience_s=0.5)
    played, _ = play([(), (), ()], [1.0, 1.0, 1.0], 2, "breadth", overhead)
    assert played.start_s == [1.5, 2.5, 3.0]  # the last has nobody to wait for


def test_tasks_are_held_back_while_the_program_submits_others():
    overhead = Overhead(submit_s=1.0, held_s=10.0)
    played, _ = play([(), (), ()], [1.0, 1.0, 1.0], 2, "breadth", overhead)
    assert played.start_s == [3.0, 3.0, 4.0]
    is_wait = [False, True, False, False]  # all is done at the wait, and it begins again
    played, _ = play([(), (0,), (1,), (1,)], [2.0, 0.0, 1.0, 1.0], 2, "breadth", overhead, is_wait)
    assert played.start_s == [1.0, 3.0, 5.0, 5.0]
    overhead = Overhead(submit_s=1.0, held_s=2.0)  # not beyond this
    played, _ = play([()] * 4, [5.0, 1.0, 1.0, 1.0], 2, "breadth", overhead)
    assert played.start_s == [1.0, 2.0, 3.0, 4.0]


def test_tasks_are_not_held_back_while_others_run():
    # The program waits for the second task, and submits the third while the first runs.
    is_wait = [False, False, True, False, False]
    played, _ = play([(), (), (1,), (2,), (2,)], [9.0, 1.0, 0.0, 1.0, 1.0], 2, "breadth",
                     Overhead(submit_s=1.0, held_s=10.0), is_wait)  # fmt: skip
    assert played.start_s[3:] == [4.0, 5.0]


def test_programs_are_submitted_slower_by_as_much_as_empty_tasks():
    measured = Overhead(submit_s=3.0, build_s=2.0)
    assert measured.of_program(4.0).submit_s == 6.0
    assert measured.of_program(0.0).submit_s == 3.0
    assert Overhead(submit_s=3.0).of_program(4.0).submit_s == 4.0


def test_tasks_that_are_over_before_another_worker_wakes_run_one_at_a_time():
    played, _ = play([()] * 4, [1.0, 1.0, 1.0, 1.0], 2, "breadth", Overhead(wake_s=1.5))
    assert played.makespan_s == 1.5 + 4.0  # workers begin by waking up
    played, _ = play([()] * 4, [2.0, 2.0, 2.0, 2.0], 2, "breadth", Overhead(wake_s=1.5))
    assert played.makespan_s == 1.5 + 4.0


def test_a_program_that_waits_submits_nothing_meanwhile():
    is_wait = [False, True, False]
    played, _ = play([(), (0,), (1,)], [2.0, 0.0, 1.0], 2, "breadth", Overhead(submit_s=1.0),
                     is_wait)  # fmt: skip
    assert played.start_s == [1.0, 3.0, 4.0]


def test_a_wait_begins_as_soon_as_the_task_before_it_is_submitted():
    is_wait = [False, True, False]
    played, _ = play([(), (0,), (1,)], [0.5, 0.0, 1.0], 2, "breadth", Overhead(submit_s=1.0),
                     is_wait)  # fmt: skip
    assert played.start_s == [1.0, 1.5, 2.5]


def test_critical_path_first_beats_first_in_first_out_where_it_should():
    # Three short tasks come first, and the head of a long chain last.
    before = [(), (), (), (), (3,), (4,)]
    times = [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    assert play(before, times, 2, "critical")[0].makespan_s == 6.0
    assert play(before, times, 2, "breadth")[0].makespan_s == 8.0


def test_waits_of_the_program_take_no_worker_and_no_time():
    before = [(), (), (0, 1), (2,), (2,)]
    is_wait = [False, False, True, False, False]
    times = [1.0, 3.0, 0.0, 1.0, 1.0]
    played, _ = play(before, times, 2, "breadth", is_wait=is_wait)
    assert played.start_s[3:] == [3.0, 3.0]
    assert played.worker[2] == -1


def test_upward_ranks_are_the_longest_chains():
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = 12
        before = [tuple(np.flatnonzero(rng.random(k) < 0.3)) for k in range(n)]
        times = rng.random(n).tolist()

        def longest(task, before=before, times=times):
            after = [k for k, own in enumerate(before) if task in own]
            return times[task] + max((longest(k) for k in after), default=0.0)

        graph = TaskGraph.of(before, [False] * n)
        found = upward_ranks(times, graph.after)
        assert found == pytest.approx([longest(k) for k in range(n)])
