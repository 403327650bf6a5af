"""Helpers for tests that run, watch and kill real processes."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

#: Nothing here takes so long; it only keeps a failure from hanging.
PATIENCE_S = 60


class Run:
    """A command in a process group of its own, with its output in files."""

    def __init__(self, command, directory, *, most_file_bytes=None):
        def limit():  # pragma: no cover - runs between fork and exec
            if most_file_bytes is not None:
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_file_bytes, hard))

        self._output = directory / f"output-{time.monotonic_ns()}"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=limit,
            )

    @property
    def text(self):
        """All that was printed so far."""
        return self._output.read_text()

    def members(self):
        """Return the processes of the group that still run, the command's own among them."""
        return [pid for pid in _pids() if _group_of(pid) == self.process.pid]

    def reaches(self, condition):
        """Wait until a condition holds; return False when the command ends before."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"nothing happened for long: {self.text}"
            time.sleep(0.001)
        return True

    def kill(self):
        """Kill the command, and it alone; return whether it was still running."""
        self.process.send_signal(signal.SIGKILL)
        return self.wait() == -signal.SIGKILL

    def interrupt(self):
        """Do what Ctrl-C does: interrupt every process of the group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def wait(self):
        """Wait for the end; return the exit code."""
        return self.process.wait(PATIENCE_S)

    def leaves_nobody_behind(self):
        """Whether all processes of the group end, within a moment."""
        deadline = time.monotonic() + PATIENCE_S / 6
        while self.members() and time.monotonic() < deadline:
            time.sleep(0.01)
        return not self.members()

    def close(self):
        """End whatever still runs."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)


def _pids():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _group_of(pid):
    """Return the group of a process that runs; None when it is gone, or only waits for burial."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, _parent, group = stat.rpartition(")")[2].split()[:3]
    return None if state in "ZX" else int(group)


@pytest.fixture
def launch(tmp_path):
    """Start commands that are surely ended when the test is."""
    runs = []

    def start(*command, directory=tmp_path, **options):
        runs.append(Run(command, directory, **options))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


@pytest.fixture
def foretell(launch):
    """Start `foretell` with some arguments."""

    def start(*arguments, **options):
        return launch(sys.executable, "-m", "foretell", *arguments, **options)

    return start
