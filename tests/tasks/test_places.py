"""Other places than threads: the same programs on processes and on Ray, and workers that die."""

import os
import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from foretell.errors import UsageError
from foretell.tasks import Graph, WorkerLost, task

from .random_programs import fresh, in_order, play, programs


@task(reads="a", writes="b")
def double(a, b):
    b[:] = 2 * a
    return os.getpid()


@task(writes="x")
def die(x):
    os.kill(os.getpid(), signal.SIGKILL)


@task(writes="x")
def fail(x):
    raise ValueError("no luck")


@task(writes="found")
def note(found, value):
    found["value"] = value


def test_bodies_run_in_other_processes_and_what_they_write_comes_back():
    a, b = np.arange(6.0), np.zeros((2, 6))
    found = {}
    with Graph(workers=2, on="processes") as g:
        handle = double(a, b[1])
        double(b[1], b[0])
        note(found, 3)
        g.wait()
    assert handle.value != os.getpid()
    assert b.tolist() == [(4 * a).tolist(), (2 * a).tolist()]
    assert found == {"value": 3}


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(program=programs)
def test_programs_give_the_same_on_processes(program):
    arrays = fresh()
    with Graph(workers=2, on="processes"):
        play(program, arrays)
    for found, expected in zip(arrays, in_order(program), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_killed_worker_is_told_with_task_and_signal_and_others_go_on():
    a, b = np.ones(3), np.zeros(3)
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=2, on="processes"):
        die(np.zeros(1))
        double(a, b)
    (error,) = caught.value.exceptions
    assert isinstance(error, WorkerLost)
    assert "'die'" in str(error)
    assert "SIGKILL" in str(error)
    assert b.tolist() == [2, 2, 2]


def test_errors_of_bodies_come_back_from_processes():
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, on="processes"):
        fail(np.zeros(1))
    assert "no luck" in str(caught.value.exceptions[0])


def test_body_that_other_processes_do_not_find_is_refused_when_it_is_called():
    @task(writes="x")
    def inner(x): ...

    with Graph(workers=1, on="processes"), pytest.raises(UsageError, match="top of a module"):
        inner(np.zeros(1))


def test_written_object_that_cannot_come_back_is_refused():
    with Graph(workers=1, on="processes"), pytest.raises(UsageError, match="do not come back"):
        fail(object())


def test_arguments_that_cannot_be_sent_fail_the_task():
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, on="processes"):
        note({}, lambda: None)
    assert "pickle" in str(caught.value.exceptions[0])


@pytest.mark.slow
def test_programs_run_on_ray_even_if_a_task_is_defined_inside_a_function():
    pytest.importorskip("ray")
    a, b, c = np.arange(6.0), np.zeros((2, 6)), np.zeros(6)

    @task(reads="a", writes="b")
    def inner(a, b):
        b[:] = a + 1

    with pytest.raises(ExceptionGroup) as caught, Graph(workers=2, on="ray"):
        double(a, b[1])
        double(b[1], b[0])
        inner(a, c)
        fail(np.zeros(1))
    assert "no luck" in str(caught.value.exceptions[0])
    assert c.tolist() == (a + 1).tolist()
    assert b.tolist() == [(4 * a).tolist(), (2 * a).tolist()]
