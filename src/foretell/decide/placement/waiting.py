"""Tasks that wait for room: in the order of arrival, and without starving the large ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foretell.decide.placement.fleet import Amounts, Fleet, free_of
from foretell.decide.placement.tasks import Task


@dataclass(eq=False, slots=True)
class Waiter:
    """A task that waits.

    Attributes
    ----------
    order
        Its place in the order of arrival.
    own
        The node that is kept free for it.
    allowed
        Which nodes it may use, whatever room they have; None for all.
    """

    order: int
    task: Task
    need: Amounts
    own: int | None = None
    allowed: NDArray[np.bool_] | None = None


@dataclass(eq=False)
class Waiting:
    """All tasks that wait; those with the same needs fit, or not, together."""

    _by_need: dict[bytes, deque[Waiter]] = field(default_factory=dict)
    last_placed: int = -1

    def __len__(self) -> int:
        return sum(map(len, self._by_need.values()))

    def __iter__(self) -> Iterator[Waiter]:
        found = (waiter for queue in self._by_need.values() for waiter in queue)
        return iter(sorted(found, key=lambda waiter: waiter.order))

    def add(self, waiter: Waiter) -> None:
        """Add a task that arrived later than all others."""
        self._by_need.setdefault(waiter.need.tobytes(), deque()).append(waiter)

    def remove(self, waiter: Waiter) -> None:
        """Remove a task that found a node."""
        key = waiter.need.tobytes()
        self._by_need[key].remove(waiter)
        if not self._by_need[key]:
            del self._by_need[key]
        self.last_placed = max(self.last_placed, waiter.order)

    def next_for(self, fleet: Fleet, node: int) -> Waiter | None:
        """Return the first task that fits on a node which just got room; None if none does."""
        if not fleet.ready[node]:
            return None
        free = free_of(fleet.capacity[:, node] - fleet.used[:, node])
        found: Waiter | None = None
        for queue in self._by_need.values():
            if not (queue[0].need <= free).all():
                continue
            if not fleet.reserved[node]:
                first: Waiter | None = queue[0]
            else:
                first = next((waiter for waiter in queue if waiter.own == node), None)
            if first is not None and (found is None or first.order < found.order):
                found = first
        return found

    def was_overtaken(self, waiter: Waiter) -> bool:
        """Whether a task that arrived later has been placed already."""
        return self.last_placed > waiter.order

    def fit_without(self, fleet: Fleet, free: Amounts) -> bool:
        """Whether all waiting tasks fit, first fit, into what would be free on each node."""
        left = free_of(free)
        for waiter in self:
            usable = fleet.ready if waiter.allowed is None else fleet.ready & waiter.allowed
            fits = np.flatnonzero(usable & np.all(waiter.need[:, None] <= left, axis=0))
            if not len(fits):
                return False
            left[:, fits[0]] -= waiter.need
        return True
