"""A driver of Spark in a process of its own, as the one who starts it sees it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretell.closeable import Closeable

_CHUNK_BYTES = 65_536
_END_S = 10.0


@dataclass(frozen=True)
class DriverOptions:
    """How a driver is started.

    Attributes
    ----------
    properties
        Properties of Spark, such as ``spark.master``.
    environment
        What its environment has more than ours.
    folder
        The directory in which it runs; jobs may import modules from there.
    log
        The file for what it and Spark print between jobs.
    """

    properties: Mapping[str, str]
    log: Path
    folder: Path = Path()
    environment: Mapping[str, str] = field(default_factory=dict)


class DriverProcess(Closeable):
    """A driver that was started; it ends when it is closed, and when this process does."""

    def __init__(self, options: DriverOptions) -> None:
        ours, theirs = socket.socketpair()
        self._channel = ours
        self._unread = b""
        self._listening = threading.Lock()
        self._has_session = False
        with theirs, options.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "foretell.adapters.spark.driver", str(theirs.fileno())],
                cwd=options.folder,
                env=_environment(options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C on the terminal is for the dispatcher
            )
        self._log = options.log
        self._send(dict(options.properties))

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def run(self, order: Mapping[str, Any]) -> None:
        """Tell it to run a function."""
        self._send({"do": "run", **order})

    def cancel(self) -> None:
        """Tell it to end what it runs."""
        self._send({"do": "cancel"})

    def hear(self, timeout_s: float | None = None) -> dict[str, Any] | None:
        """Return what it says next; None if that is nothing until then.

        Raises an EOFError when it is gone.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._listening:
            while b"\n" not in self._unread:
                left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not self._receive(left_s):
                    return None
            line, _, self._unread = self._unread.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        self._has_session = self._has_session or said["event"] == "ready"
        return said

    def _receive(self, timeout_s: float | None) -> bool:
        """Take what comes in; say whether something did."""
        if self._channel.fileno() >= 0:
            if not select.select([self._channel], [], [], timeout_s)[0]:
                return False
            with suppress(ConnectionError):
                if chunk := self._channel.recv(_CHUNK_BYTES):
                    self._unread += chunk
                    return True
        raise EOFError(self._epitaph())

    def close(self) -> None:
        """Let it end its session, or what it runs at once; then kill all that is left of it.

        That is the JVM, and the workers in Python.
        """
        if self._has_session:
            with suppress(OSError):
                self._channel.shutdown(socket.SHUT_WR)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        self.kill()
        self._process.wait()
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)  # another thread may be listening
        with self._listening:
            self._channel.close()

    def kill(self) -> None:
        """End it at once, with all in its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _send(self, message: Mapping[str, Any]) -> None:
        with suppress(OSError):  # one that is gone is noticed when it should answer
            self._channel.sendall(json.dumps(message).encode() + b"\n")

    def _epitaph(self) -> str:
        """Say how it ended."""
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return "the driver of Spark does not answer"
        how = f"exited with {code}"
        if code < 0:
            how = f"was ended by signal {-code} ({signal.Signals(-code).name})"
        return f"the driver of Spark {how}; {self._log} has what it printed"


def _environment(options: DriverOptions) -> dict[str, str]:
    paths = [str(options.folder.absolute()), *filter(None, sys.path)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **options.environment,
    }
