"""Other places than threads: the same programs on processes and on Ray, and workers that die."""

import os
import pickle
import signal
import sys
import time
from collections import defaultdict
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from foretell.errors import UsageError
from foretell.tasks import Graph, WorkerLost, task
from foretell.tasks.running.copies import Written, run_copied
from foretell.tasks.running.places import Processes
from foretell.tasks.running.threads import keep_lock, share_lock, switching

from .random_programs import State, assert_same, play, programs


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


@task(writes="x")
def open_jar(x):
    raise TypeError("no jar of pickles")


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
    state = State()
    with Graph(workers=2, on="processes"):
        play(program, state)
    assert_same(program, state)


@task(writes="data")
def put_first_last(data):
    data.append(data.pop(0))
    data[0][:] = 5
    data.append({"first": data[0]})


def test_arrays_that_a_task_moves_in_a_list_stay_the_same_arrays():
    a, b, n = np.zeros(2), np.ones(2), 7
    data = [a, b, n]
    with Graph(workers=1, on="processes"):
        put_first_last(data)
    assert [part is b for part in data] == [True, False, False, False]
    assert data[1:] == [7, a, {"first": b}] and data[2] is a and data[3]["first"] is b
    assert (a.tolist(), b.tolist()) == ([0, 0], [5, 5])


@task()
def square(n):
    return n * n


@task()
def square_twice(n):
    return square(square(n))


@task(isolation="process")
def square_apart(n):
    return square(n)


@task(writes="x")
def square_after_a_loss(x, lost):
    if not lost.exists():
        lost.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(3)


@task()
def square_in_a_graph(n):
    with Graph(workers=1):
        return square(n).result()


def test_body_in_another_process_gets_the_values_of_tasks_that_it_calls(tmp_path):
    with Graph(workers=1):
        assert square_apart(3).result() == 9
    with Graph(workers=1, on="processes", max_open=1):  # whoever submits helps
        handles = [square_twice(n) for n in range(6)]
        handles.append(square_after_a_loss(np.zeros(1), tmp_path / "lost"))
    assert [handle.value for handle in handles] == [0, 1, 16, 81, 256, 625, 9]


def test_processes_do_not_wait_for_locks_that_were_held_when_they_began():
    with Graph(workers=1) as g:
        with g._runtime.lock, switching():
            place = Processes(1)
        try:
            assert place.call(square_twice, (3,), 0) == 81
            assert place.call(square_in_a_graph, (3,), 0) == 9
        finally:
            place.close()


def end_the_copy(usual_s):
    """Do what the end of an inherited graph does, and exit with 0 if all is as usual."""
    try:
        assert sys.getswitchinterval() == usual_s
        keep_lock()
        assert sys.getswitchinterval() == usual_s
    except BaseException:
        os._exit(1)
    os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_process_that_was_forked_beside_a_graph_switches_threads_as_usual():
    usual_s = sys.getswitchinterval()
    share_lock()
    try:
        assert sys.getswitchinterval() < usual_s
        if (child := os.fork()) == 0:
            end_the_copy(usual_s)
        _, status = os.waitpid(child, 0)
    finally:
        keep_lock()
    assert os.waitstatus_to_exitcode(status) == 0
    assert sys.getswitchinterval() == usual_s


class Account:
    def __init__(self):
        self.total = 0


@task(writes="data")
def pay(data, is_replaced):
    if is_replaced:
        data["account"] = Account()
    data["account"].total += 1


def test_objects_inside_data_come_back_if_they_are_new_and_are_refused_if_they_were_changed():
    account = Account()
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, on="processes"):
        pay({"account": account}, False)
    assert "changes an object of type Account" in str(caught.value.exceptions[0])
    data = {"account": account}
    with Graph(workers=1, on="processes"):
        pay(data, True)
    assert (account.total, data["account"].total) == (0, 1)


class Point(NamedTuple):
    a: Any
    n: int


@task(writes="x")
def move_points(x):
    for point in x.values() if isinstance(x, dict) else x:
        point.a[0] += 1
        point.a[0] += point.n


@task(writes="x")
def put_into_another(x, kind):
    x.append(Point(x[0], 1) if kind is Point else kind(list, a=x[0]))


def test_written_named_tuples_stay_what_they_are():
    point = Point(np.zeros(2), 1)
    listed, named = [point], {"q": Point(np.zeros(2), 2)}
    with Graph(workers=1, on="processes"):
        move_points(listed)
        move_points(named)
    assert listed[0] is point and point.a.tolist() == [2, 0]
    assert type(named["q"]) is Point and named["q"].a.tolist() == [3, 0]


def test_arrays_in_named_tuples_can_be_written_where_they_arrive_locked():
    array = np.zeros(2)
    array.flags.writeable = False  # as Ray hands them over
    data = [Point(array, 1)]
    _, changes = run_copied(move_points, (data,))
    assert type(data[0]) is Point and data[0].a.tolist() == [2, 0]
    here = [Point(np.zeros(2), 1)]
    Written(move_points, (here,)).bring_back(changes)
    assert type(here[0]) is Point and here[0].a.tolist() == [2, 0]


def test_written_data_in_a_new_container_keep_its_type_or_are_refused():
    x = [np.zeros(2)]
    with Graph(workers=1, on="processes"):
        put_into_another(x, Point)
    assert type(x[1]) is Point and x[1].a is x[0]
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, on="processes"):
        put_into_another([np.zeros(2)], defaultdict)
    assert "into a new defaultdict" in str(caught.value.exceptions[0])


@task(writes="x")
def put_first(x, value):
    x[0] = value


@task(writes="x")
def extend_last(x):
    x[1].append(2)


def test_arrays_of_objects_come_back_with_the_same_objects():
    number, listed = Decimal(2), [1]
    x, y = np.array([1, number], dtype=object), np.array([None, listed], dtype=object)
    with Graph(workers=1, on="processes"):
        put_first(x, 5)
        put_first(y, [3, 4])
        extend_last(y)
    assert x.tolist() == [5, 2] and x[1] is number
    assert y.tolist() == [[3, 4], [1, 2]] and y[1] is listed


def test_object_that_changed_in_an_array_of_objects_is_refused():
    accounts = np.array([Account()], dtype=object)
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, on="processes"):
        pay_first(accounts)
    assert "changes an object of type Account" in str(caught.value.exceptions[0])


@task(writes="x")
def pay_first(x):
    x[0].total += 1


class CountedCopies:
    n_copies = 0

    def __reduce__(self):
        CountedCopies.n_copies += 1
        return CountedCopies, ()


def test_objects_inside_written_data_are_sent_once():
    CountedCopies.n_copies = 0
    with Graph(workers=1, on="processes"):
        note({"object": CountedCopies()}, 1)
    assert CountedCopies.n_copies == 1


@task(writes="x")
def enclose(x):
    new = [x[0]]
    new.append(new)
    x.append(new)


def test_written_data_may_contain_themselves_but_not_new_data_that_do():
    x = [1]
    x.append(x)
    with Graph(workers=1, on="processes"):
        put_first(x, 2)
    assert x[0] == 2 and x[1] is x
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, on="processes"):
        enclose([np.zeros(1)])
    (error,) = caught.value.exceptions
    assert isinstance(error, UsageError)
    assert "contain themselves" in str(error)


@task(reads="x", writes="found")
def note_first(x, found):
    found["first"] = x[0]


def test_read_data_may_contain_themselves():
    x, found = [1], {}
    x.append(x)
    with Graph(workers=1, on="processes"):
        note_first(x, found)
    assert found == {"first": 1}


def test_tensors_inside_written_data_are_refused_by_processes():
    torch = pytest.importorskip("torch")
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, on="processes"):
        pay({"tensor": torch.zeros(2)}, True)
    assert "hold a Tensor" in str(caught.value.exceptions[0])


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


def helper(x):
    x[0] = 1


renamed = task(writes="x")(helper)


@pytest.mark.parametrize(("on", "isolation"), [("processes", "none"), ("threads", "process")])
def test_task_that_is_not_found_by_its_name_is_refused_when_it_is_called(on, isolation):
    with Graph(workers=1, on=on), pytest.raises(UsageError, match="write @task above"):
        renamed.with_options(isolation=isolation)(np.zeros(1))


def test_written_object_that_cannot_come_back_is_refused():
    told = "do not come back .* use an array, a list, a dict or a bytearray"
    with Graph(workers=1, on="processes"), pytest.raises(UsageError, match=told):
        fail(object())


def test_arguments_that_cannot_be_sent_fail_the_task():
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, on="processes"):
        note({}, lambda: None)
    assert "task 'note': its arguments" in str(caught.value.exceptions[0])
    assert "pickle" in str(caught.value.exceptions[0])
    assert isinstance(caught.value.exceptions[0].__cause__, AttributeError | pickle.PicklingError)


def test_errors_of_bodies_that_speak_of_pickles_stay_what_they_are():
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, on="processes"):
        open_jar(np.zeros(1))
    (error,) = caught.value.exceptions
    assert isinstance(error, TypeError)
    assert str(error) == "no jar of pickles"


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


@task(writes="x")
def span(x, pause_s):
    started_s = time.time()
    time.sleep(pause_s)
    return os.getpid(), started_s, time.time()


@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_of_one_matrix_go_to_other_processes(order):
    a = np.zeros((8, 8), order=order)
    a[:4] = 1
    with Graph(workers=1, on="processes") as g:
        handles = [double(a[:4, :4], a[:4, 4:]), double(a[:4, ::2], a[4:, 1::2])]
        handles.append(double(a[:4, :4], a[3:7, :4]))  # these share a row, so they run here
        g.wait()
    assert [handle.value == os.getpid() for handle in handles] == [False, False, True]
    assert a[:4, 4:].tolist() == [[2] * 4] * 4


@task(isolation="process", reads="a", writes="b")
def double_apart(a, b):
    b[:] = 2 * a


def test_parts_that_alternate_are_not_taken_for_shared():
    z = np.ones(4, dtype=complex)
    x = np.arange(12.0)
    with Graph(workers=1) as g:
        double_apart(z.real, z.imag)
        double_apart(x[::3], x[1::3])
        with pytest.raises(UsageError, match="another argument"):
            double_apart(x[::3], x[6::-2][:4])
        g.wait()
    assert z.tolist() == [1 + 2j] * 4
    assert x[1::3].tolist() == [0, 6, 12, 18]


def test_numbers_of_numpy_are_keys_of_tasks_on_processes():
    with Graph(workers=2, on="processes") as g:
        first, second = (span(one, 0.0) for one in (np.int64(3), 3))
        g.wait()
    assert second.before == (first.id,)


@task(writes="x")
def hold(x, started):
    started.touch()
    time.sleep(3600)


@task(writes="x")
def follow(x, begin):
    while not begin.exists():
        os.sched_yield()
    time.sleep(0.05)
    return time.monotonic()


@pytest.fixture(scope="module")
def ray_cluster():
    """A cluster of four CPUs, which graphs join and leave."""
    pytest.importorskip("ray")
    from foretell.executors.cluster import Cluster

    cluster = Cluster("local", n_cpus=4)
    yield
    cluster.close()


@pytest.mark.slow
@pytest.mark.parametrize("pause_s", [0.01, 0.1])
def test_no_more_bodies_run_at_once_on_ray_than_there_are_workers(ray_cluster, pause_s):
    with Graph(workers=2, on="ray") as g:
        handles = [span(f"x{k}", pause_s) for k in range(40)]
        g.wait()
    pids = {handle.value[0] for handle in handles}
    assert len(pids) <= 2 and os.getpid() not in pids
    spans = sorted(handle.value[1:] for handle in handles)
    for _, started_s, _ in (handle.value for handle in handles):
        assert sum(begin <= started_s < end for begin, end in spans) <= 2


@pytest.mark.slow
def test_the_time_of_a_task_on_ray_leaves_out_what_it_waits_for_its_worker(ray_cluster):
    with Graph(workers=2, on="ray") as g:
        span("first", 0.0).result()
        g._place._usual_s[span] = 0.0  # so that each worker holds several from now on
        for k in range(40):
            span(f"x{k}", 0.01)
        g.wait()
    g.tasks.pop(0)
    bars = defaultdict(list)
    for one in g.tasks:
        bars[one.worker].append((one.start_s, one.end_s))
    assert set(bars) <= {0, 1}
    for own in bars.values():
        busy_s = sum(end - begin for begin, end in own)
        assert busy_s < 1.5 * (max(end for _, end in own) - min(begin for begin, _ in own))


@task(reads="a", writes="b")
def layout(a, b):
    return a.flags.f_contiguous, b.flags.f_contiguous


@pytest.mark.slow
def test_arrays_arrive_on_ray_stored_as_they_were(ray_cluster):
    with Graph(workers=1, on="ray"):
        by_columns = layout(np.zeros((3, 4), order="F"), np.zeros((3, 4), order="F"))
        by_rows = layout(np.zeros((3, 4)), np.zeros((3, 4)))
    assert by_columns.value == (True, True)
    assert by_rows.value == (False, False)


@pytest.mark.slow
def test_urgent_tasks_go_first_on_ray(ray_cluster, tmp_path):
    begin = tmp_path / "begin"
    with Graph(workers=1, on="ray"):
        first = follow("first", begin)
        ordinary = [follow(f"x{k}", begin) for k in range(8)]
        urgent = follow.with_options(priority=1)("urgent", begin)
        begin.touch()
    ends = sorted(one.value for one in (first, *ordinary, urgent))
    assert ends.index(urgent.value) <= 3  # of the four that were taken before it


@pytest.mark.slow
def test_killed_worker_on_ray_loses_its_own_task_alone(ray_cluster):
    outputs = np.zeros((12, 3))
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=2, on="ray"):
        for k in range(12):
            double(np.ones(3), outputs[k])
            if k in (3, 7):
                die(np.zeros(1))
    assert [type(error) for error in caught.value.exceptions] == [WorkerLost] * 2
    assert all("'die'" in str(error) for error in caught.value.exceptions)
    assert (outputs == 2).all()


@pytest.mark.slow
def test_an_error_in_the_program_ends_what_runs_on_ray(ray_cluster, tmp_path):
    started = tmp_path / "started"
    with pytest.raises(RuntimeError, match="enough"), Graph(workers=1, on="ray"):
        hold("x", started)
        while not started.exists():
            os.sched_yield()
        raise RuntimeError("enough")


class CannotStart:
    def __init__(self):
        raise ImportError("foretell is not installed here")


@pytest.mark.slow
def test_workers_that_cannot_start_on_ray_are_told_and_not_waited_for(ray_cluster, monkeypatch):
    monkeypatch.setattr("foretell.tasks.running.places.RayWorker", CannotStart)
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=2, on="ray"):
        double(np.ones(3), np.zeros(3))
    (error,) = caught.value.exceptions
    assert isinstance(error, WorkerLost)
    assert "foretell is not installed here" in str(error)


@pytest.mark.slow
def test_a_full_cluster_makes_tasks_of_ray_wait_and_not_hang(ray_cluster):
    import ray

    others = [ray.remote(num_cpus=1)(type("Other", (), {})).remote() for _ in range(3)]
    ray.get([other.__ray_ready__.remote() for other in others])
    try:
        with Graph(workers=4, on="ray") as g:  # one of its actors starts
            handles = [span(f"x{k}", 0.0) for k in range(8)]
            g.wait()
        assert len({handle.value[0] for handle in handles}) == 1
    finally:
        for other in others:
            ray.kill(other)
