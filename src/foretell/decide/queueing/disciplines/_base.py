"""The interface of a discipline: means in closed form, and transforms of response times."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from foretell.decide.queueing.service._base import Complex
from foretell.decide.queueing.service.sprinted import Sprinted
from foretell.decide.queueing.streams import Stream


class Discipline(abc.ABC):
    """What the engine does when a job of a higher class arrives.

    Parameters
    ----------
    streams
        The classes, the lowest priority first; jobs of one class are served in order of arrival.
    """

    def __init__(self, streams: Sequence[Stream]) -> None:
        self.streams = tuple(streams)

    @abc.abstractmethod
    def mean_wait(self, k: int) -> float:
        """Return the mean time until a job of class k first runs."""

    @abc.abstractmethod
    def mean_response(self, k: int) -> float:
        """Return the mean time from arrival to end of jobs of class k; it may be infinite."""

    @abc.abstractmethod
    def response_transform(self, k: int, s: Complex) -> Complex:
        """Return the transform of the response time of class k."""

    def gross_s(self, k: int) -> float:
        """Return how long the engine works on a job of class k, with what is thrown away."""
        return self.streams[k].service.mean

    def useful_s(self, k: int) -> float:
        """Return how long the engine works on what is kept of a job of class k."""
        return self.streams[k].service.mean

    def sprint_s(self, k: int) -> float:
        """Return how long the engine sprints for a job of class k, with what is thrown away."""
        service = self.streams[k].service
        return service.sprint_s if isinstance(service, Sprinted) else 0.0

    def typical_s(self, k: int) -> float:
        """Return a typical response time; the mean, where it is finite."""
        return self.mean_response(k)

    def above(self, k: int) -> tuple[Stream, ...]:
        """Return the classes above k."""
        return self.streams[k + 1 :]

    @property
    def load(self) -> float:
        """The share of time in which the engine works; the queue grows without limit from 1 on."""
        return sum(s.rate_per_s * self.gross_s(k) for k, s in enumerate(self.streams))
