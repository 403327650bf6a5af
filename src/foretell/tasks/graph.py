"""Graph: where tasks are submitted and waited for, with a trace of what was run."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from queue import LifoQueue
from types import TracebackType
from typing import Any, Self

from foretell.errors import Option, UsageError
from foretell.tasks.data import Dependencies, is_key
from foretell.tasks.declare import TaskFunction, active
from foretell.tasks.running.checks import checked_call
from foretell.tasks.running.opening import planned, settings
from foretell.tasks.running.places import Place, open_place
from foretell.tasks.running.policies import POLICIES, check_policy
from foretell.tasks.running.runtime import Runtime
from foretell.tasks.running.submitted import (
    FAILED,
    SKIPPED,
    DependencyFailed,
    Task,
    failures_text,
)
from foretell.tasks.running.threads import (
    keep_lock,
    let_others_release,
    one_blas_thread,
    one_openmp_thread,
    share_lock,
    switching,
)
from foretell.tasks.trace import Wait, bars_of, isolation_of, write_perfetto, write_table


class Graph:
    """Tasks and their dependencies; calls of tasks inside its ``with`` block run in parallel.

    Parameters
    ----------
    workers
        How many tasks run at a time; all cores by default.
    policy
        ``critical`` (the longest way to the end first), ``breadth`` (first in, first out) or
        ``work`` (each worker the newest of its own, else the oldest of another).
    on
        ``threads``, ``processes``, ``ray``, or the address of a Ray cluster.
    max_open
        From so many unfinished tasks on, submitting one runs another first.
    check
        Whether to look for data that tasks change without declaring it; slow.
    seed
        Decides whom workers steal from.
    owner
        The key of sealed data; workers of sealed tasks get keys of single values, derived from it.

    >>> from foretell.tasks import Graph, task
    >>> @task(reads="a", writes="b")
    ... def add_one(a, b):
    ...     b[0] = a[0] + 1
    >>> x, y, z = [1], [0], [0]
    >>> with Graph(workers=2) as g:
    ...     _ = add_one(x, y)
    ...     _ = add_one(y, z)
    >>> z
    [3]
    """

    def __init__(
        self,
        workers: int | None = None,
        policy: str = "critical",
        on: str = "threads",
        *,
        max_open: int = 10_000,
        check: bool = False,
        seed: int = 0,
        owner: Any = None,
    ) -> None:
        from foretell.executors import n_cores

        given = settings.get()
        workers = workers if given.get("workers") is None else given["workers"]
        self.workers = n_cores() if workers is None else workers
        self.policy, self.on = given.get("policy") or policy, given.get("on") or on
        check_policy(self.policy)
        for name, value in (("workers", self.workers), ("max_open", max_open)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"must be a whole number above 0, not {value!r}",
                                 option=Option(name))  # fmt: skip
        self.max_open, self.check, self.seed, self.owner = max_open, check, seed, owner
        self.tasks: list[Task] = []
        self.waits: list[Wait] = []
        self._known = Dependencies()
        self._runtime: Runtime | None = None
        self._place: Place | None = None
        self._isolated: dict[tuple[str, str | None], Place] = {}
        self._opening = threading.Lock()  # tasks submit others from several threads
        self._slots: LifoQueue[int] = LifoQueue()
        for slot in range(self.workers + 1):  # with whoever submits
            self._slots.put(slot)
        self._outer: tuple[Graph | None, Task | None, int | None] = (None, None, None)
        self._is_planned = False
        self._is_sharing = False
        self._seen: dict[str, tuple[int, float]] = {}
        self._n_seen = 0
        self.began_s = 0.0
        self.is_closed = False

    def __enter__(self) -> Self:
        if self._runtime is not None or self.is_closed:
            raise UsageError("a graph is used once; open another with Graph(...)")
        self._outer = (active.graph, active.task, active.worker)
        foreseen = planned.get()
        if foreseen is not None:
            foreseen.append(self)
            self._is_planned = True
            active.graph, active.task, active.worker = self, None, None
            return self
        self._place = open_place(self.on, self)
        ready = POLICIES[self.policy](
            self._place.n_calls, attrgetter("rank"), attrgetter("priority"), seed=self.seed
        )
        self._limits = one_blas_thread()
        self._runtime = Runtime(ready, self._call, one_openmp_thread, holds=self.on == "threads")
        self._share(True)
        self._runtime.start(self)
        settings.get().get("opened", []).append(self)
        active.graph, active.task, active.worker = self, None, None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_planned:
            self._leave()
            return
        try:
            if kind is None:
                self.wait()
        except BaseException:
            kind = BaseException
            raise
        finally:
            self._close(is_broken=kind is not None)

    def _close(self, *, is_broken: bool) -> None:
        assert self._runtime is not None
        try:
            if is_broken:
                self._runtime.drop()
                for place in self._places():
                    place.interrupt()
            self._runtime.close()
        finally:
            for place in self._places():
                place.close()
            if self._limits is not None:
                self._limits.restore_original_limits()
            self._share(False)
            self._leave()
            self._known = Dependencies()

    def _places(self) -> list[Place]:
        assert self._place is not None
        with self._opening:
            return [self._place, *self._isolated.values()]

    def _leave(self) -> None:
        active.graph, active.task, active.worker = self._outer
        self.is_closed = True

    @property
    def outer(self) -> Graph | None:
        """The graph inside which this one was opened."""
        return self._outer[0]

    # Submitting

    def submit(
        self, function: TaskFunction, args: Sequence[Any], kwargs: dict[str, Any] | None = None
    ) -> Task:
        """Submit a call; calling the task does the same."""
        if self.is_closed:
            raise UsageError(f"task '{function.label}' was called after its graph was closed")
        if not self.tasks:
            self.began_s = (time.thread_time if self._is_planned else time.perf_counter)()
        values = function.bound(tuple(args), kwargs or {})
        parent = active.task if active.graph is self else self._own()
        task = Task(self, len(self.tasks), function, values, parent)
        task.size = function.size_of(values)
        task.priority = self._priority(function, values)
        is_deferred = function.when_of
        if is_deferred is not True:
            is_deferred = bool(function.evaluated(is_deferred, values, "when"))
        handles = [value for value in values if type(value) is Task]
        if self._is_planned:
            self._plan(task, handles, is_deferred)
            return task
        assert self._runtime is not None and self._place is not None
        self._place_of(function).check(function, values)
        if handles:
            self._check_handles(task, handles)
        let_others_release(self._runtime.lock)
        with self._runtime.lock:
            task.id = len(self.tasks)
            self.tasks.append(task)
        # Only the thread that submits knows this data, so workers need not wait meanwhile.
        before = self._before(task, handles)
        let_others_release(self._runtime.lock)
        with self._runtime.lock:
            self._runtime.admit(task, before)
        if not is_deferred:  # it runs where it was called
            self._runtime.help_with(lambda: [task], self._own())
            if task.error is not None:
                self._runtime.forget(task)
                raise task.error
        elif len(self._runtime.open) > self.max_open:
            self._make_room(task)
        if self._runtime.has_long_tasks != self._is_sharing:
            self._share(self._runtime.has_long_tasks)
        return task

    def _share(self, is_shared: bool) -> None:
        """Let workers have Python's lock soon, or not."""
        with switching():
            if is_shared != self._is_sharing:
                (share_lock if is_shared else keep_lock)()
                self._is_sharing = is_shared

    def _priority(self, function: TaskFunction, values: tuple[Any, ...]) -> int:
        found = function.priority_of
        if callable(found):
            found = function.evaluated(found, values, "priority")
        if not isinstance(found, int) or found < 0:
            raise UsageError(
                f"task '{function.label}': its priority must be a whole number, 0 or more, not "
                f"{found!r}"
            )
        return found

    def _check_handles(self, task: Task, handles: list[Task]) -> None:
        """Refuse results that do not come: of other graphs, or of what a task within depends on."""
        left = [handle for handle in handles if not handle.is_ended]
        for handle in left:
            if handle.graph is not self:
                raise UsageError(
                    f"task '{task.label}' takes the result of task '{handle.label}', which has not "
                    "ended and belongs to another graph; wait for it with its result() first"
                )
        if left and task.parent is not None:
            assert self._runtime is not None
            with self._runtime.lock:
                self._runtime.needed(left, task.parent)

    def _before(self, task: Task, handles: list[Task]) -> list[Task]:
        """Return the tasks that a new one waits for: by its data, and those it takes results of."""
        known = self._known
        if task.parent is not None:
            if task.parent.children is None:
                task.parent.children = Dependencies()
            known = task.parent.children
        reads, writes = task.function.data_of(task.values)
        found: list[Task] = known.add(task, reads, writes)
        own = found
        if handles:
            found = list(dict.fromkeys([*found, *handles]))
            own = [one for one in found if one.graph is self]  # others have ended
        task.before = tuple([one.id for one in own])
        return found

    def _make_room(self, task: Task) -> None:
        runtime = self._runtime
        assert runtime is not None
        if task.parent is not None:
            runtime.help_with(lambda: [task], task.parent)
            return
        while len(runtime.open) > self.max_open:
            submitter = runtime.ready.n_workers
            with runtime.lock:
                runtime.begin()
                found = runtime.take(submitter)
                some = next(iter(runtime.open.values()), None)
            if found is not None:
                runtime.run_aside(found, submitter)
            elif some is not None:
                runtime.wait_for([some])

    def _plan(self, task: Task, handles: list[Task], is_deferred: bool) -> None:
        self.tasks.append(task)
        self._before(task, handles)
        task.values, task.end_s = (), time.thread_time()
        if not is_deferred:
            self.waits.append(Wait(task.id + 1, (task.id,)))

    # Waiting

    def wait(self, on: Any = None) -> None:
        """Wait for all tasks, or for those that write some data; raise what they raised.

        Inside a task it waits for the tasks that this one has submitted, and helps to run them.

        Parameters
        ----------
        on
            Arrays, keys or tasks, one or a list of them. A tuple that is a key is one.
        """
        own = self._own()
        tasks = None if on is None else self._writers(on, own)
        if own is None:
            n = len(self.tasks)
            targets = None if tasks is None else tuple(sorted(t.id for t in tasks))
            self.waits.append(Wait(n, targets))
        if self._is_planned:
            return
        runtime = self._runtime
        if runtime is None or self.is_closed:
            raise UsageError("a graph can be waited for only inside its `with` block")
        self._rank()
        if own is not None:
            runtime.help_with(lambda: self._children(own) if tasks is None else tasks, own)
        elif tasks is None:
            runtime.wait_all()
            self._known = Dependencies()  # all that it knows of has ended
        else:
            runtime.wait_for(tasks)
        self._raise_failures(own)

    def finish(self, task: Task) -> None:
        """Wait for one task; inside a task of this graph, run what it needs meanwhile."""
        if self._is_planned:
            raise UsageError(
                f"the result of task '{task.label}' is known only after a run; foresee builds "
                "graphs without running bodies, so a program must not decide by results"
            )
        assert self._runtime is not None
        own = self._own()
        if own is not None:
            self._runtime.help_with(lambda: [task], own)
        else:  # workers do not depend on the caller, who would be one more of them
            self._runtime.wait_for([task])

    def _own(self) -> Task | None:
        """Return the task of this graph that the caller is part of, also in a graph within it."""
        graph, task = active.graph, active.task
        while graph is not None and graph is not self:
            graph, task = graph._outer[:2]
        return None if graph is None else task

    def _writers(self, on: Any, own: Task | None) -> list[Task]:
        is_one = not isinstance(on, list | tuple) or (isinstance(on, tuple) and is_key(on))
        values = [on] if is_one else list(on)
        tasks = [value for value in values if isinstance(value, Task)]
        for task in tasks:
            if task.graph is not self and task.graph is not None and not task.graph._is_planned:
                task.graph.finish(task)
        data = [value for value in values if not isinstance(value, Task)]
        known = self._known if own is None else own.children
        found = [] if known is None else known.writers(data)
        return [task for task in tasks if task.graph is self] + found

    def _children(self, own: Task) -> list[Task]:
        assert self._runtime is not None
        with self._runtime.lock:
            return [task for task in self._runtime.open.values() if task.parent is own]

    def _raise_failures(self, own: Task | None) -> None:
        runtime = self._runtime
        assert runtime is not None
        failed, skipped = runtime.take_failures(own)
        if not (failed or skipped):
            if own is not None and runtime.is_dropped:
                raise DependencyFailed(f"the graph of '{own.label}' ended while it waited")
            return
        for task in failed:
            assert task.error is not None
            task.error.add_note(f"in task {task.id} ('{task.label}')")
        errors = [task.error for task in failed or skipped if task.error is not None]
        raise BaseExceptionGroup(failures_text(failed, skipped), errors)

    def _rank(self) -> None:
        if self.policy != "critical":
            return
        for task in self.tasks[self._n_seen :]:
            if not task.is_ended:
                break
            n, total = self._seen.get(task.label, (0, 0.0))
            self._seen[task.label] = (n + 1, total + task.end_s - task.start_s)
            self._n_seen += 1
        means = {label: total / n for label, (n, total) in self._seen.items()}
        usual = sum(means.values()) / len(means) if means else 1.0
        assert self._runtime is not None
        self._runtime.rank(lambda task: means.get(task.label, usual))

    # Running

    def _call(self, task: Task, worker: int) -> Any:
        values = task.values
        for value in values:
            if type(value) is Task:
                values = tuple(v.value if type(v) is Task else v for v in values)
                break
        function = task.function
        if self.check:
            return checked_call(function, values, lambda given: self._run(function, given, worker))
        return self._run(function, values, worker)

    def _run(self, function: TaskFunction, values: tuple[Any, ...], worker: int) -> Any:
        place = self._place_of(function)
        if place is self._place:
            return place.call(function, values, worker)
        slot = self._slots.get()  # isolated tasks run here, no more at a time than workers
        try:
            return place.call(function, values, slot)
        finally:
            self._slots.put(slot)

    def _place_of(self, function: TaskFunction) -> Place:
        """Return where a task runs: on the place of the graph, or in isolation."""
        options = function.options
        assert self._place is not None
        if options.isolation == "none":
            return self._place
        key = (options.isolation, options.allow)  # a task that allows less opens nothing for others
        found = self._isolated.get(key)
        if found is None:
            from foretell.tasks.isolation import open_isolation

            with self._opening:
                found = self._isolated.get(key) or open_isolation(options, self)
                self._isolated[key] = found
        return found

    # Traces

    def trace(self, path: str | Path, *, append: bool = False) -> Path:
        """Write what was run: ``.csv``, a table that `foretell fit` takes; ``.json`` for Perfetto.

        The table has one row for each task, and beside it stands a file that says what its columns
        are. A file that exists is replaced, or a table continued with ``append``.
        """
        path = Path(path)
        if self._is_planned:
            return path
        if path.suffix == ".csv":
            write_table([self], path, append=append)
        elif path.suffix == ".json":
            write_perfetto(bars_of(self), path)
        else:
            raise UsageError(f"{path}: a trace is a table (.csv) or a timeline (.json)")
        return path

    @property
    def n_failed(self) -> int:
        """How many tasks failed, or did not run because others did."""
        return sum(task.state in (FAILED, SKIPPED) for task in self.tasks)

    @property
    def n_ended(self) -> int:
        """How many tasks have ended, also while others run."""
        return len(self.tasks) - (0 if self._runtime is None else len(self._runtime.open))

    @property
    def has_sandbox(self) -> bool:
        """Whether a task ran in a sandbox."""
        return any("sandbox" in isolation_of(task) for task in self.tasks)

    @property
    def takes_turns(self) -> bool:
        """Whether workers that were busy together computed on one core: Python's lock kept them."""
        from foretell.executors import n_cores

        if self.on != "threads" or min(self.workers, n_cores()) < 2 or self.time_s < _LEAST_SEEN_S:
            return False
        busy = sum(task.end_s - task.start_s - task.waited_s for task in self.tasks) / self.time_s
        cores = sum(task.cpu_s for task in self.tasks) / self.time_s
        return busy >= _BUSY and _ONE_CORE[0] <= cores <= _ONE_CORE[1]

    @property
    def time_s(self) -> float:
        """The time from the first call of a task to the end of the last one."""
        ends = [task.end_s for task in self.tasks if task.start_s]
        return max(ends) - self.began_s if ends else 0.0


#: Graphs that take turns: tasks at a time, cores that they use, and the least time to tell it from.
_BUSY, _ONE_CORE, _LEAST_SEEN_S = 1.6, (0.7, 1.15), 0.05
TURNS = (
    "Workers were busy together, but computed on one core{where}. Bodies that keep Python's lock "
    "need processes, and very small ones larger blocks; if bodies wait for something else, or if "
    "other programs had a core, all is well."
)
