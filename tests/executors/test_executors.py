"""What every executor promises, and what only processes can get wrong."""

import json
import logging
import multiprocessing
import os
import re
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from foretell.executors import (
    ProcessExecutor,
    SerialExecutor,
    ThreadExecutor,
    WorkerDied,
    by_blocks,
    open_executor,
    single_threaded,
)
from foretell.executors._retries import RetryQueue, Ticket
from foretell.machines import Needs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, and forks")


@pytest.fixture(params=[1, 2, 3, "threads"])
def n_workers(request):
    """How many workers: one is this process, more are others, and some are threads."""
    return request.param


@pytest.fixture
def opened(tmp_path):
    """Open executors that are closed when the test is over."""
    executors = []

    def open_one(state=None, n_workers=2):
        if n_workers == "threads":
            stop = (tmp_path / "stop").touch
            executors.append(ThreadExecutor(state, 2, stop=stop))
        else:
            executors.append(open_executor(state, n_workers))
        return executors[-1]

    yield open_one
    for executor in executors:
        executor.close()


@pytest.fixture
def launch_code(launch, monkeypatch):
    """Start Python on some code in which ``here`` is this module, with no limit on threads set."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    opening = (
        f"import json, multiprocessing, sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import test_executors as here\n"
        "from foretell.executors import ProcessExecutor\n"
    )
    return lambda code: launch(sys.executable, "-c", opening + textwrap.dedent(code))


def run_all(executor, work, tasks):
    """Run tasks, and return each with its result as they came back."""
    return [(done.task, done.result) for done in executor.run(work, tasks)]


# Work for the executors to do


def add(state, task):
    return state + task


def fail_on_odd(state, task):
    if task % 2:
        raise ValueError(f"{task} is odd")
    return task


def look_inside(state, task):
    return task.number


def describe_state(state, task):
    return (state.secret, id(state) == state.address)


def die_on_odd(state, task):
    if task % 2:
        os._exit(3)
    return task


def kill_itself_on_seven(state, task):
    if task == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def own_pid(state, task):
    return os.getpid()


def survive_ctrl_c(state, task):
    os.kill(os.getpid(), signal.SIGINT)
    return "alive"


def thread_counts(state, task):
    import scipy.linalg  # noqa: F401 - it brings a BLAS of its own, loaded only now
    import sklearn.tree  # noqa: F401 - and this an OpenMP
    from threadpoolctl import threadpool_info

    return {library["filepath"]: library["num_threads"] for library in threadpool_info()}


def return_a_lambda(state, task):
    return lambda: task


def bytes_read(pid):
    return int(re.search(r"rchar: (\d+)", Path(f"/proc/{pid}/io").read_text())[1])


def halfway_through_a_large_result(do):
    """Return a result so large that something can be done while it is on its way."""
    parent = os.getppid()
    before = bytes_read(parent)

    def watch():
        while bytes_read(parent) < before + 2**17:
            pass
        do(parent)

    threading.Thread(target=watch, daemon=True).start()
    return bytes(2**26)


def die_while_sending(state, task):
    if task != "culprit":
        return task
    return halfway_through_a_large_result(lambda _: os.kill(os.getpid(), signal.SIGKILL))


def interrupt_parent_while_sending(state, task):
    return halfway_through_a_large_result(lambda parent: os.kill(parent, signal.SIGINT))


# The contract


def test_one_worker_is_this_process_and_more_are_others(opened):
    assert isinstance(opened(n_workers=1), SerialExecutor)
    assert isinstance(opened(n_workers=2), ProcessExecutor)
    alone = run_all(opened(n_workers=1), own_pid, range(3))
    assert {pid for _, pid in alone} == {os.getpid()}
    many = {pid for _, pid in run_all(opened(n_workers=2), own_pid, range(20))}
    assert os.getpid() not in many
    assert len(many) <= 2


def test_every_task_comes_back_once_with_its_result(opened, n_workers):
    results = run_all(opened(100, n_workers), add, range(30))
    assert sorted(results) == [(task, 100 + task) for task in range(30)]


def test_exceptions_come_back_as_results_and_harm_nothing_else(opened, n_workers):
    results = dict(run_all(opened(None, n_workers), fail_on_odd, range(10)))
    assert [results[task] for task in (0, 2, 4, 6, 8)] == [0, 2, 4, 6, 8]
    for task in (1, 3, 5, 7, 9):
        assert isinstance(results[task], ValueError)
        assert str(results[task]) == f"{task} is odd"


class Numbered:
    def __init__(self, number):
        self.number = number


def test_returned_task_is_the_very_object_not_a_copy(opened, n_workers):
    tasks = [Numbered(i) for i in range(8)]
    results = run_all(opened(None, n_workers), look_inside, tasks)
    assert {id(task) for task, _ in results} == {id(task) for task in tasks}
    assert all(task.number == result for task, result in results)


class Unmovable:
    """A state that cannot be sent anywhere, only inherited."""

    def __init__(self):
        self.secret = 42
        self.address = id(self)

    def __reduce__(self):
        raise AssertionError("the state was copied")


def test_state_is_inherited_and_never_copied(opened, n_workers):
    results = run_all(opened(Unmovable(), n_workers), describe_state, range(6))
    assert [result for _, result in results] == [(42, True)] * 6


def test_room_ends_before_the_queue_grows_long(opened, n_workers):
    executor = opened(0, n_workers)
    n_submitted = 0
    while executor.has_room:
        executor.submit(add, n_submitted)
        n_submitted += 1
    assert executor.n_workers <= n_submitted <= 2 * executor.n_workers
    assert executor.n_pending == n_submitted
    executor.wait()
    assert executor.has_room


def test_tasks_are_asked_for_only_when_there_is_room(opened, n_workers):
    executor = opened(0, n_workers)
    asked = []

    def tasks():
        for i in range(20):
            asked.append(i)
            yield i

    n_ended = 0
    for _ in executor.run(add, tasks()):
        n_ended += 1
        assert len(asked) - n_ended <= 2 * executor.n_workers
    assert n_ended == 20


def begin_and_wait(folder, task):
    """Say that a task has begun, wait to be stopped, and say that it has ended."""
    (folder / f"began-{task}").touch()
    while not (folder / "stop").exists():
        time.sleep(0.01)
    (folder / f"ended-{task}").touch()


def test_close_abandons_what_runs_and_what_waits_and_may_be_called_twice(
    opened, n_workers, tmp_path
):
    executor = opened(tmp_path, n_workers)
    n_tasks = 0
    while executor.has_room:
        executor.submit(begin_and_wait, n_tasks)
        n_tasks += 1
    deadline = time.monotonic() + 60
    n_begun = 0 if n_workers == 1 else executor.n_workers  # this process runs tasks when asked
    while len(list(tmp_path.glob("began-*"))) < n_begun:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    executor.close()
    executor.close()
    assert executor.n_pending == 0
    assert multiprocessing.active_children() == []
    (tmp_path / "stop").touch()
    assert len(list(tmp_path.glob("began-*"))) == n_begun  # what waited never begins
    # A thread cannot be killed: it is made to end. A process is killed in the middle of its task.
    n_ended = n_begun if n_workers == "threads" else 0
    assert len(list(tmp_path.glob("ended-*"))) == n_ended


def losing_queue(most_losses):
    """A queue that notes its warnings, and one task taken from it."""
    log, warnings = logging.Logger("test"), []
    log.warning = lambda text, *values: warnings.append(text % values)
    queue = RetryQueue(most_losses, log, name=lambda task: f"task {task}")
    for task in range(3):
        queue.append(Ticket(add, task, Needs()))
    return queue, warnings


def test_a_task_whose_worker_was_lost_is_the_next_until_it_was_lost_too_often():
    queue, warnings = losing_queue(most_losses=2)
    for n_lost in (1, 2):
        ticket = queue.popleft()
        assert ticket.task == 0
        assert queue.lost(ticket, "no power") is None
        assert len(queue) == 3
        assert warnings == ["task 0 was lost: no power"] * n_lost
    ticket = queue.popleft()
    done = queue.lost(ticket, "no power")
    assert (done.task, done.n_lost, str(done.result)) == (0, 3, "no power")
    assert isinstance(done.result, WorkerDied)
    assert [queue.popleft().task, queue.popleft().task, len(queue)] == [1, 2, 0]


# Processes


def test_result_that_cannot_be_sent_is_an_error_of_its_task_alone(opened):
    executor = opened()
    executor.submit(return_a_lambda, 1)
    result = executor.wait().result
    assert isinstance(result, Exception)
    assert run_all(executor, fail_on_odd, [2]) == [(2, 2)]


@pytest.mark.parametrize("work", [die_on_odd, kill_itself_on_seven])
def test_dead_worker_fails_its_own_task_alone(opened, work):
    executor = opened()
    results = dict(run_all(executor, work, range(10)))
    assert sorted(results) == list(range(10))
    dead = {task for task, result in results.items() if isinstance(result, WorkerDied)}
    assert dead == ({1, 3, 5, 7, 9} if work is die_on_odd else {7})
    assert all(result == task for task, result in results.items() if task not in dead)
    assert dict(run_all(executor, work, [20, 22])) == {20: 20, 22: 22}


def test_idle_worker_killed_from_outside_costs_no_task(opened):
    executor = opened(0)
    (_, pid), *_ = run_all(executor, own_pid, [0])
    os.kill(pid, signal.SIGKILL)
    assert sorted(run_all(executor, add, range(6))) == [(i, i) for i in range(6)]


def die_the_first_time(folder, task):
    if task == 3:
        try:
            (folder / "tried").touch(exist_ok=False)
        except FileExistsError:
            return "again"
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def test_busy_worker_killed_from_outside_costs_no_task(opened, tmp_path):
    executor = opened(tmp_path)
    for task in range(4):
        executor.submit(die_the_first_time, task)
    done = {d.task: d for d in (executor.wait() for _ in range(4))}
    assert {task: d.result for task, d in done.items()} == {0: 0, 1: 1, 2: 2, 3: "again"}
    assert {task: d.n_lost for task, d in done.items()} == {0: 0, 1: 0, 2: 0, 3: 1}


class UnreadableError(Exception):
    """It can be sent, and not be read: pickle gives it one argument of two."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def raise_unreadable(state, task):
    raise UnreadableError(1, 2)


def test_exception_that_cannot_be_read_is_an_error_of_its_task_alone(opened):
    executor = opened()
    ((_, result),) = run_all(executor, raise_unreadable, [1])
    assert isinstance(result, TypeError)
    assert run_all(executor, fail_on_odd, [2]) == [(2, 2)]


def test_worker_that_dies_while_it_sends_a_large_result_is_noticed(opened):
    results = dict(run_all(opened(), die_while_sending, ["a", "culprit", "b"]))
    assert isinstance(results.pop("culprit"), WorkerDied)
    assert results == {"a": "a", "b": "b"}


def test_interrupt_while_a_large_result_is_on_its_way_does_not_hang(launch_code):
    run = launch_code(
        """
        executor = ProcessExecutor(None, 2)
        executor.submit(here.interrupt_parent_while_sending, None)
        try:
            executor.wait()
        except KeyboardInterrupt:
            executor.close()
            print(multiprocessing.active_children())
        """
    )
    assert run.wait() == 0, run.text
    assert run.text == "[]\n"


def test_close_leaves_no_process(opened):
    executor = opened(0)
    pids = {pid for _, pid in run_all(executor, own_pid, range(10))}
    executor.submit(sleep_long, None)
    executor.close()
    assert multiprocessing.active_children() == []
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def sleep_long(state, task):
    time.sleep(1000)


def test_workers_ignore_ctrl_c(opened):
    assert run_all(opened(), survive_ctrl_c, [1]) == [(1, "alive")]


def test_workers_end_when_their_parent_is_killed(launch_code):
    run = launch_code(
        """
        executor = ProcessExecutor(None, 3)
        for task in range(3):
            executor.submit(here.sleep_long, task)
        print("ready", flush=True)
        executor.wait()
        """
    )
    assert run.reaches(lambda: "ready" in run.text)
    assert len(run.members()) == 4
    assert run.kill()
    assert run.leaves_nobody_behind()


# Threads


def test_worker_uses_one_thread_even_in_libraries_it_loads_later(launch_code):
    run = launch_code(
        """
        import numpy
        with ProcessExecutor(None, 1) as executor:
            executor.submit(here.thread_counts, None)
            print(json.dumps(executor.wait().result))
        """
    )
    assert run.wait() == 0, run.text
    counts = json.loads(run.text)
    assert len(counts) >= 2  # NumPy's BLAS, SciPy's, and an OpenMP
    assert set(counts.values()) == {1}


def test_single_thread_is_for_a_while_and_leaves_the_environment_alone(monkeypatch):
    import numpy  # noqa: F401 - there must be something to limit
    from threadpoolctl import threadpool_info, threadpool_limits

    def counts():
        return {library["filepath"]: library["num_threads"] for library in threadpool_info()}

    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with threadpool_limits(2):
        before = counts()
        assert set(before.values()) == {2}
        with single_threaded():
            assert set(counts().values()) == {1}
            assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
        after = counts()
    assert {path: after[path] for path in before} == before
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert "MKL_NUM_THREADS" not in os.environ


def test_blocks_of_rows_are_joined_in_order_whatever_the_number_of_threads():
    x = np.arange(20_000.0).reshape(-1, 2)
    threads = set()

    def double(rows):
        threads.add(threading.get_ident())
        return 2 * rows[:, 0]

    assert (by_blocks(double, x) == 2 * x[:, 0]).all()
    assert threading.get_ident() not in threads
    assert by_blocks(double, x[:10]).tolist() == [4.0 * i for i in range(10)]
    assert threading.get_ident() in threads  # few rows need no thread
