"""A task graph on a number of workers: when each task starts and ends, by the policy of a run."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
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


def play_graph(
    graph: TaskGraph,
    times_s: Sequence[float],
    n_workers: int,
    ready: ReadyTasks,
    overhead_s: float = 0.0,
) -> PlayedGraph:
    """Play a graph: a free worker takes the task that the policy gives it.

    Starting a task takes the overhead, which only one worker at a time can spend: the runtime is
    one Python process. Its own loop instead of the event kernel plays ten thousand tasks in a
    fraction of the time.

    >>> from foretell.tasks.policies import Breadth
    >>> graph = TaskGraph.of([(), (), (0, 1)], [False] * 3)
    >>> play_graph(graph, [2.0, 1.0, 1.0], 2, Breadth(2, float, lambda _: 0)).end_s
    [2.0, 1.0, 3.0]
    """
    return _Play(graph, times_s, ready, overhead_s).run(n_workers)


class _Play:
    """One simulation under way."""

    def __init__(
        self, graph: TaskGraph, times_s: Sequence[float], ready: ReadyTasks, overhead_s: float
    ) -> None:
        n = len(graph)
        self.played = PlayedGraph([0.0] * n, [0.0] * n, [-1] * n)
        self._left, self._after, self._is_wait = list(graph.n_before), graph.after, graph.is_wait
        self._times_s, self._ready, self._overhead_s = times_s, ready, overhead_s
        self._running: list[tuple[float, int, int]] = []
        self._runtime_free = 0.0

    def run(self, n_workers: int) -> PlayedGraph:
        ready, running = self._ready, self._running
        free = list(range(n_workers - 1, -1, -1))
        first = [k for k, n in enumerate(self._left) if n == 0]
        waits = [k for k in first if self._is_wait[k]]
        begun = [k for k in first if not self._is_wait[k]]
        for task in sorted(begun + self._released(waits, 0.0)):
            ready.add(task)
        now = 0.0
        while True:
            while free and len(ready):
                worker = free.pop()
                given = ready.take(worker)
                assert given is not None
                self._start(given, worker, now)
            if not running:
                return self.played
            now, task, worker = heapq.heappop(running)
            following = ready.next_after(worker, self._released([task], now))
            if following is None:
                free.append(worker)
            else:
                self._start(following, worker, now)

    def _start(self, task: int, worker: int, now: float) -> None:
        begun = max(now, self._runtime_free) + self._overhead_s
        self._runtime_free = begun
        ended = begun + self._times_s[task]
        played = self.played
        played.start_s[task], played.end_s[task], played.worker[task] = begun, ended, worker
        heapq.heappush(self._running, (ended, task, worker))

    def _released(self, tasks: list[int], now: float) -> list[int]:
        """Return what becomes ready when some tasks end; waits end at once."""
        left, is_wait = self._left, self._is_wait
        new: list[int] = []
        while tasks:
            for one in self._after[tasks.pop()]:
                left[one] -= 1
                if left[one]:
                    continue
                if is_wait[one]:
                    self.played.start_s[one] = self.played.end_s[one] = now
                    tasks.append(one)
                else:
                    new.append(one)
        return sorted(new) if len(new) > 1 else new
