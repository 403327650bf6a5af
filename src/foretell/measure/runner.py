"""The process in which runs are made: it loads the workload, and runs when it is told to.

It speaks with its supervisor in lines of JSON: requests come on standard input; *ready*, *begin*,
*end* and the answer go out on a pipe of their own, for the job may print what it likes. Before the
job begins it waits for a word, so that all meters start at the same moment.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from foretell.measure.workloads import RunFailedError, Watch, Workload, load_workload

_PARENT_POLL_S = 0.5


def main() -> None:
    """Serve requests until the supervisor hangs up."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    # The job must not read what is meant for us.
    requests = os.fdopen(os.dup(0), "r")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    answers = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    channel = _Channel(requests, answers)
    setup = channel.receive()
    workload = load_workload(setup["workload"], Path(setup["folder"]))
    while (request := channel.receive()) is not None:
        channel.send({"answer": _answer(workload, request, channel)})


def _end_with(parent: int) -> None:
    """End this process and all it started when its supervisor is gone, even by kill -9."""
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_S)
    os.killpg(os.getpgid(0), signal.SIGKILL)


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
        """Say that the job is about to begin, and wait for the word."""
        self.send({"event": "begin"})
        self._requests.readline()

    def end(self, watch: Watch) -> None:
        """Say that the job has ended, and wait until it is measured."""
        self.send({"event": "end", "child_peak_bytes": watch.child_peak_bytes})
        self._requests.readline()


def _answer(workload: Workload, request: Mapping[str, Any], channel: _Channel) -> dict[str, Any]:
    watch = Watch(channel.begin, channel.end, Path(request["scratch"]))
    status, reason, numbers = "ok", "", {}
    try:
        numbers = _checked(_run(workload, request["configuration"], watch))
    except RunFailedError as error:
        status, reason = "failed", str(error)
    except MemoryError:
        status, reason = "out of memory", "the job asked for more memory than there is"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a job may raise anything, SystemExit among it
        traceback.print_exc()
        text = str(error).strip().splitlines()
        status, reason = "failed", f"{type(error).__name__}: {text[0] if text else 'no reason'}"
    return {
        "status": status,
        "reason": reason,
        "wall_time_s": watch.wall_time_s,
        "stages_s": watch.stages_s,
        "numbers": numbers,
    }


def _run(workload: Workload, configuration: Mapping[str, Any], watch: Watch) -> Any:
    if workload.times_itself:
        return workload.run(configuration, watch)
    with watch.job():
        return workload.run(configuration, watch)


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
