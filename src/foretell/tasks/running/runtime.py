"""The runtime: threads that run ready tasks, errors that stop only what depends on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from foretell.errors import UsageError
from foretell.tasks.declare import active
from foretell.tasks.running.policies import Ready
from foretell.tasks.running.submitted import (
    DONE,
    FAILED,
    READY,
    RUNNING,
    SKIPPED,
    WAITING,
    Task,
    give_up,
    is_within,
    why_skipped,
)
from foretell.tasks.running.threads import LONG_S, LONG_SHARE, Waiter, let_others_release

#: When it is looked first whether a program still submits tasks; each pause is twice the last.
_FIRST_LOOK_S, _N_LOOKS = 1e-3, 7
#: Tasks are held back for so long at most, and while submitting one takes no longer than this.
MOST_HELD_S, DENSE_S = _FIRST_LOOK_S * (2**_N_LOOKS - 1), 50e-6
#: So many tasks are assumed to be long before any has run.
_ASSUMED_LONG = 3
#: A task that took less had a core all the time; to ask how much takes about a microsecond.
_SHORT_S = 20e-6


class Runtime:
    """Runs tasks on threads.

    Parameters
    ----------
    call
        Runs the body of a task for a worker, here or elsewhere.
    prepare
        Called first in each thread.
    holds
        Whether tasks are held back while the program submits others, if none is open.
    """

    def __init__(
        self,
        ready: Ready,
        call: Callable[[Task, int], Any],
        prepare: Callable[[], None],
        *,
        holds: bool = False,
    ) -> None:
        self.ready, self._call, self._prepare = ready, call, prepare
        self._holds = holds
        self.lock = threading.Lock()
        self.open: dict[int, Task] = {}
        self.n_top = 0  # open tasks that no other task submitted
        self.failed: list[Task] = []
        self.skipped: list[Task] = []
        self.has_long_tasks = True
        self._n_ran, self._n_long = 0, _ASSUMED_LONG
        self._idle: list[threading.Lock] = []
        self._all_done: list[Waiter] = []
        self._helpers: list[Waiter] = []
        self._guests: set[int] = set()  # numbers of workers of other graphs that help
        self.is_dropped = self._is_closing = False
        self.is_held = False
        self._n_admitted = 0
        self._watcher: threading.Lock | None = None
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
        if self.is_dropped:  # by a task that still runs
            raise give_up(task)
        self.open[task.id] = task
        self._n_admitted += 1
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
            self._admit_ready(task)

    def _admit_ready(self, task: Task) -> None:
        if task.cause is not None:
            self._settle(task, SKIPPED, [])
            return
        task.state = READY
        if self._holds and not self.is_held and len(self.open) == 1:
            self._hold()
        self.ready.add(task, active.worker)
        if not self.is_held:
            self._wake(1)

    # Holding back: a program that submits and workers that run short tasks want Python's lock at
    # the same time, and handing it over takes longer than such a task. So one goes after the other.

    def _hold(self) -> None:
        """Let no task begin while the program submits others; the lock is held."""
        self.is_held = True
        self._wake(1)  # for the one who watches

    def begin(self) -> None:
        """Let tasks begin that were held back; the lock is held."""
        if not self.is_held:
            return
        self.is_held = False
        watcher, self._watcher = self._watcher, None  # first: Ctrl-C may come between
        if watcher is not None:
            watcher.release()
        self._wake(len(self.ready))

    def _watch(self, signal: threading.Lock) -> None:
        """Watch a program that submits; let tasks begin when it does something else."""
        n_seen = self._n_admitted
        for k in range(_N_LOOKS):
            pause_s = _FIRST_LOOK_S * 2**k
            if signal.acquire(timeout=pause_s):
                return
            with self.lock:
                if self._watcher is not signal:  # tasks began just now
                    signal.acquire()
                    return
                n_new, n_seen = self._n_admitted - n_seen, self._n_admitted
                if n_new * DENSE_S < pause_s or k == _N_LOOKS - 1:
                    self._watcher = None
                    self.begin()
                    return

    # Running

    def _wake(self, n: int) -> None:
        while n > 0 and self._idle:
            self._idle.pop().release()
            n -= 1

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
                        is_watching = self.is_held and self._watcher is None
                        if is_watching:
                            self._watcher = signal
                        else:
                            self._idle.append(signal)
                if task is None:
                    if is_watching:
                        self._watch(signal)
                    else:
                        signal.acquire()
                    continue
            task = self.run(task, worker)

    def take(self, worker: int) -> Task | None:
        """Return a ready task that nobody has taken; the lock is held."""
        while len(self.ready) and not self.is_held:
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
        helped_s = active.helped_s
        task.start_s, cpu_s = time.perf_counter(), time.thread_time()
        try:
            value = self._call(task, worker)
        except BaseException as raised:  # a body may raise anything, and the worker goes on
            error = raised
        task.end_s = time.perf_counter()
        task.cpu_s = task.end_s - task.start_s
        if task.cpu_s > _SHORT_S:
            task.cpu_s = time.thread_time() - cpu_s - (active.helped_s - helped_s)
        active.task = outer
        let_others_release(self.lock)
        with self.lock:
            self._n_ran += 1
            if task.cpu_s > LONG_S:
                self._n_long += 1
            self.has_long_tasks = self._n_long >= LONG_SHARE * self._n_ran
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

    def run_aside(self, task: Task, worker: int) -> None:
        """Run a task for someone who waits; what is to end the program ends that, too."""
        helped_s, cpu_s = active.helped_s, time.thread_time()
        self.run(task, worker, goes_on=False)
        # What this task helped with in turn is part of that.
        active.helped_s = helped_s + time.thread_time() - cpu_s
        is_end = isinstance(task.error, KeyboardInterrupt | SystemExit)
        if is_end and threading.current_thread() is threading.main_thread():
            assert task.error is not None
            raise task.error

    def _settle(self, task: Task, state: int, new: list[Task]) -> None:
        """End a task, and all that ends with it; the lock is held."""
        ending = [(task, state)]
        while ending:
            one, state = ending.pop()
            if state == DONE and one.cause is not None:
                state = FAILED  # one of its children did
            if state != DONE:
                self._note_failure(one)
            one.state = state  # after its error: whoever sees that it has ended takes it unlocked
            one.values = ()
            del self.open[one.id]
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
            task.error = why_skipped(task)
            self.skipped.append(task)

    def forget(self, task: Task) -> None:
        """Forget a failure that is raised to its caller, who may catch it."""
        with self.lock:
            self.failed = [one for one in self.failed if one is not task]
            self.skipped = [one for one in self.skipped if one is not task]
            parent, left = task.parent, [*self.failed, *self.skipped]
            if parent is not None and parent.cause is task:
                parent.cause = next((one for one in left if one.parent is parent), None)

    def take_failures(self, own: Task | None) -> tuple[list[Task], list[Task]]:
        """Return what failed and what did not run for that, once; of a task, what is within it.

        Where nothing failed, tasks did not run for failures that were raised, and caught, before.
        """
        with self.lock:
            failed = [task for task in self.failed if is_within(task, own)]
            skipped = [task for task in self.skipped if is_within(task, own)]
            if not (failed or skipped):
                return [], []
            self.failed = [task for task in self.failed if not is_within(task, own)]
            self.skipped = [task for task in self.skipped if not is_within(task, own)]
            if own is not None:
                own.cause = None  # whoever catches the error has dealt with it
            return failed, [task for task in skipped if not task.start_s]

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
            self.begin()
            waiter = Waiter(1)
            self._all_done.append(waiter)
        waiter.wait()

    def wait_for(self, tasks: Iterable[Task]) -> None:
        """Wait for some tasks; workers do the work."""
        with self.lock:
            left = [task for task in tasks if not task.is_ended]
            if not left:
                return
            self.begin()
            waiter = Waiter(len(left))
            for task in left:
                task.waiters = [*(task.waiters or ()), waiter]
        waiter.wait()

    def help_with(self, tasks: Callable[[], list[Task]], own: Task | None) -> None:
        """Wait for some tasks, and meanwhile run what they need: for use inside a task.

        A task that waits runs nothing else: something that depends on it could end up above it on
        the same thread, and both would wait forever.

        Parameters
        ----------
        own
            The task that waits; None where whoever submits does. It may be one in which another
            graph is open, whose tasks then help here.
        """
        before, started = (active.graph, active.task, active.worker), time.perf_counter()
        is_guest = active.graph is not self._graph
        if is_guest:
            active.graph, active.task, active.worker = self._graph, own, self._invited()
        worker = self.ready.n_workers if active.worker is None else active.worker
        try:
            while (found := self._next_needed(tasks(), own)) is not None:
                if isinstance(found, Task):
                    self.run_aside(found, worker)
                else:
                    found.wait()
        finally:
            active.graph, active.task, active.worker = before
            with self.lock:
                self._guests.discard(worker)
                if own is not None and own.waits_for is not None:
                    own.waits_for.pop(threading.get_ident(), None)
            if own is not None and not is_guest:
                own.waited_s += time.perf_counter() - started

    def _invited(self) -> int:
        """Return a number for a worker of another graph that helps here."""
        with self.lock:
            number = self.ready.n_workers + 1
            while number in self._guests:
                number += 1
            self._guests.add(number)
        return number

    def _next_needed(self, tasks: list[Task], own: Task | None) -> Task | Waiter | None:
        """Return a task to run, or an event to wait for; None when all have ended."""
        with self.lock:
            left = [task for task in tasks if not task.is_ended]
            if not left:
                return None
            self.begin()
            if own is not None:
                own.waits_for = own.waits_for or {}
                own.waits_for[threading.get_ident()] = left
            for task in self.needed(left, own):
                if task.state == READY:
                    task.state = RUNNING
                    return task
            waiter = Waiter(1)
            self._helpers.append(waiter)
            return waiter

    def needed(self, tasks: Iterable[Task], own: Task | None) -> list[Task]:
        """Return the open tasks that some need, the earliest first; the lock is held.

        A task must not wait for itself: a UsageError if its own is among them.
        """
        mine: set[int] = set()
        seen: dict[int, Task] = {}
        stack = list(tasks)
        while own is not None:
            mine.add(own.id)
            own = own.parent
        children: dict[int, list[Task]] | None = None
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
            if task.n_children:
                children = self._by_parent() if children is None else children
                stack += children.get(task.id, [])
            for others in (task.waits_for or {}).values():
                stack += others
        return sorted(seen.values(), key=lambda task: task.id)

    def _by_parent(self) -> dict[int, list[Task]]:
        found: dict[int, list[Task]] = {}
        for task in self.open.values():
            if task.parent is not None:
                found.setdefault(task.parent.id, []).append(task)
        return found

    # Ending

    def rank(self, time_of: Callable[[Task], float]) -> None:
        """Compute how far each open task is from the end, and let the policy use it."""
        with self.lock:
            for task in reversed(self.open.values()):
                after = max((s.rank for s in task.successors), default=0.0)
                task.rank = time_of(task) + after
            self.ready.reorder()

    def drop(self) -> None:
        """Forget all tasks that have not begun, and those that others still submit."""
        with self.lock:
            self.is_dropped = True
            while self.ready.take(0) is not None:
                pass
            for task in list(self.open.values()):
                task.successors = ()
                if task.state in (WAITING, READY):
                    give_up(task)
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
            self.begin()
            self._is_closing = True
            self._wake(len(self._idle))
        for thread in self._threads:
            thread.join()
