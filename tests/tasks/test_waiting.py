"""Waiting where graphs are open inside tasks or beside one another, and for what cannot come."""

import copy
import threading

import pytest

from foretell.errors import UsageError
from foretell.tasks import Graph, task
from foretell.tasks.declare import active
from foretell.tasks.running.opening import planning

from .test_graph import PATIENCE_S, once


def ends(program):
    """Run a program in a thread of its own, and return what it returns; fail if it hangs."""
    found = []

    def run():
        try:
            found.append((program(), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert found, "it hangs"
    value, error = found[0]
    if error is not None:
        raise error
    return value


@task()
def add(a, b):
    return a + b


@task()
def hold(release, value):
    assert release.wait(PATIENCE_S)
    return value


@pytest.mark.parametrize(
    "wait", [lambda inner, handle: handle.result(), lambda inner, handle: inner.wait(on=[handle])]
)
def test_task_of_another_open_graph_can_be_waited_for(wait):
    release = threading.Event()

    def program():
        with Graph(workers=1):
            handle = hold(release, 3)
            with Graph(workers=1) as inner:
                once(lambda: handle.waiters, release.set)
                wait(inner, handle)
                return handle.is_ended, handle.value

    assert ends(program) == (True, 3)


def test_result_can_be_waited_for_in_a_thread_without_a_graph():
    release, found = threading.Event(), []
    with Graph(workers=1):
        handle = hold(release, 3)
        thread = threading.Thread(target=lambda: found.append(handle.result()))
        thread.start()
        release.set()
        thread.join(PATIENCE_S)
    assert found == [3]


def test_result_of_another_graph_is_an_argument_only_when_it_is_known():
    release = threading.Event()
    with Graph(workers=1):
        handle = hold(release, 3)
        with Graph(workers=1) as inner:
            with pytest.raises(UsageError, match=r"'hold', .* another graph"):
                add(handle, 4)
            assert inner.tasks == []
            release.set()
            handle.result()
            last = add(handle, 4)
            assert last.result() == 7
            assert last.before == ()  # numbers of tasks are those of this graph


def test_results_of_an_earlier_graph_are_arguments_of_a_program_that_is_foreseen():
    with planning() as graphs:
        with Graph():
            handle = add(1, 2)
        with Graph():
            add(add(3, 4), handle)
    assert [one.before for one in graphs[1].tasks] == [(), (0,)]


def test_child_that_takes_the_result_of_what_follows_its_parent_is_refused():
    begin, later = threading.Event(), []

    @task(writes="x")
    def parent(x):
        assert begin.wait(PATIENCE_S)
        add(later[0], 1)

    @task(reads="x")
    def follow(x):
        return 1

    def program():
        with Graph(workers=2):
            parent("x")
            later.append(follow("x"))
            begin.set()

    with pytest.raises(ExceptionGroup) as caught:
        ends(program)
    (error,) = caught.value.exceptions
    assert isinstance(error, UsageError)
    assert "cannot end before it" in str(error)


def test_child_takes_the_result_of_what_ran_beside_its_parent():
    @task(writes="x")
    def parent(x, handles):
        total = add(handles[0], 1)
        graph.wait()
        return total.result()

    with Graph(workers=1) as graph:
        handles = [add(1, 2)]
        assert parent("x", handles).result() == 4


def test_wait_of_the_outer_graph_inside_a_graph_in_a_task_is_for_the_children_of_that_task():
    found = []

    @task(writes="x")
    def note(x):
        found.append(active.graph)

    @task()
    def opens():
        note("x")
        with Graph(workers=1):
            outer.wait()
            assert len(found) == 1
            outer.submit(note, ("y",))

    def program():
        with outer:
            opens()

    outer = Graph(workers=1)
    ends(program)
    assert found == [outer, outer]
    assert [one.parent for one in outer.tasks] == [None, outer.tasks[0], outer.tasks[0]]


def test_task_of_an_inner_graph_runs_what_it_waits_for_where_all_workers_are_busy():
    begin, handles = threading.Event(), []

    @task()
    def look():
        return [active.graph is outer, add(1, 2).result()]

    @task()
    def wait_for_others():
        return [handle.result() for handle in handles]

    @task()
    def opens():
        assert begin.wait(PATIENCE_S)
        with Graph(workers=2):
            return [one.result() for one in (wait_for_others(), wait_for_others())]

    def program():
        with outer:
            found = opens()
            handles.extend(look() for _ in range(3))
            begin.set()
            outer.wait()
            return found.value

    outer = Graph(workers=1)
    assert ends(program) == [[[True, 3]] * 3] * 2


def test_cycle_through_an_inner_graph_is_refused():
    begin, handles = threading.Event(), []

    @task()
    def waits_inside():
        return handles[0].result()

    @task(writes="x")
    def opens(x):
        assert begin.wait(PATIENCE_S)
        with Graph(workers=1):
            return waits_inside().result()

    @task(reads="x")
    def follow(x): ...

    def program():
        with Graph(workers=2):
            opens("x")
            handles.append(follow("x"))
            begin.set()

    with pytest.raises(ExceptionGroup, match="1 task failed") as caught:
        ends(program)
    (error,) = caught.value.exceptions
    assert isinstance(error, UsageError)
    assert "cannot end before it" in str(error)


def test_copy_of_a_task_has_its_result_and_no_graph():
    with Graph(workers=1):
        handle = add(1, 2)
        handle.result()
        assert copy.deepcopy(handle).result() == 3
