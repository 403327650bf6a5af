"""Policies: which ready task a worker takes next; runs and simulations ask the same objects."""

from __future__ import annotations

import heapq
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from foretell.errors import Option, UsageError, suggest

#: Any item: a task of a run, or its number in a simulation.
Item = Any


class Ready(ABC):
    """Tasks whose predecessors have ended, in the order of a policy.

    Parameters
    ----------
    rank_of
        The time from the start of a task to the end of all that follows it.
    priority_of
        Tasks with a priority above 0 go first under every policy, the highest before others.
    """

    def __init__(
        self,
        n_workers: int,
        rank_of: Callable[[Item], float],
        priority_of: Callable[[Item], int],
        seed: int = 0,
    ) -> None:
        self.n_workers = n_workers
        self._rank_of, self._priority_of = rank_of, priority_of
        self._urgent: list[tuple[int, int, Item]] = []
        self._number = count()

    def add(self, item: Item, worker: int | None = None) -> None:
        """Accept a task that became ready by a worker, or by whoever submits (None)."""
        priority = self._priority_of(item)
        if priority > 0:
            heapq.heappush(self._urgent, (-priority, next(self._number), item))
        else:
            self._put(item, worker)

    def take(self, worker: int) -> Item | None:
        """Return the task that a worker should run next; None if there is none."""
        return heapq.heappop(self._urgent)[2] if self._urgent else self._get(worker)

    def next_after(self, worker: int, new: list[Item]) -> Item | None:
        """Accept the tasks that a worker made ready, and return the one that it runs next."""
        for item in new:
            self.add(item, worker)
        return self.take(worker)

    def reorder(self) -> None:  # noqa: B027 - most policies know no ranks
        """Notice that ranks have changed."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many tasks are ready."""

    @abstractmethod
    def _put(self, item: Item, worker: int | None) -> None: ...

    @abstractmethod
    def _get(self, worker: int) -> Item | None: ...


class Breadth(Ready):
    """One queue, first in first out; who ends a task keeps the first that became ready by it."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._queue: deque[Item] = deque()

    def __len__(self) -> int:
        return len(self._queue) + len(self._urgent)

    def next_after(self, worker: int, new: list[Item]) -> Item | None:
        """Keep the first, unless something urgent waits."""
        if not new or self._urgent or any(self._priority_of(item) > 0 for item in new):
            return super().next_after(worker, new)
        self._queue.extend(new[1:])
        return new[0]

    def _put(self, item: Item, worker: int | None) -> None:
        self._queue.append(item)

    def _get(self, worker: int) -> Item | None:
        return self._queue.popleft() if self._queue else None


class Work(Ready):
    """A queue for each worker: it takes its newest task, and steals the oldest of another."""

    def __init__(self, *given: Any, seed: int = 0, **options: Any) -> None:
        super().__init__(*given, **options)
        self._queues: list[deque[Item]] = [deque() for _ in range(self.n_workers)]
        self._random = random.Random(seed)  # noqa: S311 - whom to steal from is no secret
        self._n = 0
        self._turn = 0

    def __len__(self) -> int:
        return self._n + len(self._urgent)

    def _put(self, item: Item, worker: int | None) -> None:
        if worker is None:
            worker = self._turn
            self._turn = (worker + 1) % self.n_workers
        self._queues[worker % self.n_workers].append(item)
        self._n += 1

    def _get(self, worker: int) -> Item | None:
        if not self._n:
            return None
        self._n -= 1
        own = self._queues[worker % self.n_workers]
        if own:
            return own.pop()
        filled = [queue for queue in self._queues if queue]
        victim = filled[0] if len(filled) == 1 else self._random.choice(filled)
        return victim.popleft()


class Critical(Ready):
    """The task with the longest way to the end first."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._heap: list[tuple[float, int, Item]] = []

    def __len__(self) -> int:
        return len(self._heap) + len(self._urgent)

    def reorder(self) -> None:
        """Sort by the new ranks; among equal ones the oldest stays first."""
        self._heap = [(-self._rank_of(item), number, item) for _, number, item in self._heap]
        heapq.heapify(self._heap)

    def _put(self, item: Item, worker: int | None) -> None:
        heapq.heappush(self._heap, (-self._rank_of(item), next(self._number), item))

    def _get(self, worker: int) -> Item | None:
        return heapq.heappop(self._heap)[2] if self._heap else None


POLICIES: dict[str, type[Ready]] = {"critical": Critical, "breadth": Breadth, "work": Work}


def check_policy(name: str) -> None:
    """Raise a UsageError unless there is such a policy."""
    if name not in POLICIES:
        raise UsageError(
            f"there is no policy '{name}'. {suggest(name, POLICIES)}", option=Option("policy")
        )


def upward_ranks(times_s: Iterable[float], after: Iterable[Iterable[int]]) -> list[float]:
    """Return for each task its time and the longest chain of times that follows it.

    Parameters
    ----------
    after
        The successors of each task; each has a higher number than the task.

    >>> upward_ranks([1.0, 5.0, 2.0], [[1, 2], [], []])
    [6.0, 5.0, 2.0]
    """
    ranks = list(times_s)
    successors = list(after)
    for task in range(len(ranks) - 1, -1, -1):
        if successors[task]:
            ranks[task] += max(ranks[s] for s in successors[task])
    return ranks
