"""The process in which runs are made: it loads the workload, and makes each run on request.

It exchanges lines of JSON with its supervisor: requests come on standard input; *begin*, *end* and
the answer go out on a pipe of their own, because the job may print anything. Before the job begins
it waits for a line, so that all meters start at the same moment.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO, Any

import psutil

from foretell.measure.running.orphans import adopt_orphans
from foretell.measure.workloads import RunFailedError, Watch, Workload, load_workload
from foretell.statuses import Status

_GUARD_POLL_S = 0.5
_MOST_DESCRIPTORS = 1024


def main() -> None:
    """Serve requests until the supervisor closes the pipe."""
    scratch = Path(sys.argv[3])
    scratch.mkdir(mode=0o700)  # here, not by the supervisor: it is never without a guard
    _start_guard(int(sys.argv[2]), scratch)
    adopt_orphans()
    # The job must not read what is meant for us.
    requests = os.fdopen(os.dup(0), "r")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    answers = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    channel = _Channel(requests, answers)
    setup = channel.receive()
    workload = load_workload(setup["workload"], Path(setup["folder"]))
    while (request := channel.receive()) is not None:
        with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as own:
            answer = _answer(workload, request, Watch(channel.begin, channel.end, Path(own)))
        channel.send({"answer": answer})


def _start_guard(supervisor: int, scratch: Path) -> None:
    """Start a process that ends this one, and all it started, when the supervisor is gone.

    It also removes the folder that the supervisor would have removed. A thread would not do: a job
    may never let another thread run. The guard is not a child of this process, and in a group of
    its own, so that it is neither taken for a part of the job nor ended with it.
    """
    runner = psutil.Process()
    if os.fork():
        os.wait()
        return
    if os.fork():
        os._exit(0)
    os.setsid()
    os.closerange(0, _MOST_DESCRIPTORS)  # pipes that it held open would never end
    while psutil.pid_exists(supervisor):
        if not scratch.exists():  # the supervisor has removed it, and needs no guard
            os._exit(0)
        time.sleep(_GUARD_POLL_S)
    with suppress(psutil.Error, OSError):
        for process in runner.children(recursive=True):
            with suppress(psutil.Error):
                process.kill()
        os.killpg(runner.pid, signal.SIGKILL)  # it leads the group
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


class _Channel:
    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests, self._answers = requests, answers

    def receive(self) -> Any:
        line = self._requests.readline()
        return json.loads(line) if line else None

    def send(self, message: Mapping[str, Any]) -> None:
        self._answers.write(json.dumps(message) + "\n")
        self._answers.flush()

    def begin(self) -> None:
        """Say that the job is about to begin, and wait for the signal to go on."""
        self.send({"event": "begin"})
        self._requests.readline()

    def end(self, watch: Watch) -> None:
        """Say that the job has ended, and wait until it is measured."""
        self.send({"event": "end", "child_peak_bytes": watch.child_peak_bytes})
        self._requests.readline()


def _answer(workload: Workload, request: Mapping[str, Any], watch: Watch) -> dict[str, Any]:
    status, reason, numbers = Status.OK, "", {}
    try:
        with nullcontext() if workload.times_itself else watch.job():
            found = workload.run(request["configuration"], watch)
        numbers = _checked(found)
        if watch.wall_time_s is None:
            raise RunFailedError("the workload timed nothing; it must use watch.job()")
    except RunFailedError as error:
        status, reason = Status.FAILED, str(error)
    except MemoryError:
        status, reason = Status.OUT_OF_MEMORY, "the job asked for more memory than there is"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a job may raise anything, SystemExit included
        traceback.print_exc()
        text = str(error).strip().splitlines()
        reason = f"{type(error).__name__}: {text[0] if text else 'no reason'}"
        status = Status.FAILED
    return {
        "status": status,
        "reason": reason,
        "wall_time_s": watch.wall_time_s,
        "stages_s": watch.stages_s,
        "numbers": numbers,
    }


def _checked(numbers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what was measured as plain values, or raise RunFailedError."""
    plain: dict[str, Any] = {}
    for name, value in (numbers or {}).items():
        if isinstance(value, str | bool | int):
            plain[str(name)] = value
            continue
        try:
            plain[str(name)] = float(value)
        except (TypeError, ValueError):
            raise RunFailedError(
                f"'{name}' is a {type(value).__name__}; report numbers or texts"
            ) from None
    return plain


if __name__ == "__main__":
    main()
