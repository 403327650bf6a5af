"""The runner seen from outside: start it, exchange messages with it, and end all of it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from foretell.measure.running.printed import Printed
from foretell.measure.sweep import Sweep
from foretell.measure.workloads import Workload
from foretell.statuses import Status

_GRACE_S = 0.5
_MOST_OUTPUT = 4000  # bytes of what a failed job printed that are logged
_MOST_KEPT = 1 << 20


class Failure(Exception):  # noqa: N818 - it is a result, not a mistake
    """A run went wrong."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class RunnerProcess:
    """The process that makes runs, the pipes to it, and a folder for files of its runs."""

    def __init__(self, sweep: Sweep, workload: Workload) -> None:
        self._printed = Printed(_MOST_KEPT)
        self._printed_before = 0
        self._scratch = Path(tempfile.gettempdir(), f"foretell-{secrets.token_hex(8)}")
        reader, writer = os.pipe()
        self._answers = reader
        self._pending = b""
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            # -P: a module in the user's directory must not be taken for one of ours.
            [
                *(sys.executable, "-P", "-m", "foretell.measure.running.runner"),
                *(str(writer), str(os.getpid()), str(self._scratch)),
            ],
            stdin=subprocess.PIPE,
            stdout=self._printed.file,
            stderr=subprocess.STDOUT,
            pass_fds=(writer,),
            start_new_session=True,  # so that all it starts can be ended together
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        os.close(writer)
        self._send({"workload": sweep.workload, "folder": str(workload.folder)})

    @property
    def pid(self) -> int:
        """The process id of the runner."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def request(self, message: Mapping[str, Any]) -> None:
        """Ask for a run."""
        self._printed_before = self._printed.n_bytes
        self._send(message)

    def say_go(self) -> None:
        """Let the runner go on."""
        self._write(b"\n")

    def _send(self, message: Mapping[str, Any]) -> None:
        self._write((json.dumps(message) + "\n").encode())

    def _write(self, content: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(content)
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def receive(self, deadline: float) -> dict[str, Any] | None:
        """Return the next message, or None if there is none until then."""
        self._printed.trim()  # here, because this is called again and again during a job
        while b"\n" not in self._pending:
            wait_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._answers], [], [], wait_s)[0]:
                if not self.is_alive:  # and a child of the job holds the pipe open
                    raise self._ended()
                return None
            part = os.read(self._answers, 1 << 16)
            if not part:
                raise self._ended()
            self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _ended(self) -> Failure:
        try:
            status = self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            return Failure(Status.FAILED, "the process of the job closed its pipe")
        if status < 0:
            return Failure(Status.FAILED, f"the process of the job was ended by signal {-status}")
        lines = self.printed().strip().splitlines()
        return Failure(
            Status.FAILED, lines[-1] if lines else f"the process of the job exited with {status}"
        )

    def printed(self) -> str:
        """Return the end of what was printed since the last request."""
        return self._printed.end(_MOST_OUTPUT, since=self._printed_before)

    def end_leftovers(self) -> None:
        """End what a job has left running: it would disturb the next one."""
        _kill(self._family())

    def stop(self) -> None:
        """End the process and all that it started, even what left its group or lost its parent."""
        family = self._family()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        _kill(family)

    def _family(self) -> list[psutil.Process]:
        try:
            return list(psutil.Process(self.pid).children(recursive=True))
        except psutil.Error:
            return []

    def close(self) -> None:
        """Close the pipe, and make sure that nothing is left."""
        assert self._process.stdin is not None
        family = self._family()
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        self.stop()
        _kill(family)
        self._process.wait()
        os.close(self._answers)
        self._printed.close()
        shutil.rmtree(self._scratch, ignore_errors=True)


def _kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
