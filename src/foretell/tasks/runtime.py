"""The runtime: threads that run ready tasks, errors that stop only what depends on them."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from foretell.errors import ForetellError, UsageError
from foretell.tasks.declare import TaskFunction, active
from foretell.tasks.policies import Ready

if TYPE_CHECKING:
    from foretell.tasks.data import Dependencies

_LOOK_S = 0.2
#: Tasks that compute for longer should not wait long for Python's lock when they end.
_LONG_S = 50e-6
#: Tasks are long if at least this share of them is; so many are assumed to be before any has run.
_LONG_SHARE, _ASSUMED_LONG = 1 / 8, 3
#: A task that took less had a core all the time; to ask how much takes about a microsecond.
_SHORT_S = 20e-6
WAITING, READY, RUNNING, DONE, FAILED, SKIPPED, DROPPED = range(7)


class DependencyFailed(ForetellError):  # noqa: N818 - it tells of another error
    """A task did not run, because one that it depends on failed."""


class Task:
    """A call that was submitted: it waits for its predecessors, and then runs."""

    __slots__ = (
        "before", "cause", "children", "cpu_s", "end_s", "error", "function", "id", "is_over",
        "label", "n_before", "n_children", "parent", "priority", "rank", "size", "start_s",
        "state", "successors", "value", "values", "waited_s", "waiters", "waits_for", "worker",
    )  # fmt: skip

    def __init__(
        self, number: int, function: TaskFunction, values: tuple[Any, ...], parent: Task | None
    ) -> None:
        self.id, self.function, self.values, self.parent = number, function, values, parent
        self.label = function.label
        self.size = 0.0
        self.priority = 0
        self.rank = 0.0
        self.state = WAITING
        self.n_before = self.n_children = 0
        # Tuples until there is something to hold: Python's collector looks at every list, and
        # with thousands of tasks that takes as long as running them.
        self.before: tuple[int, ...] = ()
        self.successors: list[Task] | tuple[()] = ()
        self.children: Dependencies | None = None
        self.cause: Task | None = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        self.start_s = self.end_s = self.cpu_s = self.waited_s = 0.0
        self.worker: int | None = None
        self.waiters: list[_Waiter] | None = None
        self.waits_for: Sequence[Task] = ()

    @property
    def is_ended(self) -> bool:
        """Whether it ran, failed, or never will."""
        return self.state >= DONE

    def result(self) -> Any:
        """Wait for the task, and return what its body returned; raise what it raised."""
        if not self.is_ended:
            if active.graph is None:
                raise UsageError(f"task {self.label} has not ended, and its graph is not open here")
            active.graph.finish(self)
        if self.error is not None:
            raise self.error
        return self.value

    def __repr__(self) -> str:
        words = ("waiting", "ready", "running", "done", "failed", "skipped", "dropped")
        return f"<task {self.id} {self.label}, {words[self.state]}>"


class _Waiter:
    """Someone who waits until a number of tasks have ended, or until anything happens."""

    __slots__ = ("_lock", "n_left")

    def __init__(self, n_left: int) -> None:
        self.n_left = n_left
        self._lock = threading.Lock()
        self._lock.acquire()

    def tell(self) -> None:
        self.n_left -= 1
        if self.n_left == 0:
            self._lock.release()

    def wait(self) -> None:
        # A signal that comes just before a thread blocks does not wake it: look now and then.
        while not self._lock.acquire(timeout=_LOOK_S):
            pass


def let_others_release(lock: threading.Lock) -> None:
    """Let other threads run while a lock is taken that is held for moments, before taking it.

    A thread that blocks on a lock has to be woken each time it is released, while the thread that
    woke it goes on and takes it again. That would take longer than the work.
    """
    while lock.locked():
        time.sleep(0)


#: How often a thread gives Python's lock away while others wait for it, with short tasks about.
_SWITCH_S = 2e-4
_switching = threading.Lock()
_intervals: list[float] = []  # the interval before, once for each graph that shares the lock


def switching() -> threading.Lock:
    """Return the lock under which the interval changes."""
    return _switching


def patience_s(times_s: Sequence[float]) -> float:
    """Return how long a worker waits for Python's lock while tasks of some times are submitted."""
    n_long = sum(time_s > _LONG_S for time_s in times_s)
    usual = sys.getswitchinterval()
    return min(_SWITCH_S, usual) if n_long >= _LONG_SHARE * len(times_s) else usual


def share_lock() -> None:
    """Let workers have Python's lock soon: by default, submitting keeps it for 5 ms at a time."""
    # It makes empty tasks slower, so it is done only while tasks compute for a while.
    _intervals.append(sys.getswitchinterval())
    sys.setswitchinterval(min(_SWITCH_S, _intervals[0]))


def keep_lock() -> None:
    """Undo it; the last graph that shares the lock restores the interval."""
    if len(_intervals) == 1:
        sys.setswitchinterval(_intervals[0])
    del _intervals[-1:]  # none is left in a process that was forked meanwhile


def _begin_alone() -> None:
    """Forget the graph in a process forked beside it: its threads, with their locks, are gone."""
    global _switching
    active.graph = active.task = active.worker = None
    _switching = threading.Lock()
    if _intervals:
        sys.setswitchinterval(_intervals[0])
    _intervals.clear()


if hasattr(os, "register_at_fork"):  # Windows has none
    os.register_at_fork(after_in_child=_begin_alone)


class Runtime:
    """Runs tasks on threads.

    Parameters
    ----------
    call
        Runs the body of a task for a worker, here or elsewhere.
    prepare
        Called first in each thread.
    """

    def __init__(
        self, ready: Ready, call: Callable[[Task, int], Any], prepare: Callable[[], None]
    ) -> None:
        self.ready, self._call, self._prepare = ready, call, prepare
        self.lock = threading.Lock()
        self.open: dict[int, Task] = {}
        self.n_top = 0  # open tasks that no other task submitted
        self.failed: list[Task] = []
        self.n_skipped = 0
        self.has_long_tasks = True
        self._n_ran, self._n_long = 0, _ASSUMED_LONG
        self._idle: list[threading.Lock] = []
        self._all_done: list[_Waiter] = []
        self._helpers: list[_Waiter] = []
        self._is_closing = False
        self._threads = [
            threading.Thread(target=self._work, args=(k,), daemon=True, name=f"foretell-task-{k}")
            for k in range(ready.n_workers)
        ]

    def start(self, graph: Any) -> None:
        """Start the workers."""
        self._graph = graph
        for thread in self._threads:
            thread.start()

    # Submitting

    def admit(self, task: Task, before: list[Task]) -> None:
        """Accept a task with those that it depends on; the lock is held."""
        self.open[task.id] = task
        if task.parent is None:
            self.n_top += 1
        else:
            task.parent.n_children += 1
        for one in before:
            if one.state == DONE:
                continue
            if one.state > DONE:
                task.cause = task.cause or one
            else:
                task.n_before += 1
                if one.successors:
                    one.successors.append(task)
                else:
                    one.successors = [task]
        if task.n_before == 0:
            if task.cause is not None:
                self._settle(task, SKIPPED, [])
                return
            task.state = READY
            self.ready.add(task, active.worker)
            self._wake(1)

    def _wake(self, n: int) -> None:
        while n > 0 and self._idle:
            self._idle.pop().release()
            n -= 1

    # Running

    def _work(self, worker: int) -> None:
        active.graph, active.worker = self._graph, worker
        self._prepare()
        signal = threading.Lock()
        signal.acquire()
        task: Task | None = None
        while True:
            if task is None:
                let_others_release(self.lock)
                with self.lock:
                    task = self.take(worker)
                    if task is None:
                        if self._is_closing:
                            return
                        self._idle.append(signal)
                if task is None:
                    signal.acquire()
                    continue
            task = self.run(task, worker)

    def take(self, worker: int) -> Task | None:
        """Return a ready task that nobody has taken; the lock is held."""
        while len(self.ready):
            task: Task | None = self.ready.take(worker)
            if task is not None and task.state == READY:
                task.state = RUNNING
                return task
        return None

    def run(self, task: Task, worker: int, *, goes_on: bool = True) -> Task | None:
        """Run a task; return the one to run next, if the worker goes on."""
        outer, active.task = active.task, task
        task.worker = worker
        error: BaseException | None = None
        value = None
        task.start_s, cpu_s = time.perf_counter(), time.thread_time()
        try:
            value = self._call(task, worker)
        except BaseException as raised:  # a body may raise anything, and the worker goes on
            error = raised
        task.end_s = time.perf_counter()
        task.cpu_s = task.end_s - task.start_s
        if task.cpu_s > _SHORT_S:
            task.cpu_s = time.thread_time() - cpu_s
        active.task = outer
        let_others_release(self.lock)
        with self.lock:
            self._n_ran += 1
            if task.cpu_s > _LONG_S:
                self._n_long += 1
            self.has_long_tasks = self._n_long >= _LONG_SHARE * self._n_ran
            task.value, task.error = value, error
            new: list[Task] = []
            if task.n_children:
                task.is_over = True
            else:
                self._settle(task, DONE if error is None else FAILED, new)
            if not goes_on:
                for one in new:
                    self.ready.add(one, worker)
                self._wake(len(new))
                return None
            found: Task | None = self.ready.next_after(worker, new)
            if found is not None and found.state == READY:
                found.state = RUNNING
            else:
                found = self.take(worker)
            if len(new) > 1 and self._idle:
                self._wake(len(new) - 1)
            return found

    def _settle(self, task: Task, state: int, new: list[Task]) -> None:
        """End a task, and all that ends with it; the lock is held."""
        ending = [(task, state)]
        while ending:
            one, state = ending.pop()
            if state == DONE and one.cause is not None:
                state = FAILED  # one of its children did
            one.state = state
            one.values = ()
            del self.open[one.id]
            if state != DONE:
                self._note_failure(one)
            for after in one.successors:
                after.n_before -= 1
                if state != DONE:
                    after.cause = after.cause or one
                if after.n_before == 0:
                    self._release(after, new, ending)
            one.successors = ()
            self._tell(one)
            self._leave(one, ending)
        if not self.n_top:
            while self._all_done:
                self._all_done.pop().tell()

    def _release(self, task: Task, new: list[Task], ending: list[tuple[Task, int]]) -> None:
        """Let a task begin whose predecessors have all ended, unless one of them failed."""
        if task.cause is not None:
            ending.append((task, SKIPPED))
        else:
            task.state = READY
            new.append(task)

    def _note_failure(self, task: Task) -> None:
        if task.error is not None:
            self.failed.append(task)
        else:
            task.error = _skipped(task)
            self.n_skipped += 1

    def _leave(self, task: Task, ending: list[tuple[Task, int]]) -> None:
        """Tell the task that submitted one that it has ended; that one may end with it."""
        if (parent := task.parent) is None:
            self.n_top -= 1
            return
        parent.n_children -= 1
        if task.state != DONE:
            parent.cause = parent.cause or task
        if parent.is_over and not parent.n_children:
            ending.append((parent, DONE if parent.error is None else FAILED))

    def _tell(self, task: Task) -> None:
        for waiter in task.waiters or ():
            waiter.tell()
        task.waiters = None
        while self._helpers:
            self._helpers.pop().tell()

    # Waiting

    def wait_all(self) -> None:
        """Wait until no task is open; workers do the work."""
        with self.lock:
            if not self.n_top:
                return
            waiter = _Waiter(1)
            self._all_done.append(waiter)
        waiter.wait()

    def wait_for(self, tasks: Iterable[Task]) -> None:
        """Wait for some tasks; workers do the work."""
        with self.lock:
            left = [task for task in tasks if not task.is_ended]
            if not left:
                return
            waiter = _Waiter(len(left))
            for task in left:
                task.waiters = [*(task.waiters or ()), waiter]
        waiter.wait()

    def help_with(self, tasks: Callable[[], list[Task]]) -> None:
        """Wait for some tasks, and meanwhile run what they need: for use inside a task.

        A task that waits runs nothing else: something that depends on it could end up above it on
        the same thread, and both would wait forever.
        """
        own, started = active.task, time.perf_counter()
        worker = self.ready.n_workers if active.worker is None else active.worker
        try:
            while (found := self._next_needed(tasks(), own)) is not None:
                if isinstance(found, Task):
                    self.run(found, worker, goes_on=False)
                else:
                    found.wait()
        finally:
            if own is not None:
                own.waits_for = ()
                own.waited_s += time.perf_counter() - started

    def _next_needed(self, tasks: list[Task], own: Task | None) -> Task | _Waiter | None:
        """Return a task to run, or an event to wait for; None when all have ended."""
        with self.lock:
            left = [task for task in tasks if not task.is_ended]
            if not left:
                return None
            if own is not None:
                own.waits_for = left
            for task in self._needed(left, own):
                if task.state == READY:
                    task.state = RUNNING
                    return task
            waiter = _Waiter(1)
            self._helpers.append(waiter)
            return waiter

    def _needed(self, tasks: list[Task], own: Task | None) -> list[Task]:
        """Return the open tasks that some need, the earliest first; refuse to wait for oneself."""
        children: dict[int, list[Task]] = {}
        for task in self.open.values():
            if task.parent is not None:
                children.setdefault(task.parent.id, []).append(task)
        mine = set()
        while own is not None:
            mine.add(own.id)
            own = own.parent
        seen: dict[int, Task] = {}
        stack = list(tasks)
        while stack:
            task = stack.pop()
            if task.id in seen or task.is_ended:
                continue
            if task.id in mine:
                names = ", ".join(sorted({t.label for t in tasks}))
                raise UsageError(
                    f"task '{task.label}' waits for '{names}', which cannot end before it; "
                    "a task can wait only for what does not depend on it"
                )
            seen[task.id] = task
            stack += [self.open[k] for k in task.before if k in self.open]
            stack += children.get(task.id, [])
            stack += task.waits_for
        return sorted(seen.values(), key=lambda task: task.id)

    # Ending

    def rank(self, time_of: Callable[[Task], float]) -> None:
        """Compute how far each open task is from the end, and let the policy use it."""
        with self.lock:
            for task in reversed(self.open.values()):
                after = max((s.rank for s in task.successors), default=0.0)
                task.rank = time_of(task) + after
            self.ready.reorder()

    def drop(self) -> None:
        """Forget all tasks that have not begun."""
        with self.lock:
            while self.ready.take(0) is not None:
                pass
            for task in list(self.open.values()):
                task.successors = ()
                if task.state in (WAITING, READY):
                    task.state = DROPPED
                    task.error = DependencyFailed(f"'{task.label}' was dropped before it began")
                    del self.open[task.id]
                    if task.parent is None:
                        self.n_top -= 1
                    else:
                        task.parent.n_children -= 1
                    self._tell(task)
            for task in list(self.open.values()):
                if task.is_over and not task.n_children and task.id in self.open:
                    self._settle(task, DONE if task.error is None else FAILED, [])

    def close(self) -> None:
        """Let workers end after the tasks that they run."""
        with self.lock:
            self._is_closing = True
            self._wake(len(self._idle))
        for thread in self._threads:
            thread.join()


def _skipped(task: Task) -> DependencyFailed:
    """Say why a task has no result: the first that failed, through all that were skipped."""
    first = task.cause
    while first is not None and first.state == SKIPPED and first.cause is not None:
        first = first.cause
    name = "another task" if first is None else f"task {first.id} ('{first.label}')"
    if task.start_s:
        error = DependencyFailed(f"'{task.label}' is not complete: {name}, a part of it, failed")
    else:
        error = DependencyFailed(f"'{task.label}' did not run: it depends on {name}, which failed")
    error.__cause__ = None if first is None else first.error
    return error
