"""The event kernel of all simulations: a clock, and handlers called in the order of their time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(eq=False, slots=True)
class Event:
    """Something that will happen, unless it is canceled."""

    at_s: float
    handler: Callable[..., None] | None
    arguments: tuple[Any, ...]

    def cancel(self) -> None:
        """Make sure that it does not happen."""
        self.handler = None


class Events:
    """A clock and the events to come.

    Events at the same moment happen in the order in which they were planned, so that the same seed
    gives the same simulation.

    >>> events = Events(seed=1)
    >>> _ = events.after(2.0, print, "second")
    >>> _ = events.after(1.0, print, "first")
    >>> events.run()
    first
    second
    >>> events.now_s
    2.0
    """

    def __init__(self, seed: int = 0) -> None:
        self.now_s = 0.0
        self.n_handled = 0
        self.random = np.random.default_rng(seed)
        self._heap: list[tuple[float, int, Event]] = []
        self._n_planned = 0

    def at(self, at_s: float, handler: Callable[..., None], *arguments: Any) -> Event:
        """Call a handler at a moment, now at the earliest."""
        if not self.now_s <= at_s < math.inf:
            raise ValueError(f"an event at {at_s} s cannot be planned at {self.now_s} s")
        event = Event(at_s, handler, arguments)
        self._n_planned += 1
        heapq.heappush(self._heap, (at_s, self._n_planned, event))
        return event

    def after(self, delay_s: float, handler: Callable[..., None], *arguments: Any) -> Event:
        """Call a handler after a delay."""
        return self.at(self.now_s + delay_s, handler, *arguments)

    def run(self, until_s: float = math.inf) -> None:
        """Let events happen until none is left, or up to a moment and including it."""
        while self._heap and self._heap[0][0] <= until_s:
            at_s, _, event = heapq.heappop(self._heap)
            if event.handler is None:
                continue
            self.now_s = at_s
            self.n_handled += 1
            handler, event.handler = event.handler, None
            handler(*event.arguments)
        if until_s < math.inf:
            self.now_s = max(self.now_s, until_s)
