"""Sandboxes: real tasks that try to escape, and data that stay sealed."""

import ctypes
import os
import socket
import subprocess
import sys
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
)
from foretell.tasks.declare import PROTECTION
from foretell.tasks.isolation import confine
from foretell.tasks.isolation.sandbox import Sandbox
from foretell.tasks.isolation.worker import ANSWER, REFUSED

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
    assert isinstance(failure(escapes.use_32_bit_calls), WorkerLost)


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
    sandbox = Sandbox(escapes.__name__, Path(escapes.__file__).resolve())
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
def test_changed_sealed_input_is_refused_by_the_worker():
    owner = OwnerKey()
    sealed = owner.seal(np.ones(4))
    changed = Sealed(sealed.content[:-1] + bytes([sealed.content[-1] ^ 1]))
    error = failure(escapes.sealed_sum, changed, sealed, owner=owner)
    assert "IntegrityError" in str(error)


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
        sandbox = Sandbox(escapes.__name__, Path(escapes.__file__).resolve())
        honest = sandbox._receive.add
        sandbox._receive.add = lambda frame, meddle=meddle, honest=honest: honest(meddle(frame))
        with pytest.raises(IntegrityError):
            sandbox.call(escapes.multiply, (3,))
        assert not sandbox.is_open
    sandbox = Sandbox(escapes.__name__, Path(escapes.__file__).resolve())
    honest, kept = sandbox._receive.add, []

    def replay(frame):
        kept.append(frame)
        return honest(kept[0])

    sandbox._receive.add = replay
    sandbox.call(escapes.multiply, (3,))
    with pytest.raises(IntegrityError):
        sandbox.call(escapes.multiply, (4,))
    assert not sandbox.is_open


# Other isolation


def test_process_isolation_runs_in_another_process():
    found = np.zeros(1)
    with Graph(workers=1):
        escapes.in_process(found)
    assert found[0] not in (0, os.getpid())


def test_enclave_is_never_replaced_by_less_unless_that_is_allowed():
    with Graph(workers=1):
        with pytest.raises(EnclaveMissing, match=r"SGX device|Gramine|tested way"):
            escapes.in_enclave()
        if not missing:
            assert escapes.in_enclave_or_sandbox(1).result() == 2


def test_system_without_restrictions_is_refused_and_they_are_named(monkeypatch):
    monkeypatch.setattr(confine, "landlock_version", lambda: 0)
    found = confine.missing_restrictions()
    assert any("Landlock" in name for name in found)
    with Graph(workers=1), pytest.raises(SandboxMissing, match="Landlock"):
        escapes.multiply(3)


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
