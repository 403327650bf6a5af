"""A task graph on a number of workers: when each task starts and ends, by the policy of a run."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol


class ReadyTasks(Protocol):
    """Tasks that can start, in the order of a policy; the runtime asks the same object."""

    def add(self, item: Any, worker: int | None = None) -> None:
        """Accept a task that became ready."""

    def take(self, worker: int) -> Any | None:
        """Return the task that a worker runs next; None if there is none."""

    def next_after(self, worker: int, new: list[Any]) -> Any | None:
        """Accept the tasks that a worker made ready, and return the one that it runs next."""

    def __len__(self) -> int:
        """Return how many tasks are ready."""


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """Tasks by number, each after some that have lower numbers.

    Attributes
    ----------
    after
        The successors of each task.
    n_before
        How many tasks each waits for.
    is_wait
        Which of them are waits of the program: they take no time and no worker.
    """

    after: Sequence[Sequence[int]]
    n_before: Sequence[int]
    is_wait: Sequence[bool]

    @classmethod
    def of(cls, before: Sequence[Sequence[int]], is_wait: Sequence[bool]) -> TaskGraph:
        """Turn predecessors into successors.

        >>> TaskGraph.of([(), (0,), (0, 1)], [False] * 3).after
        [[1, 2], [2], []]
        """
        after: list[list[int]] = [[] for _ in before]
        for task, own in enumerate(before):
            for one in own:
                if not 0 <= one < task:
                    raise ValueError(f"task {task} cannot wait for task {one}")
                after[one].append(task)
        return cls(after, [len(own) for own in before], is_wait)

    def __len__(self) -> int:
        return len(self.n_before)


@dataclass(frozen=True, eq=False)
class PlayedGraph:
    """When each task ran, and on which worker; -1 for waits."""

    start_s: list[float]
    end_s: list[float]
    worker: list[int]

    @property
    def makespan_s(self) -> float:
        """The time from the start to the end of the last task."""
        return max(self.end_s, default=0.0)


@dataclass(frozen=True)
class Overhead:
    """What the runtime itself takes for a task; one thread at a time, as Python's lock wants it.

    Attributes
    ----------
    submit_s
        What the program takes to submit a task, while workers run others.
    run_s
        What a worker takes to end a task and begin the next.
    patience_s
        How long a worker waits for the lock while the program goes on submitting.
    wake_s
        What it takes to wake a worker that waits, for a task or for the lock. Shorter tasks of
        another are over before it has the lock, and that one goes on: they run one at a time.
    held_s
        For how long at most tasks wait for the program to submit others, if no other task is open:
        at the beginning, and after waits for all that was submitted.
    build_s
        What it takes to submit a task where the graph is only built; 0 where that is not known.
    """

    submit_s: float = 0.0
    run_s: float = 0.0
    patience_s: float = 0.0
    wake_s: float = 0.0
    held_s: float = 0.0
    build_s: float = 0.0

    def of_program(self, build_s: float) -> Overhead:
        """Return the same for a program whose graph takes so long to build, for a task.

        To submit a task takes longer by as much as it does for empty ones.
        """
        longer = self.submit_s / self.build_s if self.build_s > 0 else 1.0
        return replace(self, submit_s=max(self.submit_s, longer * build_s))

    @property
    def task_s(self) -> float:
        """What it takes for a task in all."""
        return self.submit_s + self.run_s


def play_graph(
    graph: TaskGraph,
    times_s: Sequence[float],
    n_workers: int,
    ready: ReadyTasks,
    overhead: Overhead | None = None,
) -> PlayedGraph:
    """Play a graph: a free worker takes the task that the policy gives it.

    The program submits tasks in the order of their numbers, and stops at its waits. The runtime is
    one Python process: submitting a task and beginning one take turns. Its own loop instead of the
    event kernel plays ten thousand tasks in a fraction of the time.

    >>> from foretell.tasks.running.policies import Breadth
    >>> graph = TaskGraph.of([(), (), (0, 1)], [False] * 3)
    >>> play_graph(graph, [2.0, 1.0, 1.0], 2, Breadth(2, float, lambda _: 0)).end_s
    [2.0, 1.0, 3.0]
    >>> slow = Overhead(submit_s=0.5)
    >>> play_graph(graph, [2.0, 1.0, 1.0], 2, Breadth(2, float, lambda _: 0), slow).start_s
    [0.5, 1.0, 2.5]
    """
    return _Play(graph, times_s, ready, overhead or Overhead()).run(n_workers)


class _Play:
    """One simulation under way."""

    def __init__(
        self, graph: TaskGraph, times_s: Sequence[float], ready: ReadyTasks, overhead: Overhead
    ) -> None:
        n = len(graph)
        self.played = PlayedGraph([0.0] * n, [0.0] * n, [-1] * n)
        # Being submitted is one more thing that a task waits for.
        self._left = [1 + n_before for n_before in graph.n_before]
        self._after, self._is_wait = graph.after, graph.is_wait
        self._times_s, self._ready, self._overhead = times_s, ready, overhead
        self._running: list[tuple[float, int, int]] = []
        self._lock_free = 0.0
        self._next = 0  # what the program submits now, and when it has done so
        self._submitted = overhead.submit_s
        self._is_waiting = n == 0
        self._held_to = overhead.held_s  # until when tasks are held back
        self._stops = [*(k for k in range(n) if graph.is_wait[k]), n]

    def run(self, n_workers: int) -> PlayedGraph:
        ready, running, wake_s = self._ready, self._running, self._overhead.wake_s
        free = list(range(n_workers - 1, -1, -1))
        now = 0.0
        self._submit(now)
        while True:
            while free and len(ready) and not self._is_held:
                worker = free.pop()
                given = ready.take(worker)
                assert given is not None
                self._start(given, worker, now + wake_s)
            is_next = not running or self._submitted <= running[0][0]
            if free and is_next and not self._is_waiting:
                now = max(now, self._submitted)
                self._submit(now)
                continue
            if not running:
                return self.played
            now, task, worker = heapq.heappop(running)
            self._submit(now)
            following = ready.next_after(worker, self._released([task], now))
            if following is None:
                free.append(worker)
            else:
                self._start(following, worker, now)

    @property
    def _is_held(self) -> bool:
        """Whether tasks wait for the program to submit others."""
        return not self._is_waiting and self._submitted < self._held_to

    def _submit(self, now: float) -> None:
        """Submit what the program submits until now; it stops at a wait, and at its end."""
        left = self._left
        # It comes to a wait as soon as the task before is submitted.
        while not self._is_waiting and (self._submitted <= now or self._is_wait[self._next]):
            task = self._next
            self._next += 1
            left[task] -= 1
            self._is_waiting = self._next == len(left)
            if not self._is_wait[task]:
                self._submitted += self._overhead.submit_s
                if not left[task]:
                    self._ready.add(task)
            elif left[task]:
                self._is_waiting = True
            else:
                self._released([task], now)

    def _start(self, task: int, worker: int, now: float) -> None:
        overhead, begun = self._overhead, max(now, self._lock_free)
        if not self._is_waiting:
            n_left = self._stops[bisect_left(self._stops, self._next)] - self._next
            over = self._submitted + (n_left - 1) * overhead.submit_s
            begun = max(begun, min(begun + overhead.patience_s, over))
            if begun < over:
                self._submitted += overhead.run_s
        begun += overhead.run_s
        ended = begun + self._times_s[task]
        self._lock_free = ended if self._times_s[task] < overhead.wake_s else begun
        played = self.played
        played.start_s[task], played.end_s[task], played.worker[task] = begun, ended, worker
        heapq.heappush(self._running, (ended, task, worker))

    def _released(self, tasks: list[int], now: float) -> list[int]:
        """Return what becomes ready when some tasks end; after a wait the program goes on."""
        left, is_wait = self._left, self._is_wait
        new: list[int] = []
        while tasks:
            for one in self._after[tasks.pop()]:
                left[one] -= 1
                if left[one]:
                    continue
                if is_wait[one]:
                    self.played.start_s[one] = self.played.end_s[one] = now
                    self._submitted = now + self._overhead.submit_s
                    self._is_waiting = self._next == len(left)
                    is_idle = not (new or self._running or len(self._ready))
                    self._held_to = now + self._overhead.held_s if is_idle else 0.0
                    tasks.append(one)
                else:
                    new.append(one)
        return sorted(new) if len(new) > 1 else new
