"""Tasks that fail, are interrupted, or change what they should not."""

import signal
import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

from foretell.tasks import DependencyFailed, Graph, UndeclaredWrite, task
from foretell.tasks.running.runtime import Runtime
from foretell.tasks.running.submitted import DONE, Task

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


def test_parent_learns_of_the_failures_of_all_within_it_and_leaves_others_alone():
    caught, x, y = [], [3], [0]

    @task()
    def child():
        fail([0])

    @task(writes="x")
    def parent(x):
        child()
        try:
            g.wait()
        except ExceptionGroup as error:
            caught.append(error)

    with pytest.raises(ExceptionGroup) as others, Graph(workers=1) as g:
        fail("other")
        copy("other", [0])
        handle = parent(x)
        copy(x, y)
    assert [[str(e) for e in one.exceptions] for one in caught] == [["no luck"]]
    assert (handle.error, y) == (None, [3])
    assert str(others.value).startswith("1 task failed, and 1 after it did not run")


def test_parent_that_catches_the_error_of_a_call_in_place_has_not_failed():
    @task(writes="x")
    def parent(x):
        with pytest.raises(ValueError, match="no luck"):
            fail.with_options(when=False)(x)

    x, y = [3], [0]
    with Graph(workers=1):
        handle = parent(x)
        copy(x, y)
    assert (handle.error, y) == (None, [3])


def test_error_that_is_caught_does_not_hide_that_of_another_child():
    @task(writes="x")
    def parent(x):
        with pytest.raises(ValueError, match="no luck"):
            fail([0]).result()
        with pytest.raises(ValueError, match="no luck"):
            fail.with_options(when=False)(x)

    x, y = [3], [0]
    with pytest.raises(ExceptionGroup, match="1 task failed"), Graph(workers=1):
        parent(x)
        after = copy(x, y)
    assert isinstance(after.error, DependencyFailed)


def test_task_has_its_error_before_it_can_be_seen_to_have_ended(monkeypatch):
    seen = []

    class Watched(Task):
        def __setattr__(self, name, value):
            if name == "state" and value > DONE:
                seen.append(self.error)
            super().__setattr__(name, value)

    monkeypatch.setattr("foretell.tasks.graph.Task", Watched)

    @task(writes="x")
    def parent(x):
        fail([0])

    with pytest.raises(ExceptionGroup), Graph(workers=1):
        fail("x")
        copy("x", "y")
        parent("z")
    assert [type(error) for error in seen] == [ValueError, DependencyFailed] * 2


def test_failures_are_forgotten_under_the_lock(monkeypatch):
    unlocked = []

    class Watched(Runtime):
        def __setattr__(self, name, value):
            if name == "failed" and name in vars(self):
                unlocked.append(not self.lock.locked())
            super().__setattr__(name, value)

    monkeypatch.setattr("foretell.tasks.graph.Runtime", Watched)
    with Graph(workers=1), pytest.raises(ValueError, match="no luck"):
        fail.with_options(when=False)([1])
    assert unlocked == [False]


def test_what_depends_on_a_failure_that_was_caught_is_not_skipped_in_silence():
    x, y = [3], [0]
    told = pytest.raises(ExceptionGroup, match="1 task did not run, after")
    with told as caught, Graph(workers=1):
        with pytest.raises(ValueError, match="no luck"):
            fail.with_options(when=False)(x)
        copy(x, y)
    assert "'copy' did not run: it depends on task 0 ('fail')" in str(caught.value.exceptions[0])
    with pytest.raises(ExceptionGroup, match="1 task did not run, after"), Graph(workers=1) as g:
        fail(x)
        with pytest.raises(ExceptionGroup, match="1 task failed"):
            g.wait(on=[x])
        copy(x, y)
    assert y == [0]


def test_a_skipped_call_in_place_that_was_caught_is_not_told_again():
    x, y = [3], [0]
    with Graph(workers=1):
        with pytest.raises(ValueError, match="no luck"):
            fail.with_options(when=False)(x)
        with pytest.raises(DependencyFailed):
            copy.with_options(when=False)(x, y)


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


@pytest.mark.parametrize("waits", [False, True])
def test_task_that_runs_when_its_graph_is_dropped_submits_and_waits_for_nothing_more(waits):
    ran, caught, release, started = [], [], threading.Event(), threading.Event()

    @task(writes="x")
    def child(x):
        ran.append(x)

    @task(writes="x")
    def parent(x):
        if waits:
            child(x)
        started.set()
        assert release.wait(PATIENCE_S)
        try:
            g.wait() if waits else child(x)
        except DependencyFailed as error:
            caught.append(error)

    def leave():
        parent("x")
        dropped = child("x")
        assert started.wait(PATIENCE_S)
        once(lambda: dropped.is_ended, release.set)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), Graph(workers=1) as g:
        leave()
    assert (len(caught), ran) == (1, [])
    assert all(one.is_ended for one in g.tasks if one.function is child)


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


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_body_that_whoever_submits_runs_ends_the_program_when_it_is_interrupted(error):
    started, release, ran = threading.Event(), threading.Event(), []

    @task()
    def hold():
        started.set()
        assert release.wait(PATIENCE_S)

    @task()
    def end():
        release.set()
        raise error

    @task()
    def later():
        ran.append(1)

    with pytest.raises(error), Graph(workers=1, max_open=1) as g:
        hold()
        assert started.wait(PATIENCE_S)
        end()  # the worker is busy, so this runs it
        later()
    assert ran == []
    assert isinstance(g.tasks[1].error, error)


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


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (lambda x: x[:3], lambda x: x[1:4]),
        (lambda x: [x[:3], 5], lambda x: x[1:4]),
        (lambda x: x[:3], lambda x: [x[1:4]]),
        (lambda x: x.reshape(2, 3), lambda x: x),
    ],
)
def test_check_allows_what_is_read_to_change_with_what_is_written(read, written):
    @task(reads="a", writes="b")
    def count_up(a, b):
        for part in b if isinstance(b, list) else [b]:
            part += 1

    x = np.arange(6)
    with Graph(workers=1, check=True):
        count_up(read(x), written(x))
        writes_both(x[:3], x[3:])
    same = [1]
    with Graph(workers=1, check=True):
        grow(same, same)
    assert same == [1, 2]
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, check=True):
        writes_both(x[:3], x[2:])  # by the argument that it only reads
    assert isinstance(caught.value.exceptions[0], UndeclaredWrite)


@task(reads="a", writes="b")
def writes_both(a, b):
    b[:] = 0
    if np.shares_memory(a, b):
        a[0] = 7


@task(reads="a", writes="b")
def grow(a, b):
    b.append(2)


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
    if isolation == "sandbox":
        skip_without_sandbox()
    (tmp_path / "program.py").write_text(LONG.format(on=on, isolation=isolation))
    run = launch(sys.executable, "program.py")
    run_is_interrupted(run, run.interrupt)


def skip_without_sandbox():
    from foretell.tasks.isolation.confine import missing_restrictions

    if missing_restrictions():
        pytest.skip(f"no sandbox here: {'; '.join(missing_restrictions())}")


def run_is_interrupted(run, interrupt):
    """Interrupt a program that has started: it says so, and leaves no process behind."""
    assert run.reaches(lambda: "started\n" in run.text), run.text
    interrupt()
    assert run.wait() == 0
    assert run.text.split() == ["started", "interrupted"]
    assert run.leaves_nobody_behind()


ENDLESS = """
import time
from foretell.tasks import Graph, task

if __name__ != "__main__":
    while True:
        time.sleep(1)

@task(isolation="sandbox")
def never(): ...

if __name__ == "__main__":
    try:
        with Graph(workers=1) as g:
            handle = never()
            while not handle.start_s:
                time.sleep(0.001)
            print("started", flush=True)
            g.wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_sandbox_whose_module_does_not_finish_loading(launch, tmp_path):
    skip_without_sandbox()
    (tmp_path / "program.py").write_text(ENDLESS)
    run = launch(sys.executable, "program.py")
    run_is_interrupted(run, lambda: run.process.send_signal(signal.SIGINT))


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
