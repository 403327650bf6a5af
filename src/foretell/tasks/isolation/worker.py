"""The process of a sandbox: confines itself, loads one module, and runs its tasks."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import socket
import sys
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

READY, CALL, ANSWER, REFUSED = 1, 2, 3, 4
#: The exit code of a worker that cannot hold what it receives.
NO_MEMORY = 12
#: What is read at once, so that a small message takes one call.
READ_BYTES = 2**16


def main(descriptor: int) -> None:
    """Serve the other end of a socket until it is closed."""
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    channel = socket.socket(fileno=descriptor)
    asked = json.loads(_line(channel))
    sys.path[:] = asked["path"]
    # Before the confinement: what these load and look up is no business of the task's.
    import foretell.tasks.graph  # noqa: F401
    from foretell.tasks.isolation import confine, sealing

    pair = sealing.KeyPair()
    channel.sendall(pair.public)
    other = _exactly(channel, 32)
    _warm_up(sealing)
    version = confine.landlock_version()
    listener = confine.confine([Path(p) for p in asked["read"]], asked["memory_bytes"])
    socket.send_fds(channel, [b"!"], [listener])
    os.close(listener)
    confine.forbid_sending()
    code = Path(asked["file"]).read_bytes()
    code_hash = hashlib.sha256(code).digest()
    keys = pair.shared(other, bytes.fromhex(asked["exchange"]), code_hash)
    receive = sealing.FrameReader(sealing.Cipher(keys[0], 0))
    send = sealing.Cipher(keys[1], 1)
    server = _Server(descriptor, receive, send, sealing)
    try:
        module = load_code(asked["module"], asked["file"], code)
    except Exception as error:
        server.answer(0, READY, {"error": f"{type(error).__name__}: {error}"})
        os._exit(1)
    server.answer(0, READY, {"landlock": version})
    server.serve(module)


def _warm_up(sealing: Any) -> None:
    """Load what encryption needs while that is allowed."""
    owner = sealing.OwnerKey()
    owner.open(owner.seal(0))
    pair = sealing.KeyPair()
    pair.shared(pair.public, b"", b"")


def load_code(name: str, file: str, code: bytes) -> ModuleType:
    """Load a module from the bytes that keys are bound to: its file may change meanwhile."""
    name = "__foretell_main__" if name == "__main__" else name
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(code, file, "exec", dont_inherit=True), vars(module))  # noqa: S102
    return module


class _Server:
    def __init__(self, descriptor: int, receive: Any, send: Any, sealing: Any) -> None:
        self._descriptor, self._receive, self._send = descriptor, receive, send
        self._sealing = sealing
        self._received = bytearray()

    def serve(self, module: ModuleType) -> None:
        try:
            while (found := self._next()) is not None:
                task, _, asked = found
                self.answer(task, ANSWER, self._run(module, asked))
        except self._sealing.IntegrityError as error:
            self.answer(0, REFUSED, str(error))
        except MemoryError:
            os._exit(NO_MEMORY)
        os._exit(0)  # what Python does at its end is forbidden here

    def _run(self, module: ModuleType, asked: dict[str, Any]) -> dict[str, Any]:
        from foretell.tasks.running.copies import (
            run_copied,  # which is loaded before the confinement
        )

        values = None
        is_sealed = asked["result"] is not None
        try:
            function: Any = reduce(getattr, asked["name"].split("."), module)
            values = self._opened(asked["values"], asked["keys"])
            result, changes = run_copied(function, values)
            if is_sealed:
                key = self._sealing.ValueKey(*asked["result"])
                return {"sealed": key.seal(result).content}
            found = {"result": result, "changes": changes}
            self._sealing.pack(found)  # what cannot be sent is an error of the task
            return found
        except Exception as error:
            if values is None and isinstance(error, self._sealing.IntegrityError):
                raise  # an argument was changed, which is no error of the task
            names = [kind.__name__ for kind in type(error).__mro__]
            # The text of an error of a sealed task may hold its data; the other end checks names.
            return {"error": names, "text": "" if is_sealed else str(error)}

    def _opened(self, values: list[Any], keys: list[Any]) -> list[Any]:
        sealing = self._sealing
        return [
            value if key is None else sealing.ValueKey(*key).open(sealing.Sealed(value))
            for value, key in zip(values, keys, strict=True)
        ]

    def _next(self) -> tuple[int, int, Any] | None:
        while True:
            length = self._read(4)
            if length is None:
                return None
            frame = self._read(self._sealing.frame_length(length))
            if frame is None:
                return None
            found: tuple[int, int, Any] | None = self._receive.add(frame)
            if found is not None:
                return found

    def _read(self, n: int) -> bytes | None:
        found = self._received
        while len(found) < n:
            part = os.read(self._descriptor, max(n - len(found), READ_BYTES))
            if not part:
                return None
            found += part
        taken = bytes(found[:n])
        del found[:n]
        return taken

    def answer(self, task: int, kind: int, value: Any) -> None:
        sealing = self._sealing
        for some in sealing.gathered(sealing.frames(self._send, task, kind, value)):
            left = memoryview(some)
            while left:
                left = left[os.write(self._descriptor, left) :]


def _line(channel: socket.socket) -> bytes:
    found = bytearray()
    while not found.endswith(b"\n"):
        found += _exactly(channel, 1)
    return bytes(found)


def _exactly(channel: socket.socket, n: int) -> bytes:
    found = bytearray()
    while len(found) < n:
        part = channel.recv(n - len(found))
        if not part:
            raise EOFError
        found += part
    return bytes(found)
