"""Places: where the bodies of tasks run: threads of this process, other processes, or Ray."""

from __future__ import annotations

import importlib
import math
import sys
import threading
import time
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING, Any

from foretell.errors import ForetellError, Option, UsageError, error_lines, suggest
from foretell.machines import Needs
from foretell.tasks.declare import TaskFunction, active
from foretell.tasks.running.copies import Written, check_sendable, have_common_memory, run_copied

if TYPE_CHECKING:
    from foretell.tasks.graph import Graph

PLACES = ("threads", "processes", "ray")


class WorkerLost(ForetellError):  # noqa: N818 - it tells what happened
    """The process that ran a task was killed."""


class Place:
    """This process: a body runs in the thread of its worker.

    Attributes
    ----------
    n_calls
        How many calls may be under way at once; each occupies a thread here.
    """

    def __init__(self, n_calls: int) -> None:
        self.n_calls = n_calls

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
    module, name = function.reference
    try:
        found: Any = reduce(getattr, name.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        found = None
    if module in sys.modules and (
        not isinstance(found, TaskFunction) or found.body is not function.body
    ):
        raise UsageError(
            f"task '{function.label}' is not what other processes find by its name, "
            f"{module}.{name}; write @task above the function, at the top of its module"
        )


def check_apart(function: TaskFunction, values: tuple[Any, ...]) -> None:
    """Raise a UsageError if a call cannot be isolated, because its arguments share memory."""
    if have_common_memory(function, values):
        raise UsageError(
            f"task '{function.label}' writes data that is also another argument; an isolated "
            "task has copies of them, which are no longer the same"
        )


def refuse_keys(graph: Graph) -> None:
    """Raise a UsageError if processes that are forked now would inherit the key of an owner."""
    around: Graph | None = graph
    while around is not None:
        if around.owner is not None:
            raise UsageError(
                "processes inherit all that this one has in memory, and so the key of sealed data; "
                "run tasks on threads, on Ray or in sandboxes beside it",
                option=Option("owner"),
            )
        around = around.outer


def find_task(module: str, name: str) -> TaskFunction:
    """Return a task by its module and name, importing the module if need be."""
    found = sys.modules.get(module) or importlib.import_module(module)
    function = reduce(getattr, name.split("."), found)
    assert isinstance(function, TaskFunction)
    return function


def run_remotely(_: object, sent: tuple[str, str, tuple[Any, ...]]) -> tuple[Any, list[Any]]:
    """Run a body in another process; return its result and what it has changed."""
    module, name, values = sent
    return run_copied(find_task(module, name), values)


def _is_unsendable(found: Exception) -> bool:
    """Whether an error means that something cannot be sent to another process.

    A task's own error may contain the word pickle, too, so only its beginning counts.
    """
    if type(found).__name__ == "PicklingError":
        return True
    texts = ("cannot pickle", "Can't pickle")
    return isinstance(found, AttributeError | TypeError) and str(found).startswith(texts)


class Processes(Place):
    """A process for each worker; arguments are sent, and what a body wrote comes back.

    Parameters
    ----------
    is_isolation
        Whether a task must not run here: calls whose arguments share memory are refused then.
    """

    def __init__(self, n_workers: int, *, is_isolation: bool = False) -> None:
        from foretell.executors import ProcessExecutor

        super().__init__(n_workers)
        self._is_isolation = is_isolation
        self._is_ending = False
        # Others come when they are needed, such as for whoever submits and helps to run tasks.
        self._executors = {k: ProcessExecutor(None, 1) for k in range(n_workers)}

    def check(self, function: TaskFunction, values: tuple[Any, ...]) -> None:
        """Raise a UsageError if another process cannot run a call."""
        check_importable(function)
        check_sendable(function, values)
        if self._is_isolation:
            check_apart(function, values)

    def call(self, function: TaskFunction, values: tuple[Any, ...], worker: int) -> Any:
        """Run a body in the process of a worker; here, if its arguments share memory."""
        from foretell.executors import ProcessExecutor, WorkerDied

        if self._is_isolation:
            check_apart(function, values)  # among them may be results, which were not known before
        elif have_common_memory(function, values):
            return super().call(function, values, worker)

        executor = self._executors.get(worker)
        if executor is None:
            executor = self._executors[worker] = ProcessExecutor(None, 1)
        here = Written(function, values)
        executor.submit(run_remotely, (*function.reference, values))
        found = executor.wait().result
        if isinstance(found, WorkerDied):
            if self._is_ending:
                raise WorkerLost(f"task '{function.label}' was ended")
            raise WorkerLost(f"task '{function.label}' was lost twice: {error_lines(found)[0]}")
        if isinstance(found, Exception) and _is_unsendable(found):
            raise UsageError(
                f"task '{function.label}': its arguments and its result must be such that they can "
                f"be sent to another process: {error_lines(found)[0]}"
            ) from found
        if isinstance(found, Exception):
            raise found
        result, changes = found
        here.bring_back(changes)
        return result

    def interrupt(self) -> None:
        """Kill the processes."""
        self._is_ending = True
        for executor in list(self._executors.values()):
            executor.interrupt()

    def close(self) -> None:
        """End the processes."""
        for executor in self._executors.values():
            executor.close()


#: Calls that an actor may hold at once if they are brief: the next is there when one ends. Behind a
#: call that takes longer, one would wait while another actor may be free.
_DEPTH, _BRIEF_S = 4, 0.02
#: How often actors are looked after that have not started, where the cluster is full.
_LOOK_S = 0.1
#: How often an actor that cannot start is tried again: a node may have been lost just then.
_MOST_RESTARTS = 2


class RayWorker:
    """What an actor does: it keeps the tasks that it was sent, and runs their bodies."""

    def __init__(self) -> None:
        self._functions: dict[int, TaskFunction] = {}

    def run(
        self, number: int, values: tuple[Any, ...], function: TaskFunction | None
    ) -> tuple[Any, list[Any]]:
        """Run a body, of a task that comes along or came before; return what `run_copied` does."""
        if function is not None:
            self._functions[number] = function
        return run_copied(self._functions[number], values)


class _Actor:
    """An actor of Ray: the tasks that it knows, the calls it holds, and when the last one ended."""

    def __init__(self, handle: Any, number: int, n_restarts: int) -> None:
        self.handle, self.number, self.n_restarts = handle, number, n_restarts
        self.known: set[int] = set()
        self.held: list[TaskFunction] = []
        self.ended_s = 0.0


class Ray(Place):
    """Ray: an actor for each worker runs one body at a time, somewhere on the cluster."""

    def __init__(self, on: str, n_workers: int) -> None:
        from foretell.executors.cluster import Cluster

        super().__init__(_DEPTH * n_workers)
        self._cluster = Cluster(on, n_cpus=n_workers)
        import ray

        self._ray = ray
        self._numbers: dict[TaskFunction, int] = {}
        self._changed = threading.Condition()
        self._actors: list[_Actor] = []
        self._starting: dict[Any, _Actor] = {}
        self._looked_s = 0.0
        self._fault = ""
        self._waiting: list[tuple[int, float, int]] = []
        self._turn = count()
        self._usual_s: dict[TaskFunction, float] = {}
        self._is_ending = False
        self._here = threading.Semaphore(n_workers)
        self._one_alone = threading.Lock()
        self._alone: Any = None
        for number in range(n_workers):
            self._start(number)

    def check(self, function: TaskFunction, values: tuple[Any, ...]) -> None:
        """Raise a UsageError if another process cannot run a call."""
        check_sendable(function, values)

    def call(self, function: TaskFunction, values: tuple[Any, ...], worker: int) -> Any:
        """Run a body on the cluster; one whose actor is lost runs once more, alone."""
        from foretell.executors.cluster import losses

        if have_common_memory(function, values):
            with self._here:
                return super().call(function, values, worker)

        lost = (*losses(), self._ray.exceptions.RayActorError)
        here = Written(function, values)
        actor = self._taken(function)
        sent_s = time.perf_counter()
        try:
            try:
                result, changes = self._run(actor, function, values)
            except lost:
                self._replace(actor)
                result, changes = self._run_alone(function, values)
        except lost as error:
            raise WorkerLost(f"task '{function.label}': {error_lines(error)[0]}") from None
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause or error) from None
        finally:
            self._give_back(actor, function, sent_s)
        here.bring_back(changes)
        return result

    # Actors

    def _start(self, number: int, n_restarts: int = 0) -> None:
        """Start an actor; it takes calls from when it answers."""
        handle = self._ray.remote(num_cpus=1)(RayWorker).remote()
        self._starting[handle.__ray_ready__.remote()] = _Actor(handle, number, n_restarts)

    def _look_after(self) -> None:
        """Take on the actors that have started; raise an error if the cluster can have none."""
        now_s = time.monotonic()
        if self._actors and now_s < self._looked_s + _LOOK_S:
            return
        self._looked_s = now_s
        ready, _ = self._ray.wait(list(self._starting), num_returns=len(self._starting), timeout=0)
        for reference in ready:
            actor = self._starting.pop(reference)
            try:
                self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                self._fault = error_lines(error)[-1]
                if actor.n_restarts < _MOST_RESTARTS:
                    self._start(actor.number, actor.n_restarts + 1)
            else:
                self._actors.append(actor)
        if not self._actors:
            self._cluster.still_has_room(Needs())

    def _replace(self, actor: _Actor) -> None:
        """Start another actor in the place of one that is lost."""
        with self._changed:
            self._refuse_to_begin()
            if actor in self._actors:
                self._actors.remove(actor)
                self._start(actor.number)

    def _refuse_to_begin(self) -> None:
        if self._is_ending:
            raise WorkerLost("the graph was ended")

    # Calls

    def _taken(self, function: TaskFunction) -> _Actor:
        """Wait for an actor that has room, behind the calls that come before by priority."""
        task = active.task
        rank = (0, 0.0) if task is None else (-task.priority, -task.rank)
        with self._changed:
            own = (*rank, next(self._turn))
            self._waiting.append(own)
            try:
                while True:
                    self._refuse_to_begin()
                    if self._starting:
                        self._look_after()
                    if not (self._actors or self._starting):
                        raise WorkerLost(f"no worker starts on the Ray cluster: {self._fault}")
                    with_room = [actor for actor in self._actors if self._has_room(actor)]
                    if with_room and own == min(self._waiting):
                        actor = min(with_room, key=lambda actor: len(actor.held))
                        actor.held.append(function)
                        return actor
                    self._changed.wait(_LOOK_S if self._starting else None)
            finally:
                self._waiting.remove(own)
                self._changed.notify_all()

    def _has_room(self, actor: _Actor) -> bool:
        if len(actor.held) >= _DEPTH:
            return False
        return all(self._usual_s.get(held, math.inf) < _BRIEF_S for held in actor.held)

    def _give_back(self, actor: _Actor, function: TaskFunction, sent_s: float) -> None:
        """Note that a call has ended, and when its body began: calls before it came first."""
        now_s = time.perf_counter()
        with self._changed:
            began_s = max(sent_s, actor.ended_s)
            actor.held.remove(function)
            actor.ended_s = now_s
            usual_s = self._usual_s.setdefault(function, now_s - began_s)
            self._usual_s[function] += (now_s - began_s - usual_s) / 8
            self._changed.notify_all()
        if active.task is not None:
            active.task.start_s, active.task.worker = began_s, actor.number

    def _run(self, actor: _Actor, function: TaskFunction, values: tuple[Any, ...]) -> Any:
        """Send a call, with its task until the actor has it, and wait for what it returns."""
        with self._changed:
            number = self._numbers.setdefault(function, len(self._numbers))
        new = None if number in actor.known else function
        found = self._ray.get(actor.handle.run.remote(number, values, new))
        actor.known.add(number)
        return found

    def _run_alone(self, function: TaskFunction, values: tuple[Any, ...]) -> Any:
        """Run a body in a process of its own: if it ends that process, no other call is lost."""
        remote = self._ray.remote(num_cpus=0, max_retries=0)(run_copied)
        with self._one_alone:  # beside the actors, which have the CPUs
            with self._changed:
                self._refuse_to_begin()
                self._alone = remote.remote(function, values)
            try:
                return self._ray.get(self._alone)
            finally:
                self._alone = None

    # Ending

    def interrupt(self) -> None:
        """End the actors, and what runs there."""
        with self._changed:
            self._is_ending = True
            for actor in (*self._actors, *self._starting.values()):
                self._ray.kill(actor.handle)
            if self._alone is not None:
                self._ray.cancel(self._alone, force=True)
            self._changed.notify_all()

    def close(self) -> None:
        """End the actors, and leave the cluster."""
        self.interrupt()
        self._cluster.close()


def open_place(on: str, graph: Graph) -> Place:
    """Open the place that a graph names."""
    if on == "threads":
        return Place(graph.workers)
    if on == "processes":
        refuse_keys(graph)
        return Processes(graph.workers)
    if on == "ray" or ":" in on:
        return Ray(on, graph.workers)
    raise UsageError(f"there is no place '{on}'. {suggest(on, PLACES)}", option=Option("on"))
