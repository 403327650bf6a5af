"""The process that keeps a Spark session alive and runs one function after the other in it.

It is told what to run over a socket, one JSON object per line, and answers the same way. When the
socket closes, it ends: at once if something runs, for then the one who started it is gone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import IO, Any

import psutil

from foretell.errors import UsageError, error_lines, suggest

#: Local properties of Spark by which event logs tell the jobs of a queue apart.
JOB, CLASS, DROP, ARRIVED = "foretell.job", "foretell.class", "foretell.drop", "foretell.arrived"
#: When the function started, and which one ended when before it: Spark knows of its own jobs only.
STARTED, BEFORE = "foretell.started", "foretell.before"
#: What Spark forks its workers in Python from, where it can import that.
DAEMON = "foretell.adapters.spark.daemon"
_CANCEL_EVERY_S = 0.05
#: How long tasks of a job that ended may take to notice.
_LEAVE_S = 5.0
#: The last line of a traceback in Python.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)(:|$)")


def main() -> None:
    """Start a session with the properties in the first line, and run what the others say."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    lines = channel.makefile("r", encoding="utf-8")
    answers = channel.makefile("w", encoding="utf-8")
    try:
        session = _open_session(json.loads(lines.readline()))
    except Exception as error:
        _say(answers, event="unready", reason=_reason(error))
        return
    _say(answers, event="ready")
    orders = _Orders(session, lines)
    before = ""
    while (order := orders.next()) is not None:
        order["properties"] |= {STARTED: repr(time.time()), BEFORE: before}
        with orders.running():
            ended = run(session, order)
        before = f"{order['properties'][JOB]} {time.time()!r}"
        said = _conclude(session, orders, order, ended)
        _say(answers, event="ended", **said)
        if not said["is_alive"]:
            os._exit(1)  # py4j would wait for a gateway that is gone
    session.stop()  # so that its event log has an end


def _conclude(
    session: Any, orders: _Orders, order: Mapping[str, Any], ended: dict[str, Any]
) -> dict[str, Any]:
    """Write down how a function ended, unless it was cut, and wait for its tasks to end."""
    is_done, outcome = ended["is_done"], Path(order["outcome"])
    if is_done:  # at once: whoever is killed while tasks end must not run it again
        _write(outcome, json.dumps(ended))
    _settle(session)
    is_alive = _is_alive(session)
    if not is_alive and not is_done:
        ended["reason"] = f"Spark ended during the job ({ended['reason']})"
    was_cut = orders.is_canceled and not is_done
    if not is_done and not was_cut:
        _write(outcome, json.dumps(ended))
    return {**ended, "is_alive": is_alive, "was_cut": was_cut}


def _open_session(properties: Mapping[str, str]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks of pyspark on the versions of libraries
        from pyspark.sql import SparkSession

        builder = SparkSession.builder
        for name, value in properties.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


class _Orders:
    """What to run, as it comes in; told to stop, the jobs of Spark that run are canceled."""

    def __init__(self, session: Any, lines: IO[str]) -> None:
        self._context = session.sparkContext
        self._lines = lines
        self._waiting: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self.is_canceled = False
        threading.Thread(target=self._listen, daemon=True).start()

    def next(self) -> dict[str, Any] | None:
        """Wait for what to run; None when that is nothing any more."""
        return self._waiting.get()

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._idle.set()

    def _listen(self) -> None:
        for line in self._lines:
            order = json.loads(line)
            if order["do"] == "run":
                self.is_canceled = False
                self._idle.clear()
                self._waiting.put(order)
            else:
                self._cancel()
        if not self._idle.is_set():
            os._exit(0)
        self._waiting.put(None)

    def _cancel(self) -> None:
        """Cancel until the function has ended: it may start another job of Spark meanwhile."""
        self.is_canceled = not self._idle.is_set()
        while not self._idle.is_set():
            with suppress(Exception):
                self._context.cancelAllJobs()
            _end_workers()
            self._idle.wait(_CANCEL_EVERY_S)


def _end_workers() -> None:
    """Kill the workers in Python on this machine; Spark would take seconds to do so.

    They are forks of a daemon, which stays.
    """
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            parent = process.parent()
            if _is_daemon(process) and parent is not None and _is_daemon(parent):
                process.kill()


def _is_daemon(process: psutil.Process) -> bool:
    return any(module in process.cmdline() for module in (DAEMON, "pyspark.daemon"))


def run(session: Any, order: Mapping[str, Any]) -> dict[str, Any]:
    """Run a function, write its result, and return how it ended."""
    with _printing_to(Path(order["output"])):
        try:
            os.environ.update(order["environment"])
            _mark(session.sparkContext, order["properties"])
            function = _load(Path(order["file"]), order["function"])
            result = function(session, **order["arguments"])
            if result is not None:
                _write(Path(order["result"]), json.dumps(result, default=_plain))
            ended = {"is_done": True, "reason": ""}
        except BaseException as error:
            if not isinstance(error, UsageError):
                sys.excepthook(*sys.exc_info())
            ended = {"is_done": False, "reason": _reason(error)}
    return ended


def _mark(context: Any, properties: Mapping[str, str]) -> None:
    context.setJobGroup(properties[JOB], properties[CLASS], interruptOnCancel=True)
    for name, value in properties.items():
        context.setLocalProperty(name, value)


_modules: dict[tuple[Path, int], ModuleType] = {}


def _load(path: Path, name: str) -> Callable[..., Any]:
    """Import a file, again if it has changed, and return one of its functions."""
    try:
        key = (path, path.stat().st_mtime_ns)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if key not in _modules:
        _modules[key] = _import(path)
    found = getattr(_modules[key], name, None)
    if not callable(found):
        names = [n for n, value in vars(_modules[key]).items() if callable(value)]
        raise UsageError(f"{path} has no function '{name}'. {suggest(name, names)}")
    function: Callable[..., Any] = found
    return function


def _import(path: Path) -> ModuleType:
    from pyspark import cloudpickle

    name = f"foretell_job_{path.stem}"  # a file may have the name of a module of a library
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file; write file.py:function")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)  # workers of Spark cannot import it
    return module


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    name = type(value).__name__
    raise UsageError(f"a value of type {name} is no result; return numbers, texts, lists, dicts")


@contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """Send what is printed to a file, that of programs which are started meanwhile too."""
    kept = [os.dup(1), os.dup(2)]
    with path.open("wb") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)


def _settle(session: Any) -> None:
    """Wait until no task runs: those of a canceled job take a moment to notice."""
    deadline = time.monotonic() + _LEAVE_S
    with suppress(Exception):
        tracker = session.sparkContext._jsc.sc().statusTracker()
        while time.monotonic() < deadline and any(
            info.numRunningTasks() for info in tracker.getExecutorInfos()
        ):
            time.sleep(0.002)


def _is_alive(session: Any) -> bool:
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except Exception:
        return False


def _reason(error: BaseException) -> str:
    """Say in a line what went wrong; of an error in a task or in Java, what was raised there."""
    lines = [line.removeprefix(": ") for line in error_lines(error)]
    raised = [line for line in lines if _RAISED.match(line)]
    if len(lines) > 1 and raised:
        return raised[0]
    return lines[0] if isinstance(error, UsageError) else f"{type(error).__name__}: {lines[0]}"


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    half = path.with_name(f"{path.name}.half")
    half.write_text(text, encoding="utf-8")
    half.replace(path)


def _say(answers: IO[str], **values: Any) -> None:
    answers.write(json.dumps(values) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
