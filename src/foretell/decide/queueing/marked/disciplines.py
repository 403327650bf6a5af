"""Priorities for jobs that arrive in bursts: who waits for whom, by the states of arrivals."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from foretell.decide.queueing.disciplines._base import Discipline
from foretell.decide.queueing.marked.clearing import Clearing, First, clearing
from foretell.decide.queueing.marked.work_ahead import WorkAhead
from foretell.decide.queueing.service._base import Complex, Reals, ServiceTime
from foretell.decide.queueing.streams import Stream

_N_CIRCLE = 16
_RADIUS = 0.03  # small against the decay of the tail, large against rounding
_NOW = np.zeros(1, dtype=complex)


class Marked(Discipline):
    """A discipline whose jobs arrive by a Markov process.

    A job waits until the work ahead of it is cleared, and all that higher classes bring meanwhile.

    Parameters
    ----------
    streams
        The classes, the lowest priority first.
    matrices
        D0, and one matrix for each class.
    """

    def __init__(self, streams: Sequence[Stream], matrices: Sequence[Reals]) -> None:
        super().__init__(streams)
        self.matrices = tuple(matrices)
        self._means: dict[tuple[str, int], float] = {}

    @abc.abstractmethod
    def _works(self) -> list[WorkAhead]:
        """Return the work ahead of jobs of each class."""

    @cached_property
    def _ahead(self) -> list[WorkAhead]:
        return self._works()

    def mean_wait(self, k: int) -> float:
        """Return the mean time until a job of class k first runs."""
        return self._mean("wait", k, lambda s: self._wait(k, s))

    def mean_response(self, k: int) -> float:
        """Return the mean time from arrival to end."""
        return self._mean("response", k, lambda s: self.response_transform(k, s))

    def _mean(self, what: str, k: int, transform: Callable[[Complex], Complex]) -> float:
        if (what, k) not in self._means:
            self._means[what, k] = mean_of(transform, self.streams[k].service.mean)
        return self._means[what, k]

    def _wait(self, k: int, s: Complex) -> Complex:
        """Return the transform of the wait."""
        return self._until_cleared(k, s, None)

    def _until_cleared(self, k: int, s: Complex, own: ServiceTime | None) -> Complex:
        """Return the transform of the time until the work ahead, and a job's own, is cleared."""
        flat = np.asarray(s, dtype=complex).ravel()
        higher = self._clearing(k + 1, flat)
        begun = self._ahead[k].transform(higher.roots) @ self.matrices[k + 1]
        by_root = (begun * np.swapaxes(higher.right, -1, -2)).sum(axis=-1)
        by_root = by_root * higher.left.sum(axis=-1)
        if own is not None:
            by_root = by_root * own.transform(higher.roots)
        found: Complex = by_root.sum(axis=-1) / self.streams[k].rate_per_s
        return found.reshape(np.shape(s))

    def _first(self, k: int) -> First:
        """Return the classes from k on."""
        services = (stream.service for stream in self.streams[k:])
        return tuple(zip(self.matrices[k + 1 :], services, strict=True))

    def _clearing(self, k: int, s: Complex) -> Clearing:
        """Return the clearing of work, before which the classes from k on go."""
        return clearing(np.sum(self.matrices[: k + 1], axis=0), self._first(k), s)

    def _cleared(self, k: int) -> Clearing:
        """Return the same at s = 0, where only states matter."""
        found = self._clearing(k, _NOW)
        return Clearing(found.roots[0], found.right[0], found.left[0])

    def _empty(self, k: int) -> Reals:
        """Return the probabilities that there is no work of the classes from k on, by state."""
        found = self._cleared(k)
        row = found.left[np.abs(found.roots).argmin()]
        free = 1 - sum(stream.load for stream in self.streams[k:])
        return np.asarray((row / row.sum()).real * free)


class MarkedResume(Marked):
    """A job that is interrupted goes on where it was: for a class, lower ones do not exist."""

    def response_transform(self, k: int, s: Complex) -> Complex:
        """Return the transform of the time until all work ahead and the job itself is done."""
        return self._until_cleared(k, s, self.streams[k].service)

    def _works(self) -> list[WorkAhead]:
        return [
            WorkAhead(self._cleared(k), self._first(k), self._empty(k))
            for k in range(len(self.streams))
        ]


class MarkedNonPreemptive(Marked):
    """A job that runs is finished first."""

    def response_transform(self, k: int, s: Complex) -> Complex:
        """Return the transform of the wait, times that of the time of a job."""
        return self._wait(k, s) * self.streams[k].service.transform(s)

    def mean_response(self, k: int) -> float:
        """Return the mean wait and the mean time of a job."""
        return self.mean_wait(k) + self.streams[k].service.mean

    def _works(self) -> list[WorkAhead]:
        """From the lowest class up, as each must know in which states lower jobs start."""
        found: list[WorkAhead] = []
        begun: list[tuple[Complex, ServiceTime]] = []
        empty = self._empty(0)
        for k, stream in enumerate(self.streams):
            found.append(WorkAhead(self._cleared(k), self._first(k), empty, tuple(begun)))
            higher = self._cleared(k + 1)
            arrived = found[k].transform(higher.roots) @ self.matrices[k + 1]
            starts = (arrived * higher.right.T).sum(axis=-1) @ higher.left
            begun.append((starts, stream.service))
        return found


#: Disciplines with formulas for bursts; the others are simulated.
MARKED: dict[str, type[Marked]] = {"non-preemptive": MarkedNonPreemptive, "resume": MarkedResume}

#: From so many states on, a simulation is faster than the formulas.
MOST_STATES = 8


def has_formulas(discipline: str, streams: Sequence[Stream], matrices: Sequence[Reals]) -> bool:
    """Whether there are formulas for arrivals by a Markov process with these matrices."""
    makes_way = discipline != "non-preemptive" and any(s.evict_s for s in streams)
    return discipline in MARKED and len(matrices[0]) <= MOST_STATES and not makes_way


def mean_of(transform: Callable[[Complex], Complex], scale: float) -> float:
    """Return the mean of a time by its transform, whose slope at 0 it is.

    >>> round(mean_of(lambda s: 0.5 + 0.5 / (1 + 3 * s), 1.0), 9)
    1.5
    """
    first, second = _rough_moments(transform, scale)
    if first <= 0:
        return 0.0
    radius = _RADIUS * first / second
    turns = np.exp(2j * math.pi * np.arange(_N_CIRCLE) / _N_CIRCLE)
    return -float(np.mean(transform(radius * turns) / turns).real) / radius


def _rough_moments(transform: Callable[[Complex], Complex], scale: float) -> tuple[float, float]:
    """Return a mean and that of the square, about."""
    first, second = scale, scale**2
    for _ in range(40):
        step = 1e-3 * first / second
        near, far = (1 - transform(np.array([step, 2 * step], dtype=complex)).real) / [
            step, 2 * step,
        ]  # fmt: skip
        found = float(2 * near - far), float(2 * (near - far) / step)
        if found[0] <= 1e-12 * scale or found[1] <= 0:
            return 0.0, 0.0
        is_steady = abs(math.log(found[0] / found[1] * second / first)) < 0.2
        first, second = found
        if is_steady:
            break
    return first, second
