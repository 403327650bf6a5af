"""Sandboxes: real tasks that try to escape, and data that stay sealed."""

import ctypes
import os
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from foretell.errors import UsageError
from foretell.predictor import Outlook, Quantiles
from foretell.tasks import (
    EnclaveMissing,
    Graph,
    IntegrityError,
    OwnerKey,
    SandboxMissing,
    Sealed,
    TaskError,
    WorkerLost,
    foresee,
    task,
)
from foretell.tasks.declare import PROTECTION
from foretell.tasks.isolation import confine
from foretell.tasks.isolation.sandbox import Sandbox, usual_memory
from foretell.tasks.isolation.worker import ANSWER, REFUSED, load_code
from foretell.tasks.running.places import Place

from . import escapes

pytest.importorskip("cryptography")
missing = confine.missing_restrictions()
needs_sandbox = pytest.mark.skipif(bool(missing), reason=f"no sandbox here: {'; '.join(missing)}")


def failure(handle, *arguments, **options):
    """Run one task alone, and return the error that it ends in."""
    with pytest.raises(ExceptionGroup) as caught, Graph(workers=1, **options):
        handle(*arguments)
    (error,) = caught.value.exceptions
    return error


@needs_sandbox
def test_task_computes_in_a_sandbox_and_what_it_writes_comes_back():
    a, b = np.arange(6.0), np.zeros((6, 2))
    with Graph(workers=1):
        assert escapes.double(a, b[:, 1]).result() == 15.0
        assert escapes.multiply(50).result() == 50.0**3
    assert b.tolist() == [[0, 2 * x] for x in a]


@needs_sandbox
def test_changes_come_back_from_a_sandbox_into_the_same_arrays_whatever_holds_them():
    arrays = np.zeros((3, 2))
    pair, listed, named = (arrays[0],), [arrays[1], 7], {"a": arrays[2], "n": 8}
    with Graph(workers=1):
        escapes.add_one(pair)
        escapes.add_one(listed)
        escapes.add_one(named)
    assert arrays.tolist() == [[1, 1]] * 3
    assert listed[1] == 8 and named["n"] == 9
    assert np.shares_memory(listed[0], arrays) and np.shares_memory(named["a"], arrays)


@needs_sandbox
def test_sandbox_has_no_environment_of_ours(monkeypatch):
    monkeypatch.setenv("A_SECRET", "42")
    with Graph(workers=1):
        found = escapes.environment().result()
    assert set(found) <= {"LC_CTYPE", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}


@needs_sandbox
@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/1/environ", __file__])
def test_files_cannot_be_read(path):
    error = failure(escapes.read_file, path)
    assert isinstance(error, TaskError)
    assert "PermissionError" in str(error)


@needs_sandbox
def test_files_cannot_be_written_or_removed(tmp_path):
    assert "PermissionError" in str(failure(escapes.write_file, str(tmp_path / "new")))
    kept = tmp_path / "kept"
    kept.write_text("mine")
    assert "PermissionError" in str(failure(escapes.write_file, str(kept)))
    assert "'unlink'" in str(failure(escapes.remove_file, str(kept)))
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]
    assert kept.read_text() == "mine"


@needs_sandbox
def test_file_that_may_be_read_cannot_be_emptied():
    path = Path(escapes.__file__)
    content = path.read_bytes()
    try:
        assert "PermissionError" in str(failure(escapes.empty_own_file))
        assert path.read_bytes() == content
    finally:
        if path.read_bytes() != content:
            path.write_bytes(content)


@needs_sandbox
def test_descriptors_can_be_copied_and_asked_for_their_flags():
    with Graph(workers=1):
        assert escapes.copy_descriptor().result() == os.O_RDWR


@needs_sandbox
def test_network_cannot_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        error = failure(escapes.connect, server.getsockname()[1])
        with pytest.raises(TimeoutError):
            server.accept()
    assert isinstance(error, WorkerLost)
    assert "'connect'" in str(error)
    assert "system call 'socket'" in str(error)


@needs_sandbox
@pytest.mark.parametrize(
    ("escape", "call"),
    [
        (escapes.execute, "execve"),
        (escapes.fork_bomb, "clone"),
        (escapes.become_another, "setuid"),
        (escapes.keep_in_memory_file, "memfd_create"),
        (escapes.use_io_uring, "io_uring_setup"),
        (escapes.send_descriptor, "sendmsg"),
    ],
)
def test_forbidden_system_calls_kill_the_worker_and_are_named(escape, call):
    error = failure(escape)
    assert isinstance(error, WorkerLost)
    assert f"'{escape.label}'" in str(error)
    assert f"'{call}'" in str(error)


@needs_sandbox
def test_calls_of_another_architecture_kill_the_worker():
    error = failure(escapes.use_32_bit_calls)
    assert isinstance(error, WorkerLost)
    assert "'sendmsg', 'seccomp' or a call of another processor" in str(error)


@needs_sandbox
def test_confinement_cannot_be_undone():
    with Graph(workers=1):
        assert escapes.undo_confinement().result() == -1


@needs_sandbox
def test_other_processes_cannot_be_attached_read_or_signaled():
    secret = ctypes.create_string_buffer(b"a secret")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert "'ptrace'" in str(failure(escapes.attach, other.pid))
        assert "'kill'" in str(failure(escapes.send_signal, other.pid))
        assert "'fcntl'" in str(failure(escapes.signal_by_descriptor, other.pid))
        assert "PermissionError" in str(failure(escapes.read_memory_file, other.pid))
        assert other.poll() is None
        other.communicate(b"\n")
    error = failure(escapes.read_memory, os.getpid(), ctypes.addressof(secret))
    assert "'process_vm_readv'" in str(error)


@needs_sandbox
def test_sandbox_that_was_killed_is_replaced_for_the_next_task():
    with Graph(workers=1) as g:
        escapes.die()
        with pytest.raises(ExceptionGroup) as caught:
            g.wait()
        assert "ended with code 3" in str(caught.value.exceptions[0])
        assert escapes.multiply(3).result() == 27.0


@needs_sandbox
def test_error_of_a_task_is_told_by_name_and_text():
    error = failure(escapes.raise_error, "no luck")
    assert "ValueError: no luck" in str(error)


@needs_sandbox
def test_values_that_could_carry_code_are_refused():
    error = failure(escapes.raise_error, lambda: None)
    assert isinstance(error, UsageError)
    assert "cannot be sent" in str(error)


@needs_sandbox
def test_arguments_that_share_memory_are_refused():
    a = np.zeros(4)
    with Graph(workers=1), pytest.raises(UsageError, match="another argument"):
        escapes.double(a[:3], a[1:])


@needs_sandbox
def test_task_that_is_in_no_file_is_refused_where_it_is_called(launch):
    program = """
from foretell.tasks import Graph, task

@task(isolation="sandbox")
def typed(): ...

if __name__ == "__main__":
    with Graph(workers=1):
        typed()
"""
    run = launch(sys.executable, "-c", program)
    assert run.wait() == 1
    assert run.text.splitlines()[-1].startswith("foretell.errors.UsageError: task 'typed' is in no")


@needs_sandbox
def test_sandbox_works_beside_more_than_a_thousand_open_files():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 4096 if limits[1] == resource.RLIM_INFINITY else limits[1]
    if most < 2048:
        pytest.skip(f"no more than {most} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2048), limits[1]))
    opened = []
    try:
        while not opened or opened[-1] < 1024:
            opened.append(os.open(os.devnull, os.O_RDONLY))
        with Graph(workers=1):
            assert escapes.multiply(3).result() == 27.0
        assert "'execve'" in str(failure(escapes.execute))
    finally:
        for one in opened:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


# Sealed data


@needs_sandbox
def test_sealed_tasks_take_and_return_what_only_the_owner_can_read():
    owner = OwnerKey()
    a, b = (owner.seal(np.full(5, value)) for value in (3.0, 4.0))
    with Graph(workers=1, owner=owner):
        handle = escapes.sealed_sum(a, b)
        twice = escapes.sealed_sum(handle, handle)
    assert isinstance(handle.value, Sealed)
    assert owner.open(handle.value).tolist() == [7.0] * 5
    assert owner.open(twice.value).tolist() == [14.0] * 5
    with pytest.raises(IntegrityError):
        OwnerKey().open(handle.value)


@needs_sandbox
def test_errors_of_sealed_tasks_do_not_tell_their_data():
    owner = OwnerKey()
    error = failure(escapes.sealed_error, owner.seal(np.array([424242])), owner=owner)
    assert "ValueError" in str(error)
    assert "424242" not in str(error)


@needs_sandbox
def test_what_a_sealed_task_keeps_is_not_there_for_tasks_that_answer_in_the_clear():
    owner = OwnerKey()
    with Graph(workers=1, owner=owner):
        escapes.sealed_keep(owner.seal(424242)).result()
        assert escapes.tell_what_was_kept().result() == []


@needs_sandbox
@pytest.mark.parametrize(
    ("escape", "told"),
    [
        (escapes.sealed_error_with_a_name, "KeyError"),
        (escapes.sealed_exit, "its sandbox ended"),
        (escapes.sealed_system_call, "a system call"),
    ],
)
def test_the_way_a_sealed_task_ends_does_not_tell_its_data(escape, told):
    owner = OwnerKey()
    error = str(failure(escape, owner.seal(42), owner=owner))
    assert told in error
    assert "42" not in error


@needs_sandbox
@pytest.mark.parametrize(
    ("kind", "forge", "expected"),
    [
        (ANSWER, "result", IntegrityError),
        (ANSWER, "sealed as text", IntegrityError),
        (ANSWER, "sealed as bytes", IntegrityError),
        (ANSWER, "sealed by another", IntegrityError),
        (ANSWER, "number", IntegrityError),
        (ANSWER, "error", TaskError),
        (ANSWER, "errors", TaskError),
        (REFUSED, "text", IntegrityError),
    ],
)
def test_sealed_task_that_answers_by_itself_tells_nothing_in_the_clear(kind, forge, expected):
    owner = OwnerKey()
    error = failure(escapes.sealed_answer, owner.seal(42), kind, forge, owner=owner)
    assert isinstance(error, expected)
    assert "42" not in str(error)


@needs_sandbox
def test_sealed_task_that_breaks_its_channel_does_not_tell_where():
    owner = OwnerKey()
    error = failure(escapes.sealed_number_of_chunks, owner.seal(42), ANSWER, owner=owner)
    assert isinstance(error, IntegrityError)
    assert "42" not in str(error)


@needs_sandbox
def test_sealed_task_gets_no_key_but_those_of_its_own_values():
    owner = OwnerKey()
    with Graph(workers=1, owner=owner):
        found = escapes.sealed_open_another(owner.seal(1), owner.seal(42).content).result()
    n_keys, opened = owner.open(found)
    assert n_keys >= 2  # that of its argument, and that of its result
    assert opened == []


@needs_sandbox
@pytest.mark.parametrize(
    ("escape", "error"),
    [
        (escapes.sealed_exit, WorkerLost),
        (escapes.sealed_system_call, WorkerLost),
        (escapes.sealed_error, TaskError),
    ],
)
def test_sealed_task_that_fails_is_never_run_again(escape, error, monkeypatch):
    called, call = [], Sandbox.call

    def counted(sandbox, function, *given):
        called.append((sandbox, function))
        return call(sandbox, function, *given)

    monkeypatch.setattr(Sandbox, "call", counted)
    owner = OwnerKey()
    value = owner.seal(42)
    with Graph(workers=2, owner=owner) as g:
        handle = escape(value)
        with pytest.raises(ExceptionGroup):
            g.wait()
        assert isinstance(handle.error, error)
        assert len(called) == 1
        assert owner.open(escapes.sealed_sum(value, value).result()) == 84


class Meddler:
    """The socket of a sandbox with someone in between, who flips a bit of what is sent."""

    def __init__(self, socket, place):
        self._socket, self._place = socket, place

    def __getattr__(self, name):
        return getattr(self._socket, name)

    def sendall(self, sent):
        changed = bytearray(sent)
        changed[self._place] ^= 1
        self._socket.sendall(changed)


@needs_sandbox
@pytest.mark.parametrize("place", [3, 4, -1])  # of the length, what it says of itself, its content
def test_message_that_was_changed_on_its_way_to_a_sandbox_closes_the_channel(place):
    sandbox = Sandbox(escapes.__name__, Path(escapes.__file__).resolve()).start()
    sandbox._socket = Meddler(sandbox._socket, place)
    with pytest.raises(IntegrityError, match="sandbox received"):
        sandbox.call(escapes.multiply, (3,))
    assert not sandbox.is_open


@needs_sandbox
def test_sealed_data_and_keys_are_in_no_trace_or_representation(tmp_path):
    owner = OwnerKey()
    secret = np.array([123456789.0])
    with Graph(workers=1, owner=owner) as g:
        escapes.sealed_sum(owner.seal(secret), owner.seal(secret))
    g.trace(tmp_path / "run.csv")
    g.trace(tmp_path / "run2.json")
    told = repr(owner) + repr(owner.seal(secret))
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        assert owner.key not in content
        assert secret.tobytes() not in content
    assert owner.key.hex() not in told


@needs_sandbox
def test_changed_sealed_input_closes_the_channel_and_the_next_task_gets_another():
    owner = OwnerKey()
    sealed = owner.seal(np.ones(4))
    changed = Sealed(sealed.content[:-1] + bytes([sealed.content[-1] ^ 1]))
    with Graph(workers=1, owner=owner) as g:
        escapes.sealed_sum(changed, sealed)
        with pytest.raises(ExceptionGroup) as caught:
            g.wait()
        (error,) = caught.value.exceptions
        assert isinstance(error, IntegrityError)
        (place,) = g._isolated.values()
        assert [sandbox.is_open for sandbox in place._found.values()] == [False]
        assert owner.open(escapes.sealed_sum(sealed, sealed).result()).tolist() == [2.0] * 4


def test_sealed_tasks_need_a_key_and_return_what_they_compute():
    if missing:
        pytest.skip(f"no sandbox here: {'; '.join(missing)}")
    with Graph(workers=1), pytest.raises(UsageError, match="owner"):
        escapes.sealed_sum(1, 2)
    with Graph(workers=1, owner=OwnerKey()), pytest.raises(UsageError, match="write nothing"):
        escapes.sealed_write(np.zeros(1))


@needs_sandbox
def test_answer_that_was_changed_or_repeated_closes_the_channel(tmp_path):
    """Someone between the two ends changes, repeats or drops what the sandbox answers."""
    for meddle in (lambda f: f[:-1] + bytes([f[-1] ^ 1]), lambda f: b""):
        sandbox = Sandbox(escapes.__name__, Path(escapes.__file__).resolve()).start()
        honest = sandbox._receive.add
        sandbox._receive.add = lambda frame, meddle=meddle, honest=honest: honest(meddle(frame))
        with pytest.raises(IntegrityError):
            sandbox.call(escapes.multiply, (3,))
        assert not sandbox.is_open
    sandbox = Sandbox(escapes.__name__, Path(escapes.__file__).resolve()).start()
    honest, kept = sandbox._receive.add, []

    def replay(frame):
        kept.append(frame)
        return honest(kept[0])

    sandbox._receive.add = replay
    sandbox.call(escapes.multiply, (3,))
    with pytest.raises(IntegrityError):
        sandbox.call(escapes.multiply, (4,))
    assert not sandbox.is_open


@needs_sandbox
@pytest.mark.parametrize("header", [b'{"f": "0x1p99999"}', b"no value"])
def test_answer_that_is_no_value_closes_the_channel(header):
    sandbox = Sandbox(escapes.__name__, Path(escapes.__file__).resolve()).start()
    with pytest.raises(IntegrityError, match="not a value"):
        sandbox.call(escapes.answer_with_a_header, (header,))
    assert not sandbox.is_open


@needs_sandbox
def test_answer_without_end_closes_the_channel():
    sandbox = Sandbox(escapes.__name__, Path(escapes.__file__).resolve()).start()
    with pytest.raises(IntegrityError, match="more than"):
        sandbox.call(escapes.answer_without_end, ())
    assert not sandbox.is_open


@needs_sandbox
def test_sandbox_may_not_have_more_memory_than_it_is_given():
    most = usual_memory()
    assert "MemoryError" in str(failure(escapes.reserve, most))
    with Graph(workers=1):
        assert escapes.reserve(most // 2).result() == most // 2


def test_sandbox_runs_the_code_whose_hash_its_keys_are_bound_to(tmp_path):
    file = tmp_path / "changing.py"
    file.write_text("# coding: latin-1\nfound, name = 'as it was', __name__\n")
    code = file.read_bytes()
    file.write_text("found = 'changed meanwhile'\n")
    try:
        module = load_code("changing_code", str(file), code)
    finally:
        del sys.modules["changing_code"]
    assert (module.found, module.name, module.__file__) == ("as it was", "changing_code", str(file))


# Other isolation


def test_process_isolation_runs_in_another_process():
    found = np.zeros(1)
    with Graph(workers=1):
        escapes.in_process(found)
    assert found[0] not in (0, os.getpid())


def test_isolation_is_opened_once_by_threads_that_need_it_at_the_same_time(monkeypatch):
    opened, found, threads = [], [], []

    def open_isolation(options, graph):
        opened.append(Place(1))
        if len(opened) == 1:
            threads.append(threading.Thread(target=look))
            threads[0].start()
            threads[0].join(0.1)  # it ends at once if nothing keeps it from opening another
        return opened[-1]

    def look():
        found.append(g._place_of(escapes.in_process))

    monkeypatch.setattr("foretell.tasks.isolation.open_isolation", open_isolation)
    with Graph(workers=1) as g:
        look()
        threads[0].join()
    assert found == [opened[0]] * 2


def test_process_isolation_refuses_arguments_that_share_memory():
    array = np.zeros(4)
    with Graph(workers=1) as g:
        with pytest.raises(UsageError, match="another argument"):
            escapes.in_process_too(array[:3], array[1:])
        escapes.in_process_too(array, same(array))
        with pytest.raises(ExceptionGroup) as caught:
            g.wait()
    assert "another argument" in str(caught.value.exceptions[0])
    assert array.tolist() == [0] * 4


@task()
def same(x):
    return x


def test_processes_are_not_forked_beside_the_key_of_an_owner():
    with pytest.raises(UsageError, match="inherit"), Graph(on="processes", owner=OwnerKey()):
        pass
    with Graph(workers=1, owner=OwnerKey()):
        with pytest.raises(UsageError, match="inherit"):
            escapes.in_process(np.zeros(1))
        with pytest.raises(UsageError, match="inherit"), Graph(on="processes"):
            pass


def test_enclave_is_never_replaced_by_less_unless_that_is_allowed():
    with Graph(workers=1):
        with pytest.raises(EnclaveMissing, match=r"SGX device|Gramine|tested way"):
            escapes.in_enclave()
        if not missing:
            assert escapes.in_enclave_or_sandbox(1).result() == 2


@needs_sandbox
def test_task_that_allows_a_sandbox_opens_none_for_one_that_needs_an_enclave():
    with Graph(workers=1):
        assert escapes.in_enclave_or_sandbox(1).result() == 2
        with pytest.raises(EnclaveMissing):
            escapes.in_enclave()
        assert escapes.in_enclave_or_sandbox(2).result() == 3


def test_system_without_restrictions_is_refused_and_they_are_named(monkeypatch):
    monkeypatch.setattr(confine, "landlock_version", lambda: 0)
    found = confine.missing_restrictions()
    assert any("Landlock" in name for name in found)
    with Graph(workers=1), pytest.raises(SandboxMissing, match="Landlock"):
        escapes.multiply(3)


ELSEWHERE = """
import ctypes, sys
sys.modules["fcntl"] = sys.modules["resource"] = None  # importing them fails

class CDLL(ctypes.CDLL):
    def __init__(self, name, *given, **options):
        if name is None:
            raise TypeError("bad argument")
        super().__init__(name, *given, **options)

ctypes.CDLL = CDLL
from types import SimpleNamespace
from foretell.tasks import Graph, SandboxMissing, task
from foretell.tasks.isolation import confine
confine.sys = SimpleNamespace(platform="win32")

@task(isolation="sandbox")
def apart(): ...

try:
    with Graph(workers=1):
        apart()
except SandboxMissing as error:
    print("told:", error)
"""


def test_system_that_knows_no_limits_and_no_such_calls_is_told_what_it_lacks(launch, tmp_path):
    (tmp_path / "program.py").write_text(ELSEWHERE)
    run = launch(sys.executable, "program.py")
    assert run.wait() == 0, run.text
    assert "told: this system cannot confine a task: it lacks Landlock and seccomp" in run.text


def test_reports_say_what_a_sandbox_protects_from_and_what_not():
    def main():
        with Graph(workers=1):
            escapes.multiply(3)
            escapes.in_enclave_or_sandbox(3)

    class Second:
        target, columns, ranges, categories, has_intervals = "time_s", ["label"], {}, {}, False

        def outlook(self, frame, probabilities):
            values = np.ones(len(frame))
            trust = np.full(len(frame), "inside", dtype=object)
            return Outlook(values, Quantiles(probabilities, np.ones((len(frame), 2))), trust)

    found = foresee(main, model={"multiply": Second(), "in_enclave_or_sandbox": Second()},
                    workers=1, overhead_s=0.0)  # fmt: skip
    assert PROTECTION in str(found)
    assert "not an enclave" in PROTECTION
    assert "no attestation" in PROTECTION


@needs_sandbox
def test_traces_name_what_a_task_ran_in_and_not_what_it_asked_for(tmp_path):
    with Graph(workers=1) as g:
        escapes.in_enclave_or_sandbox(3)
    g.trace(tmp_path / "run.csv")
    assert pd.read_csv(tmp_path / "run.csv")["isolation"].tolist() == ["sandbox"]
