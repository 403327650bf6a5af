"""The engine that runs each job as a command in a session of its own.

A small shell runs the command and writes down how it ended, so that this is known even if the
dispatcher is killed meanwhile. To cut a job short, its processes are killed and the shell is not:
it still tells whether the command had already ended well.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pydantic

from foretell.adapters.dispatcher.engines._base import (
    Engine,
    EngineLostError,
    Outcome,
    Running,
    Setting,
)  # fmt: skip
from foretell.adapters.dispatcher.jobs import Job
from foretell.adapters.dispatcher.processes import JOB_MARK, end_all, marked, signal_all
from foretell.errors import UsageError
from foretell.files.typed import validated

#: Arguments: the file for its own id, that for the exit code, that for what is printed; a command.
_SHELL = (
    'echo $$ >"$1"; outcome=$2 output=$3; shift 3; "$@" </dev/null >"$output" 2>&1; '
    'code=$?; echo "$code" >"$outcome"; exit "$code"'
)
_MOST_SHOWN = 4_000  # bytes at the end of what a failed job printed


class Options(pydantic.BaseModel):
    """What [run.settings] may say about commands: variables to add to their environment."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    environment: dict[str, str] = {}


class CommandEngine(Engine):
    """Runs jobs whose ``run`` is a list: a program and its arguments."""

    can_pause = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._options = validated(Options, setting.options, "run", "settings")

    def check(self, run: list[str] | str) -> None:
        """Raise a UsageError if this is not a list."""
        if isinstance(run, str):
            raise UsageError(
                f"run: must be a list, as the engine is 'command', not {run!r}; "
                f"write {json.dumps(shlex.split(run) if _is_plain(run) else [run])}"
            )

    def start(self, job: Job, drop: float, seed: int) -> Running:
        """Start the command."""
        setting = self.setting
        setting.result(job).unlink(missing_ok=True)
        files = [self._shell_id(job), setting.outcome(job), setting.output(job)]
        try:
            process = subprocess.Popen(  # noqa: S603 - running commands is its purpose
                ["/bin/sh", "-c", _SHELL, "sh", *map(str, files), *job.run],
                cwd=setting.folder or None,
                env=self._environment(job, drop, seed),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C on the terminal is for the dispatcher
            )
        except OSError as error:
            raise EngineLostError(f"no process can be started: {error.strerror}") from None
        return _Command(process, self._marks(job), setting.output(job))

    def recover(self, jobs: Sequence[Job]) -> dict[str, Outcome]:
        """End the commands that still run, and read how the others ended."""
        found: dict[str, Outcome] = {}
        for job in jobs:
            n_cut = end_all(self._marks(job), _read_id(self._shell_id(job)))
            outcome = _read_outcome(self.setting.outcome(job), self.setting.output(job))
            if outcome is not None and (outcome.is_done or not n_cut):
                found[job.id] = outcome
        return found | super().recover(jobs)

    def close(self) -> None:
        """Release nothing: each job has a process of its own."""

    def _shell_id(self, job: Job) -> Path:
        return self.setting.folder_of(job) / f"shell-{job.attempt}"

    def _marks(self, job: Job) -> dict[str, str]:
        return {**self.setting.marks, JOB_MARK: job.id}

    def _environment(self, job: Job, drop: float, seed: int) -> dict[str, str]:
        return {
            **os.environ,
            **self._options.environment,
            **self._marks(job),
            "FORETELL_CLASS": job.class_name,
            "FORETELL_DROP": repr(drop),
            "FORETELL_SEED": str(seed),
            "FORETELL_RESULT": str(self.setting.result(job)),
            "FORETELL_ARGUMENTS": json.dumps(job.arguments),
        }


class _Command(Running):
    """A command that runs, and the shell around it."""

    def __init__(
        self, process: subprocess.Popen[bytes], marks: Mapping[str, str], output: Path
    ) -> None:
        self._process, self._marks, self._output = process, marks, output
        self._burial = threading.Lock()

    @property
    def pids(self) -> list[int]:
        return [p.pid for p in marked(self._marks)]

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        if timeout_s is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return None
        return self._bury()

    def kill(self) -> Outcome | None:
        n_cut = end_all(self._marks, [self._process.pid])
        outcome = self._bury()
        return outcome if outcome.is_done or not n_cut else None

    def _bury(self) -> Outcome:
        """Wait for the shell, and end what the job left in the background of its session."""
        process = self._process
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._burial:
            if process.returncode is None:  # until it is buried, nobody else gets its id
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            return _outcome(process.wait(), self._output)

    def pause(self) -> None:
        seen = -1  # until all are stopped: one that still ran may have started another
        while (n := signal_all(self._marks, signal.SIGSTOP, [self._process.pid])) != seen:
            seen = n

    def go_on(self) -> None:
        signal_all(self._marks, signal.SIGCONT, [self._process.pid])


def _outcome(code: int, output: Path, ended_at: float | None = None) -> Outcome:
    if code == 0:
        return Outcome(True, ended_at=ended_at)
    # A shell adds 128 to the number of the signal that ended a command.
    number = -code if code < 0 else code - 128
    ended = f"exited with {code}"
    if number in set(signal.Signals):
        ended = f"was ended by signal {number} ({signal.Signals(number).name})"
    lines = _last_lines(output)
    return Outcome(False, f"{ended}: {lines[-1]}" if lines else ended, ended_at)


def _read_outcome(file: Path, output: Path) -> Outcome | None:
    """Read what the shell wrote down; None if it did not get that far."""
    try:
        code = int(file.read_text())
        return _outcome(code, output, file.stat().st_mtime)
    except (OSError, ValueError):
        return None


def _last_lines(output: Path) -> list[str]:
    try:
        with output.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_SHOWN))
            return file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return []


def _read_id(file: Path) -> list[int]:
    """Return the id that a shell wrote down; none if it did not get that far."""
    with contextlib.suppress(OSError, ValueError):
        return [int(file.read_text())]
    return []


def _is_plain(text: str) -> bool:
    try:
        return bool(shlex.split(text))
    except ValueError:
        return False
