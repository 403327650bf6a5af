"""Places: where the bodies of tasks run: threads of this process, other processes, or Ray."""

from __future__ import annotations

import importlib
import sys
import threading
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from foretell.errors import ForetellError, Option, UsageError, error_lines, suggest
from foretell.tasks.declare import TaskFunction

if TYPE_CHECKING:
    from foretell.executors import ProcessExecutor
    from foretell.tasks.graph import Graph

PLACES = ("threads", "processes", "ray")


class WorkerLost(ForetellError):  # noqa: N818 - it tells what happened
    """The process that ran a task was killed."""


class Place:
    """This process: a body runs in the thread of its worker."""

    def check(self, function: TaskFunction, values: tuple[Any, ...]) -> None:
        """Raise a UsageError if a call cannot run here."""

    def call(self, function: TaskFunction, values: tuple[Any, ...], worker: int) -> Any:
        """Run a body for a worker, and return what it returns."""
        return function.call_with(values)

    def interrupt(self) -> None:
        """End what runs, where that is possible."""

    def close(self) -> None:
        """Free what the place holds."""


def check_importable(function: TaskFunction) -> None:
    """Raise a UsageError unless another process can find a function by its name."""
    if not function.is_importable:
        raise UsageError(
            f"task '{function.label}' is defined inside a function, where other processes do not "
            "find it; define it at the top of a module"
        )


def check_sendable(function: TaskFunction, values: tuple[Any, ...]) -> None:
    """Raise a UsageError unless what a function writes can come back from another process."""
    for k in function.write_places:
        if not isinstance(values[k], (*_CHANGED, str, int, tuple)):
            raise UsageError(
                f"task '{function.label}' writes a {type(values[k]).__name__}, whose changes do "
                "not come back from another process; use an array, a list, a dict or a bytearray"
            )


#: Values that a body can change and that can be changed here in the same way.
_CHANGED = (np.ndarray, list, dict, bytearray)


def have_common_memory(function: TaskFunction, values: tuple[Any, ...]) -> bool:
    """Whether something that a call writes is also another argument of it, in part at least.

    Copies of such arguments in another process would no longer be the same data.
    """
    arrays = [(k, a) for k, value in enumerate(values) for a in _arrays_in(value)]
    written = set(function.write_places)
    return any(
        (i in written or k in written) and np.may_share_memory(a, b)
        for n, (i, a) in enumerate(arrays)
        for k, b in arrays[n + 1 :]
    )


def _arrays_in(value: Any) -> list[np.ndarray[Any, Any]]:
    parts = value if isinstance(value, list | tuple) else [value]
    return [part for part in parts if isinstance(part, np.ndarray)]


def find_task(module: str, name: str) -> TaskFunction:
    """Return a task by its module and name, importing the module if need be."""
    found = sys.modules.get(module) or importlib.import_module(module)
    function = reduce(getattr, name.split("."), found)
    assert isinstance(function, TaskFunction)
    return function


def run_remotely(_: object, sent: tuple[str, str, tuple[Any, ...]]) -> tuple[Any, list[Any]]:
    """Run a body in another process; return its result and what it has written."""
    module, name, values = sent
    return run_copied(find_task(module, name), values)


def run_copied(function: TaskFunction, values: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """Run a body with data that were sent; return its result and what it has written."""
    # Ray hands over arrays that cannot be written.
    own = tuple(map(_own, values))
    result = function.call_with(own)
    return result, [own[k] for k in function.write_places]


def _own(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.flags.writeable else value.copy()
    return list(map(_own, value)) if isinstance(value, list) else value


def bring_back(function: TaskFunction, values: tuple[Any, ...], written: list[Any]) -> None:
    """Put what a body wrote elsewhere into the data that it was called with."""
    for k, new in zip(function.write_places, written, strict=True):
        put_back(values[k], new)


def put_back(old: Any, new: Any) -> None:
    """Change data to what they became elsewhere."""
    if isinstance(old, np.ndarray):
        old[...] = new
    elif isinstance(old, dict):
        old.clear()
        old.update(new)
    elif isinstance(old, list) and any(isinstance(part, np.ndarray) for part in old):
        for part, changed in zip(old, new, strict=True):
            put_back(part, changed)
    elif isinstance(old, list | bytearray):
        old[:] = new


class Processes(Place):
    """A process for each worker; arguments are sent, and what a body wrote comes back."""

    def __init__(self, n_workers: int) -> None:
        from foretell.executors import ProcessExecutor

        self._is_ending = False
        # The last one is for whoever submits, who runs tasks when too many are open.
        self._executors: list[ProcessExecutor | None] = [None] * (n_workers + 1)
        for k in range(n_workers):
            self._executors[k] = ProcessExecutor(None, 1)

    def check(self, function: TaskFunction, values: tuple[Any, ...]) -> None:
        """Raise a UsageError if another process cannot run a call."""
        check_importable(function)
        check_sendable(function, values)

    def call(self, function: TaskFunction, values: tuple[Any, ...], worker: int) -> Any:
        """Run a body in the process of a worker; here, if its arguments share memory."""
        from foretell.executors import ProcessExecutor, WorkerDied

        if have_common_memory(function, values):
            return super().call(function, values, worker)

        executor = self._executors[worker]
        if executor is None:
            executor = self._executors[worker] = ProcessExecutor(None, 1)
        executor.submit(run_remotely, (*function.reference, values))
        found = executor.wait().result
        if isinstance(found, WorkerDied):
            if self._is_ending:
                raise WorkerLost(f"task '{function.label}' was ended")
            raise WorkerLost(f"task '{function.label}': {error_lines(found)[0]}, twice")
        if isinstance(found, Exception):
            raise found
        result, written = found
        bring_back(function, values, written)
        return result

    def interrupt(self) -> None:
        """Kill the processes."""
        self._is_ending = True
        for executor in self._executors:
            if executor is not None:
                executor.interrupt()

    def close(self) -> None:
        """End the processes."""
        for executor in self._executors:
            if executor is not None:
                executor.close()


class Ray(Place):
    """Ray: each worker has one task at a time somewhere on the cluster."""

    def __init__(self, on: str, n_workers: int) -> None:
        from foretell.executors.cluster import Cluster

        self._cluster = Cluster(on, n_cpus=n_workers)
        import ray

        self._ray = ray
        self._functions: dict[TaskFunction, Any] = {}
        self._running: dict[int, Any] = {}
        self._lock = threading.Lock()

    def check(self, function: TaskFunction, values: tuple[Any, ...]) -> None:
        """Raise a UsageError if another process cannot run a call."""
        check_sendable(function, values)

    def call(self, function: TaskFunction, values: tuple[Any, ...], worker: int) -> Any:
        """Run a body on the cluster; one whose node is lost runs once more."""
        from foretell.executors.cluster import losses

        if have_common_memory(function, values):
            return super().call(function, values, worker)

        if function not in self._functions:
            self._functions[function] = self._sent(function)
        reference = self._functions[function].remote(values)
        self._running[worker] = reference
        try:
            result, written = self._ray.get(reference)
        except losses() as error:
            raise WorkerLost(f"task '{function.label}': {error_lines(error)[0]}") from None
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause or error) from None
        finally:
            self._running.pop(worker, None)
        bring_back(function, values, written)
        return result

    def _sent(self, function: TaskFunction) -> Any:
        """Return a function of Ray, which sends a task once with all that its body refers to."""

        def run(values: tuple[Any, ...]) -> tuple[Any, list[Any]]:
            return run_copied(function, values)

        return self._ray.remote(num_cpus=1, max_retries=1)(run)

    def interrupt(self) -> None:
        """Cancel what runs."""
        for reference in list(self._running.values()):
            self._ray.cancel(reference, force=True)

    def close(self) -> None:
        """Leave the cluster."""
        self._cluster.close()


def open_place(on: str, graph: Graph) -> Place:
    """Open the place that a graph names."""
    if on == "threads":
        return Place()
    if on == "processes":
        return Processes(graph.workers)
    if on == "ray" or ":" in on:
        return Ray(on, graph.workers)
    raise UsageError(f"there is no place '{on}'. {suggest(on, PLACES)}", option=Option("on"))
