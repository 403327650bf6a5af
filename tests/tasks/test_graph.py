"""Graphs: dependencies, waiting, priorities, nested tasks, and what is refused."""

import threading
import time

import numpy as np
import pytest

from foretell.errors import UsageError
from foretell.tasks import Graph, task

PATIENCE_S = 60


def once(condition, action):
    """Do something in another thread as soon as a condition holds."""

    def watch():
        deadline = time.monotonic() + PATIENCE_S
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.001)
        action()

    threading.Thread(target=watch, daemon=True).start()


@task(writes="x")
def append(x, value):
    x.append(value)


@task(reads="a", writes="b")
def copy(a, b):
    b[:] = a


def test_outside_a_graph_a_task_is_an_ordinary_call():
    found = []
    assert append(found, 1) is None
    assert found == [1]


def test_tasks_on_the_same_data_run_in_the_order_of_calls():
    found = []
    with Graph(workers=3):
        for k in range(50):
            append(found, k)
    assert found == list(range(50))


def test_independent_tasks_run_at_the_same_time():
    meeting = threading.Barrier(2, timeout=PATIENCE_S)

    @task(writes="x")
    def meet(x):
        meeting.wait()

    with Graph(workers=2):
        meet("left")
        meet("right")


def test_result_of_a_task_can_be_an_argument_of_another():
    @task()
    def add(a, b):
        return a + b

    with Graph(workers=2) as g:
        total = add(add(1, 2), add(3, 4))
        assert total.result() == 10
        g.wait()


def test_waiting_on_data_waits_for_their_writer_only():
    release = threading.Event()
    a, b = np.zeros(4), np.zeros(4)

    @task(writes="x")
    def fill(x):
        x[:] = 7

    @task(writes="x")
    def blocked(x):
        assert release.wait(PATIENCE_S)

    with Graph(workers=2) as g:
        blocked(b)
        fill(a[1:3])
        g.wait(on=[a[2:4]])
        assert a.tolist() == [0, 7, 7, 0]
        release.set()


def test_waiting_on_a_key_that_is_a_tuple_waits_for_its_writer():
    release, found = threading.Event(), []

    @task(writes="key")
    def note(key):
        assert release.wait(PATIENCE_S)
        found.append(key)

    with Graph(workers=1) as g:
        handle = note(("block", 1))
        once(lambda: handle.waiters or g.is_closed, release.set)
        g.wait(on=("block", 1))
        seen = list(found)
        release.set()
    assert seen == [("block", 1)]


def test_priorities_go_first_under_every_policy():
    for policy in ("critical", "breadth", "work"):
        order, started, release = [], threading.Event(), threading.Event()

        @task(writes="key", priority="level")
        def note(key, level, order=order):
            order.append(level)

        @task(writes="key")
        def block(key, started=started, release=release):
            started.set()
            assert release.wait(PATIENCE_S)

        with Graph(workers=1, policy=policy):
            block("first")
            assert started.wait(PATIENCE_S)
            for level in (0, 2, 0, 5, 1):
                note(f"own {level} {len(order)} {policy}", level)
            release.set()
        assert order[:3] == [5, 2, 1], policy


def test_when_false_runs_the_call_at_once_after_its_dependencies():
    found = []
    with Graph(workers=1):
        append(found, 1)
        append.with_options(when=False)(found, 2)
        assert found == [1, 2]


def test_expression_decides_when_a_call_becomes_a_task():
    caller = threading.get_ident()

    @task(writes="x", when="n > 3")
    def where(x, n):
        x.append(threading.get_ident() == caller)

    small, large = [], []
    with Graph(workers=1):
        where(small, 2)
        where(large, 5)
    assert (small, large) == ([True], [False])


def test_parent_ends_after_its_children():
    release = threading.Event()
    found = []

    @task(writes="x")
    def child(x):
        assert release.wait(PATIENCE_S)
        x.append("child")

    @task(writes="x")
    def parent(x):
        child(x)

    with Graph(workers=2) as g:
        handle = parent(found)
        append(found, "after")
        release.set()
        g.wait()
        assert handle.is_ended
    assert found == ["child", "after"]


@pytest.mark.parametrize("workers", [1, 2])
def test_waiting_inside_a_task_helps_so_that_one_worker_is_enough(workers):
    @task()
    def fibonacci(n):
        if n < 2:
            return n
        parts = fibonacci(n - 1), fibonacci(n - 2)
        graph.wait()
        return parts[0].result() + parts[1].result()

    with Graph(workers=workers) as graph:
        assert fibonacci(9).result() == 34


def test_task_that_waits_for_what_depends_on_it_is_refused():
    caught = []

    @task(writes="x")
    def waits(x, later):
        try:
            later[0].result()
        except UsageError as error:
            caught.append(str(error))

    @task(reads="x")
    def follows(x): ...

    release, later = threading.Event(), []

    @task(writes="x")
    def hold(x):
        assert release.wait(PATIENCE_S)

    with Graph(workers=2):
        hold("x")
        waits("x", later)
        later.append(follows("x"))
        release.set()
    assert "cannot end before it" in caught[0]


def test_submitter_runs_tasks_when_too_many_are_open():
    caller, seen = threading.get_ident(), []

    @task()
    def note():
        seen.append(threading.get_ident())

    started, release = threading.Event(), threading.Event()

    @task()
    def hold():
        started.set()
        assert release.wait(PATIENCE_S)

    with Graph(workers=1, max_open=5):
        hold()
        assert started.wait(PATIENCE_S)
        for _ in range(20):
            note()
        release.set()
    assert seen.count(caller) >= 14


def test_critical_policy_follows_the_longest_way_first():
    order, release = [], threading.Event()

    @task(writes="key")
    def hold(key):
        assert release.wait(PATIENCE_S)

    @task(reads="before", writes="key")
    def note(before, key, name):
        order.append(name)

    with Graph(workers=1, policy="critical") as g:
        hold("gate")
        note("gate", "a", "short")
        first = note("gate", "b", "long 1")
        note("b", "c", "long 2")
        note("c", "d", "long 3")
        once(lambda: first.rank > 0, release.set)  # ranks are computed by the wait below
        g.wait()
    assert order[0] == "long 1"


def test_blas_uses_one_thread_inside_a_graph_and_as_many_as_before_after_it():
    from threadpoolctl import threadpool_info, threadpool_limits

    def most():
        return max(library["num_threads"] for library in threadpool_info())

    seen = []

    @task()
    def look():
        seen.append(most())

    with threadpool_limits(2):
        with Graph(workers=1):
            look()
        after = most()
    assert seen == [1]
    assert after == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": 1.5}, "workers"),
        ({"policy": "critcal"}, "Did you mean 'critical'?"),
        ({"max_open": 0}, "max_open"),
        ({"on": "thread"}, "Did you mean 'threads'?"),
    ],
)
def test_wrong_options_of_a_graph_are_refused(options, told):
    with pytest.raises(UsageError, match=told), Graph(**options):
        pass


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"reads": "aa"}, "Did you mean 'a'?"),
        ({"size": "a +"}, "expression"),
        ({"isolation": "sandbx"}, "Did you mean 'sandbox'?"),
        ({"sealed": True}, "isolation"),
        ({"prioritty": 3}, "Did you mean 'priority'?"),
    ],
)
def test_wrong_declarations_are_refused(options, told):
    with pytest.raises(UsageError, match=told):
        task(**options)(lambda a: None)


def test_wrong_calls_are_refused_where_they_are_made():
    sized = task(writes="a", size="a.nothing")(lambda a: None)
    urgent = task(writes="a", priority=-1)(lambda a: None)
    with Graph(workers=1):
        with pytest.raises(UsageError, match="too many positional"):
            append([], 1, 2)
        with pytest.raises(UsageError, match="size"):
            sized([])
        with pytest.raises(UsageError, match="priority"):
            urgent([])


@pytest.mark.parametrize("size", ["float('nan')", "float('inf')", "10**400", "'large'", "None"])
def test_sizes_that_are_no_finite_numbers_are_refused(size, tmp_path):
    sized = task(writes="a", size=f"{size} if a else 3.0")(lambda a: None)
    with Graph(workers=1) as g:
        with pytest.raises(UsageError, match="its size must be a number, not"):
            sized("a")
        sized("")
    g.trace(tmp_path / "run.csv")


def test_size_counts_arrays_and_those_in_a_list_but_no_deeper():
    sized = task(reads="a")(lambda a: None)
    endless = [1.5]
    endless.append(endless)
    data = [np.zeros((2, 3)), [np.zeros(3), (np.zeros(2), 1.5)], (), endless]
    assert [sized.size_of((a,)) for a in data] == [6, 3, 0, 0]
    with Graph(workers=1):
        assert sized(endless).result() is None


def test_graph_is_used_once_and_inside_its_block():
    with Graph(workers=1) as g:
        pass
    with pytest.raises(UsageError, match="once"), g:
        pass
    with pytest.raises(UsageError, match="inside"):
        g.wait()


@pytest.mark.parametrize("is_long", [False, True])
def test_workers_get_the_lock_sooner_while_tasks_compute_and_as_before_after_them(is_long):
    import sys

    before = sys.getswitchinterval()
    seen = []

    @task(writes="x")
    def compute(x):
        sum(range(20_000 if is_long else 1))
        seen.append(sys.getswitchinterval())

    with Graph(workers=1) as g:
        for _ in range(60):
            compute("x")
            g.wait()
    assert seen[0] < before  # they may be long
    assert (seen[-1] < before) == is_long
    assert sys.getswitchinterval() == before


def test_cpu_time_of_a_task_leaves_out_what_it_waits():
    @task()
    def wait():
        time.sleep(0.05)

    with Graph(workers=1):
        handle = wait()
    assert handle.end_s - handle.start_s >= 0.05
    assert handle.cpu_s < 0.04


def test_cpu_time_of_a_task_leaves_out_the_tasks_that_it_runs_while_it_waits():
    def compute(seconds):
        until_s = time.thread_time() + seconds
        while time.thread_time() < until_s:
            pass

    @task()
    def inner():
        compute(0.05)

    @task()
    def middle():
        inner().result()
        compute(0.02)

    @task()
    def outer():
        middle().result()
        with Graph(workers=1):
            inner().result()

    with Graph(workers=1) as g:
        outer()
        g.wait()
    by_name = {one.label: one.cpu_s for one in g.tasks}
    assert 0.05 <= by_name["inner"] < 0.08
    assert 0.02 <= by_name["middle"] < 0.05
    assert by_name["outer"] < 0.05


@pytest.mark.parametrize("on", ["threads", "processes"])
def test_task_can_open_a_graph_of_its_own(on):
    found = []

    @task()
    def outer(k):
        parts = np.zeros(3)
        with Graph(workers=1, on=on):
            for i in range(3):
                fill_one(parts[i : i + 1], float(k))
        found.append(parts.sum())

    with Graph(workers=3):
        for k in range(3):
            outer(k)
    assert sorted(found) == [0.0, 3.0, 6.0]


@task(writes="x")
def fill_one(x, value):
    x[:] = value


@pytest.mark.parametrize(
    ("on", "cpu_s", "takes_turns"),
    [
        ("threads", 0.5, True),  # two at a time, and each computes half of it
        ("threads", 1.0, False),  # both compute all the time
        ("threads", 0.1, False),  # both wait for something else
        ("processes", 0.5, False),
    ],
)
def test_workers_that_take_turns_are_noticed(on, cpu_s, takes_turns, monkeypatch):
    @task()
    def work(): ...

    monkeypatch.setattr("foretell.executors.n_cores", lambda: 2)
    with Graph(workers=2) as g:
        for _ in range(8):
            work()
    g.on, g.began_s = on, 1.0
    for k, one in enumerate(g.tasks):
        one.start_s, one.end_s, one.cpu_s = 1.0 + k // 2, 2.0 + k // 2, cpu_s
    assert g.takes_turns == takes_turns


# Tasks are held back while a program submits others


@pytest.fixture
def first_look(monkeypatch):
    """Let nothing but the program itself end the holding back."""
    monkeypatch.setattr("foretell.tasks.running.runtime._FIRST_LOOK_S", 10 * PATIENCE_S)


@pytest.mark.parametrize("wait", ["all", "on", "result"])
def test_tasks_begin_when_the_program_waits(wait, first_look):
    found = []
    with Graph(workers=2) as g:
        handles = [append(found, k) for k in range(5)]
        assert not any(handle.start_s for handle in handles)
        if wait == "all":
            g.wait()
        elif wait == "on":
            g.wait(on=[found])
        else:
            handles[-1].result()
        assert found == [0, 1, 2, 3, 4]


def test_tasks_begin_when_too_many_are_open(first_look):
    with Graph(workers=1, max_open=3):
        handles = [append([k], k) for k in range(5)]
        assert any(handle.is_ended for handle in handles)


def test_tasks_begin_when_the_program_does_something_else():
    began = threading.Event()

    @task()
    def begin():
        began.set()

    with Graph(workers=1):
        begin()
        assert began.wait(PATIENCE_S)


def test_tasks_begin_at_last_while_the_program_goes_on_submitting(monkeypatch):
    monkeypatch.setattr("foretell.tasks.running.runtime.DENSE_S", 1e9)
    began = threading.Event()

    @task()
    def begin():
        began.set()

    with Graph(workers=1, max_open=10**9) as g:
        begin()
        while not began.is_set() and len(g.tasks) < 10**6:
            append([], 1)
    assert began.is_set()


def test_tasks_are_not_held_back_beside_one_that_runs(first_look):
    release = threading.Event()

    @task()
    def hold():
        assert release.wait(PATIENCE_S)

    with Graph(workers=2) as g:
        first = hold()
        g.wait(on=append([], 1))
        assert not first.is_ended
        second = append([], 2)
        once(lambda: second.is_ended, release.set)


def test_whoever_waits_for_a_result_runs_no_task_beside_the_workers():
    running, most = [], []

    @task()
    def nap():
        running.append(1)
        most.append(len(running))
        time.sleep(0.001)
        running.pop()

    with Graph(workers=1):
        handles = [nap() for _ in range(20)]
        handles[-1].result()
    assert max(most) == 1
