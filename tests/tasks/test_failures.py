"""Tasks that fail, are interrupted, or change what they should not."""

import signal
import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

from foretell.tasks import DependencyFailed, Graph, UndeclaredWrite, task

from ..conftest import PATIENCE_S
from .test_graph import once


@task(writes="x")
def fail(x):
    raise ValueError("no luck")


@task(reads="a", writes="b")
def copy(a, b):
    b[:] = a


def test_failure_skips_what_depends_on_it_and_nothing_else():
    x, y, z, other = [1], [0], [0], [0]
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=2) as g:
        first = fail(x)
        second, third = copy(x, y), copy(y, z)
        copy([5], other)
        g.wait()
    (error,) = caught.value.exceptions
    assert isinstance(error, ValueError)
    assert "task 0 ('fail')" in error.__notes__[0]
    assert "2 after it did not run" in str(caught.value)
    assert other == [5]
    assert (y, z) == ([0], [0])
    assert first.error is error
    for task_ in (second, third):
        assert isinstance(task_.error, DependencyFailed)
        assert task_.error.__cause__ is error
        with pytest.raises(DependencyFailed, match="'fail'"):
            task_.result()


def test_tasks_submitted_after_a_failure_they_depend_on_do_not_run():
    x, y = [1], [0]
    with Graph(workers=1) as g:
        failed = fail(x)
        with pytest.raises(ValueError, match="no luck"):
            failed.result()
        late = copy(x, y)
        with pytest.raises(ExceptionGroup):
            g.wait()
    assert isinstance(late.error, DependencyFailed)


def test_child_that_fails_fails_its_parent_and_what_follows():
    @task(writes="x")
    def parent(x):
        fail(x)

    x, y = [1], [0]
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=2) as g:
        parent(x)
        after = copy(x, y)
        g.wait()
    assert [type(e) for e in caught.value.exceptions] == [ValueError]
    assert isinstance(after.error, DependencyFailed)


def test_parent_can_catch_what_its_children_raise():
    caught, x, y = [], [3], [0]

    @task(writes="x")
    def parent(x):
        fail(x)
        try:
            g.wait()
        except ExceptionGroup as error:
            caught.append(error)

    with Graph(workers=2) as g:
        parent(x)
        copy(x, y)
    assert len(caught) == 1
    assert y == [3]


def test_error_in_the_block_drops_what_has_not_begun():
    ran, release, started = [], threading.Event(), threading.Event()

    @task(writes="x")
    def hold(x):
        started.set()
        assert release.wait(PATIENCE_S)

    @task(reads="x")
    def later(x):
        ran.append(1)

    def leave():
        with Graph(workers=1):
            hold("x")
            dropped = later("x")
            assert started.wait(PATIENCE_S)
            once(lambda: dropped.is_ended, release.set)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        leave()
    assert ran == []


INTERRUPTED = """
import os, signal, sys, time
from foretell.tasks import Graph, task

@task(writes="x")
def slow(x):
    print("started", flush=True)
    time.sleep(1.0)
    print("ended", flush=True)

@task(reads="x")
def never(x):
    print("never", flush=True)

try:
    with Graph(workers=1) as g:
        slow("x")
        never("x")
        g.wait()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_drops_the_queue_and_lets_what_runs_end(launch, tmp_path):
    (tmp_path / "program.py").write_text(INTERRUPTED)
    run = launch(sys.executable, "program.py")
    assert run.reaches(lambda: "started\n" in run.text)
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(PATIENCE_S) == 0
    assert run.text.split() == ["started", "ended", "interrupted"]


@task(reads="a")
def writes_what_it_reads(a):
    a[0] = 1


@task(reads="a")
def writes_around(a, reach):
    reach()


@task(writes="a")
def writes_what_it_says(a):
    a[0] = 1


def test_check_finds_writes_to_what_is_only_read():
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, check=True):
        writes_what_it_reads(np.zeros(3))
    (error,) = caught.value.exceptions
    assert isinstance(error, UndeclaredWrite)
    assert "add its parameter to writes" in str(error)


def test_check_finds_writes_on_other_ways_by_checksums():
    array = np.zeros(3)
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, check=True):
        writes_around(array, lambda: array.fill(2))
    (error,) = caught.value.exceptions
    assert isinstance(error, UndeclaredWrite)
    assert "'a' changed" in str(error)


@task(reads="data", writes="done")
def changes(data, how, done):
    how(data)


@pytest.mark.parametrize(
    ("data", "how"),
    [
        ([1, 2], lambda data: data.append(3)),
        ([1, 2], lambda data: data.__setitem__(0, 1.0)),
        ([np.zeros(1), 2], lambda data: data.pop()),
        ({"a": [1]}, lambda data: data["a"].append(2)),
        ({"a": np.zeros(2)}, lambda data: data["a"].fill(1)),
        ({"a": 1}, lambda data: data.update(b=2)),
        ({1, 2}, lambda data: data.add(3)),
        (bytearray(b"ab"), lambda data: data.pop()),
        (np.array([1, "a"], dtype=object), lambda data: data.__setitem__(0, 2)),
    ],
)
def test_check_finds_changes_of_lists_dicts_and_other_data(data, how):
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, check=True):
        changes(data, how, "done")
    (error,) = caught.value.exceptions
    assert isinstance(error, UndeclaredWrite)
    with Graph(workers=1, check=True):
        changes(data, lambda data: None, "done")


class Pair(NamedTuple):
    a: Any
    n: int


class Row(list):
    def __init__(self, kind, parts):
        super().__init__(parts)
        self.kind = kind


@pytest.mark.parametrize("kind", [Pair, Row])
def test_check_takes_named_tuples_and_lists_of_other_classes(kind):
    def given():
        return Pair(np.zeros(1), 2) if kind is Pair else Row("x", [np.zeros(1), 2])

    seen = []
    with Graph(workers=1, check=True):
        changes(given(), lambda data: seen.append(type(data)), "done")
    assert seen == [kind]
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, check=True):
        changes(given(), lambda data: data[0].fill(1), "done")
    assert isinstance(caught.value.exceptions[0], UndeclaredWrite)


@pytest.mark.parametrize("check", [False, True])
def test_a_list_of_arrays_may_contain_itself(check):
    array = np.zeros(1)
    data = [array]
    data.append(data)
    seen = []
    with Graph(workers=1, check=check):
        changes(data, lambda given: seen.append(given[0][0]), "done")
        writes_what_it_says(array)
    assert (seen, array[0]) == ([0], 1)  # the second task waits for the first


RECORD = [("object", object), ("number", float)]


def test_check_compares_arrays_of_records_field_by_field():
    records = np.array([([1], np.nan)], dtype=RECORD)
    with Graph(workers=1, check=True):
        changes(records, lambda data: None, "done")
    for field, how in (("number", lambda: 1.0), ("object", lambda: [2])):
        with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, check=True):
            writes_around(records, lambda f=field, h=how: records.__setitem__(f, h()))
        assert isinstance(caught.value.exceptions[0], UndeclaredWrite)


class CountedArray(np.ndarray):
    """An array that counts how often its bytes are read."""

    n_reads = 0

    def tobytes(self, order="C"):
        CountedArray.n_reads += 1
        return super().tobytes(order)


def test_check_reads_an_array_once_before_and_once_after():
    CountedArray.n_reads = 0
    with Graph(workers=1, check=True):
        changes(np.zeros(3).view(CountedArray), lambda data: None, "done")
    assert CountedArray.n_reads == 2


def test_check_leaves_declared_writes_alone():
    array = np.zeros(3)
    with Graph(workers=1, check=True):
        writes_what_it_says(array)
    assert array[0] == 1


def test_errors_of_many_tasks_are_all_raised():
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=2):
        for k in range(5):
            fail([k])
    assert len(caught.value.exceptions) == 5


def test_nothing_hangs_when_the_last_task_fails_while_others_wait_inside():
    @task()
    def waits(handle):
        with pytest.raises(ValueError, match="no luck"):
            handle[0].result()

    release, handle = threading.Event(), []

    @task(writes="x")
    def late(x):
        assert release.wait(PATIENCE_S)
        raise ValueError("no luck")

    with pytest.raises(ExceptionGroup), Graph(workers=2) as g:
        handle.append(late("x"))
        waits(handle)
        release.set()
        g.wait()


LONG = """
import sys, threading, time
from foretell.tasks import Graph, task

@task(isolation={isolation!r})
def sleep(seconds):
    time.sleep(seconds)

if __name__ == "__main__":
    try:
        with Graph(workers=2, on={on!r}) as g:
            sleep(0).result()
            handle = sleep(600)
            sleep(600)
            while not handle.start_s:
                time.sleep(0.001)
            print("started", flush=True)
            g.wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.parametrize(("on", "isolation"), [("processes", "none"), ("threads", "sandbox")])
def test_ctrl_c_ends_what_runs_in_other_processes(on, isolation, launch, tmp_path):
    from foretell.tasks.isolation.confine import missing_restrictions

    if isolation == "sandbox" and missing_restrictions():
        pytest.skip(f"no sandbox here: {'; '.join(missing_restrictions())}")
    (tmp_path / "program.py").write_text(LONG.format(on=on, isolation=isolation))
    run = launch(sys.executable, "program.py")
    assert run.reaches(lambda: "started\n" in run.text), run.text
    run.interrupt()
    assert run.wait() == 0
    assert run.text.split() == ["started", "interrupted"]
    assert run.leaves_nobody_behind()


BUSY = """
import signal
from foretell.tasks import Graph, task

@task(writes="key")
def empty(key): ...

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
with Graph(workers=2):
    empty("x")
for k in range(40):
    try:
        with Graph(workers=2):
            signal.setitimer(signal.ITIMER_REAL, 0.004 + k * 1.3e-5)
            for _ in range(2_000):  # an interrupt may be lost, in a callback of Python's own
                empty("x")
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
print("ended")
"""


def test_ctrl_c_at_any_moment_of_submitting_leaves_no_lock_behind(launch, tmp_path):
    (tmp_path / "program.py").write_text(BUSY)
    run = launch(sys.executable, "program.py")
    assert run.wait() == 0
    assert run.text.split()[-1] == "ended"
