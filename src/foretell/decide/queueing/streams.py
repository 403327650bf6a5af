"""Streams of jobs of one class: how many arrive, and how long one takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretell.decide.queueing.fixed_point import fixed_point
from foretell.decide.queueing.service._base import Complex, ServiceTime


@dataclass(frozen=True)
class Stream:
    """Jobs of one class that arrive at random with a rate, and the time of one alone.

    Attributes
    ----------
    evict_s
        What the engine takes to make way when one of them is interrupted.
    """

    name: str
    rate_per_s: float
    service: ServiceTime
    evict_s: float = 0.0

    @property
    def load(self) -> float:
        """The share of time that its jobs take."""
        return self.rate_per_s * self.service.mean


def total_rate(streams: Sequence[Stream]) -> float:
    """Return how many jobs of all streams arrive per second."""
    return sum(stream.rate_per_s for stream in streams)


def work_rate(streams: Sequence[Stream], power: int) -> float:
    """Return the sum of rates times means of a power of the time: for 1, the load."""
    return sum(s.rate_per_s * s.service.moments[power - 1] for s in streams)


def arriving_work(streams: Sequence[Stream], z: Complex) -> Complex:
    """Return the sum of rates times transforms."""
    total = np.zeros_like(z)
    for stream in streams:
        total = total + stream.rate_per_s * stream.service.transform(z)
    return total


def busy_rate(streams: Sequence[Stream], s: Complex) -> Complex:
    """Return λ·B(s): the rate of jobs times the transform of the busy period that one starts.

    A busy period ends when all work that was there and came meanwhile is done. It does not depend
    on the order of jobs, so that all streams count as one.
    """
    rate = total_rate(streams)
    if not streams:
        return np.zeros_like(s)
    busy = fixed_point(
        lambda b: arriving_work(streams, s + rate * (1 - b)) / rate, np.zeros_like(s)
    )
    return rate * busy
