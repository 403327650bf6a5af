"""Sandboxes: confined processes that run tasks; a software stand-in, and not an enclave."""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from foretell import _version
from foretell.errors import ForetellError, Option, UsageError
from foretell.tasks.declare import TaskFunction
from foretell.tasks.isolation.confine import missing_restrictions, system_call_name
from foretell.tasks.isolation.sealing import (
    Cipher,
    FrameReader,
    IntegrityError,
    KeyPair,
    OwnerKey,
    Sealed,
    ValueKey,
    frame_length,
    frames,
    gathered,
    require_cryptography,
)
from foretell.tasks.isolation.worker import CALL, NO_MEMORY, READ_BYTES, READY, REFUSED
from foretell.tasks.running.copies import Written, check_sendable
from foretell.tasks.running.places import Place, WorkerLost, check_apart, check_importable

_NOTIFICATION = 0xC0502100  # receive the next one
_NOTIFICATION_BYTES = 80
_START_S = 60.0
_LEAST_MEMORY = 2**32
#: The names of errors that are shown of sealed tasks.
_KNOWN = {
    name
    for name, one in vars(builtins).items()
    if isinstance(one, type) and issubclass(one, BaseException)
} | {IntegrityError.__name__}


class SandboxMissing(ForetellError):  # noqa: N818 - it tells what is missing
    """This system cannot impose the restrictions of a sandbox."""


class TaskError(ForetellError):
    """What a task in another process raised, by name."""


def check_system() -> None:
    """Raise a SandboxMissing that names the restrictions that this system lacks."""
    require_cryptography()
    missing = missing_restrictions()
    if missing:
        raise SandboxMissing(
            f"this system cannot confine a task: it lacks {'; '.join(missing)}. Use "
            "isolation='process', which protects nothing, or another machine."
        )


def usual_memory() -> int:
    """Return how much memory a sandbox may have: half of this machine's, or 4 GiB if that is more.

    It is counted in addresses, of which libraries reserve more than they use.
    """
    return max(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2, _LEAST_MEMORY)


def library_paths() -> Iterator[Path]:
    """Return what a sandbox may read: the interpreter, its libraries and foretell."""
    import cryptography
    import numpy as np

    # The folder of foretell is there for an installation from its sources.
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield Path(sysconfig.get_path(name))
    yield Path(sys.base_prefix) / "lib"
    for file in (np.__file__, cryptography.__file__, _version.__file__):
        yield Path(file).parents[1]
    yield from map(Path, ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"))
    yield from map(Path, ("/dev/null", "/dev/urandom", "/usr/share/zoneinfo"))


class Sandbox:
    """A confined process that runs the tasks of one module.

    If they are sealed, a result that is not is refused, and of an error only a built-in name is
    shown: what the process sends may be what a task chose.
    """

    def __init__(
        self, module: str, file: Path, memory_bytes: int | None = None, *, is_sealed: bool = False
    ) -> None:
        check_system()
        self._is_sealed = is_sealed
        self.file = file
        self._n_calls = 0
        self._received = bytearray()
        path = [p for p in sys.path if p]
        self._asked: dict[str, Any] = {
            "module": module,
            "file": str(file),
            "path": path,
            "read": [str(p) for p in dict.fromkeys([*library_paths(), file]) if p.exists()],
            "memory_bytes": usual_memory() if memory_bytes is None else memory_bytes,
            "exchange": os.urandom(16).hex(),
        }
        self._socket, theirs = socket.socketpair()
        code = f"from foretell.tasks.isolation.worker import main; main({theirs.fileno()})"
        source = Path(__file__).parents[3]
        start = f"import sys; sys.path[:] = {[*path, str(source)]!r}; {code}"
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-I", "-B", "-c", start],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._listener = -1

    def start(self) -> Self:
        """Exchange keys and have the module loaded; meanwhile another thread can end it."""
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _start(self) -> None:
        pair = KeyPair()
        self._socket.settimeout(_START_S)
        try:
            self._socket.sendall(json.dumps(self._asked).encode() + b"\n")
            other = self._socket.recv(32, socket.MSG_WAITALL)
            self._socket.sendall(pair.public)
            _, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
        except OSError as error:
            raise WorkerLost(f"the sandbox of {self.file} did not start: {error}") from None
        if len(other) < 32 or not descriptors:
            raise WorkerLost(f"the sandbox of {self.file} did not start: it {self._end()}")
        (self._listener,) = descriptors
        self._socket.settimeout(None)
        code_hash = hashlib.sha256(self.file.read_bytes()).digest()
        keys = pair.shared(other, bytes.fromhex(self._asked["exchange"]), code_hash)
        self._send = Cipher(keys[0], 0)
        self._receive = FrameReader(Cipher(keys[1], 1), self._asked["memory_bytes"])
        told = self._answer(f"the module {self.file}", 0, READY)
        if "error" in told:
            raise UsageError(
                f"{self.file} cannot be loaded in a sandbox: {told['error']}. It may read the "
                "interpreter, installed libraries and this file."
            )

    def call(
        self, function: TaskFunction, values: tuple[Any, ...], owner: OwnerKey | None = None
    ) -> tuple[Any, list[Any]]:
        """Run a task; return its result and what it changed. A lost worker is not replaced."""
        self._n_calls += 1
        name = f"task '{function.label}'"
        result = None if owner is None else owner.key_of()
        asked = _asked(function, values, owner, result)
        try:
            for some in gathered(frames(self._send, self._n_calls, CALL, asked)):
                self._socket.sendall(some)
        except OSError:
            raise self._lost(name) from None
        found: Any = self._answer(name, self._n_calls, None)
        if result is not None:
            return self._sealed(found, name, result), []
        if "error" in found:
            text = f": {found['text']}" if found["text"] else ""
            raise TaskError(f"{name} raised {found['error'][0]}{text}")
        return found["result"], found["changes"]

    def _sealed(self, found: Any, name: str, key: ValueKey) -> Sealed:
        """Take a result that is sealed with a key; the task itself may have sent anything."""
        if isinstance(found, dict) and set(found) == {"error", "text"}:
            names = found["error"] if isinstance(found["error"], list) else []
            known = [one for one in names if isinstance(one, str) and one in _KNOWN]
            raise TaskError(f"{name} raised {known[0] if known else 'an error'}")
        content = found.get("sealed") if isinstance(found, dict) and len(found) == 1 else None
        if not isinstance(content, bytes) or not _opens(key, Sealed(content)):
            self.close()
            raise IntegrityError(f"{name}: its answer is not sealed; the channel is closed")
        return Sealed(content)

    def _answer(self, name: str, task: int, kind: int | None) -> Any:
        while True:
            found = self._part(name)
            if found is None:
                continue
            if found[1] == REFUSED:
                self.close()
                what = "something was wrong" if self._is_sealed else found[2]
                raise IntegrityError(f"{name}: in what its sandbox received, {what}")
            if found[0] != task or (kind is not None and found[1] != kind):
                self.close()
                raise IntegrityError(
                    f"{name}: an answer to another question; the channel is closed"
                )
            return found[2]

    def _part(self, name: str) -> tuple[int, int, Any] | None:
        """Read a frame; return task, type and value when it was the last of a value."""
        length = self._read(4, name)
        try:
            return self._receive.add(self._read(frame_length(length), name))
        except IntegrityError:
            self.close()
            if not self._is_sealed:
                raise
        # The number of a chunk is one that a task could choose.
        raise IntegrityError(f"{name}: an answer was changed or cut; the channel is closed")

    def _read(self, n: int, name: str) -> bytes:
        """Read from the process, and watch meanwhile whether it does what is forbidden."""
        found = self._received
        while len(found) < n:
            try:
                if not self._is_answered():
                    raise self._stopped(name)
                part = self._socket.recv(max(n - len(found), READ_BYTES))
            except (OSError, ValueError):  # closed meanwhile, by whoever interrupts
                raise self._lost(name) from None
            if not part:
                raise self._lost(name)
            found += part
        taken = bytes(found[:n])
        del found[:n]
        return taken

    def _is_answered(self) -> bool:
        """Wait for the process; return whether it has sent something, or else was stopped."""
        watched = select.poll()  # which takes descriptors of any number
        for place in (self._socket.fileno(), self._listener):
            watched.register(place, select.POLLIN)
        return self._socket.fileno() in dict(watched.poll())

    def _stopped(self, name: str) -> WorkerLost:
        """Name the forbidden system call, and kill the process that made it."""
        import fcntl  # which Windows has not

        told = bytearray(_NOTIFICATION_BYTES)
        try:
            fcntl.ioctl(self._listener, _NOTIFICATION, told, True)
        except OSError:  # the process has ended by itself
            return self._lost(name)
        (number,) = struct.unpack_from("i", told, 16)
        self.close()
        call = (
            "a system call" if self._is_sealed else f"the system call '{system_call_name(number)}'"
        )
        return WorkerLost(f"{name} was killed: it made {call}, which a sandbox does not allow")

    def _lost(self, name: str) -> WorkerLost:
        how = self._end()
        self.close()
        return WorkerLost(f"{name} was lost: its sandbox {how}; it is not run again")

    def _end(self) -> str:
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "hung up"
        if self._is_sealed:
            return "ended"
        if code == NO_MEMORY:
            return "ran out of memory"
        if code >= 0:
            return f"ended with code {code}"
        if -code == signal.SIGSYS:
            # The kernel does not tell which: these end a process without asking first.
            return "was killed by SIGSYS, for 'sendmsg', 'seccomp' or a call of another processor"
        return f"was killed by {signal.Signals(-code).name}"

    @property
    def is_open(self) -> bool:
        """Whether it can run another task."""
        return self._process.poll() is None and self._socket.fileno() >= 0

    def kill(self) -> None:
        """End the process from another thread; who waits for it learns of that."""
        self._process.kill()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._socket.close()
        if self._listener >= 0:
            with suppress(OSError):
                os.close(self._listener)
            self._listener = -1


def _asked(
    function: TaskFunction, values: tuple[Any, ...], owner: OwnerKey | None, result: ValueKey | None
) -> dict[str, Any]:
    """Describe a call; a sealed one brings keys of its own values, and not that of the owner."""
    keys = [
        owner.key_of(value) if owner is not None and isinstance(value, Sealed) else None
        for value in values
    ]
    return {
        "name": function.body.__qualname__,
        "values": [v.content if k else v for v, k in zip(values, keys, strict=True)],
        "keys": [None if key is None else (key.name, key.key) for key in keys],
        "result": None if result is None else (result.name, result.key),
    }


def _opens(key: ValueKey, sealed: Sealed) -> bool:
    try:
        key.open(sealed)
    except Exception:  # what it says, the task may have chosen
        return False
    return True


def _file_of(function: TaskFunction) -> Path:
    """Return the file of a task's module; raise a UsageError if there is none."""
    file = Path(function.body.__code__.co_filename)
    if not file.is_file():
        raise UsageError(
            f"task '{function.label}' is in no file, but in {file}, and a sandbox loads the file "
            "of a task; put it into a module, a file that ends with .py"
        )
    return file.resolve()


class Sandboxes(Place):
    """The sandboxes of a graph: one for each worker and module, started when it is needed.

    Sealed tasks have others than those whose results come back in the clear: a task may keep what
    it has seen.
    """

    def __init__(self, owner: OwnerKey | None) -> None:
        self._owner = owner
        self._found: dict[tuple[int, str, bool], Sandbox] = {}
        self._lock = threading.Lock()
        self._is_ending = False

    def check(self, function: TaskFunction, values: tuple[Any, ...]) -> None:
        """Raise an error if a call cannot run in a sandbox."""
        check_system()
        check_importable(function)
        _file_of(function)
        check_sendable(function, values)
        check_apart(function, values)
        if function.options.sealed:
            if self._owner is None:
                raise UsageError(
                    f"task '{function.label}' is sealed", remedy=("give its key with ",
                                                                 Option("owner")),
                )  # fmt: skip
            if function.write_places:
                raise UsageError(
                    f"task '{function.label}' is sealed: it must return what it computes, which "
                    "comes back sealed, and write nothing"
                )

    def call(self, function: TaskFunction, values: tuple[Any, ...], worker: int) -> Any:
        """Run a task in the sandbox of a worker."""
        check_apart(function, values)  # among them may be results, which were not known before
        sandbox = self._sandbox(function, worker)
        owner = self._owner if function.options.sealed else None
        here = Written(function, values)
        result, changes = sandbox.call(function, values, owner)
        here.bring_back(changes)
        return result

    def _sandbox(self, function: TaskFunction, worker: int) -> Sandbox:
        module, is_sealed = function.body.__module__, function.options.sealed
        with self._lock:
            found = self._found.get((worker, module, is_sealed))
        if found is None or not found.is_open:
            file = _file_of(function)
            found = Sandbox(module, file, is_sealed=is_sealed)
            with self._lock:
                self._found[worker, module, is_sealed] = found  # so that it can be ended
                is_ending = self._is_ending
            if is_ending:  # it was started while all were ended
                found.close()
                raise WorkerLost(f"task '{function.label}' was ended")
            found.start()
        return found

    def interrupt(self) -> None:
        """Kill what runs."""
        with self._lock:
            self._is_ending = True
            found = list(self._found.values())
        for sandbox in found:
            sandbox.kill()

    def close(self) -> None:
        """End all sandboxes."""
        for sandbox in self._found.values():
            sandbox.close()
