"""What can be done with the jobs of a class: how much to drop, and after how long to sprint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from foretell.decide.queueing.drop import drop_steps, error_at
from foretell.decide.queueing.job_class import JobClass
from foretell.decide.queueing.service._base import Moments, Reals, ServiceTime
from foretell.decide.queueing.service.scaled import Scaled
from foretell.decide.queueing.service.sprinted import Sprinted

#: A step must make a job this much shorter to be worth trying.
_LEAST_GAIN = 1e-3
_N_TIME_OUTS = 10
_N_DIGITS = 3

MakeService = Callable[[float], ServiceTime]


@dataclass(frozen=True, eq=False)
class Spread:
    """A service time, and the times and weights that stand for it in sums."""

    service: ServiceTime
    times: Reals
    weights: Reals

    @classmethod
    def of(cls, service: ServiceTime) -> Spread:
        """Compute times and weights, the shortest first."""
        times, weights = service.quadrature()
        order = np.argsort(times)
        return cls(service, times[order], weights[order])

    def slower(self, factor: float) -> Spread:
        """Return the same with jobs that take longer."""
        return Spread(Scaled(self.service, factor), self.times * factor, self.weights)

    def sums(self, times: Reals) -> Moments:
        """Return the first three moments of some function of the time, given at each of the times.

        Sums leave out rare long jobs. So they are set right by what is known of the time itself.
        """
        known = zip(self.service.moments, (1, 2, 3), strict=True)
        first, second, third = (
            moment * float(self.weights @ times**n) / float(self.weights @ self.times**n)
            for moment, n in known
        )
        return first, second, third


@dataclass(frozen=True, eq=False)
class Option:
    """One way to treat the jobs of a class.

    Attributes
    ----------
    drop, error
        The share of tasks to drop, and the error that was measured for it.
    sprint_after_s, speedup
        After how long a job sprints (infinite for never), and how much faster.
    unsprinted
        How long a job takes that never sprints.
    """

    drop: float
    error: float
    sprint_after_s: float
    speedup: float
    unsprinted: Spread

    @property
    def sprints(self) -> bool:
        """Whether jobs ever sprint."""
        return math.isfinite(self.sprint_after_s)

    @cached_property
    def service(self) -> ServiceTime:
        """How long a job takes."""
        if not self.sprints:
            return self.unsprinted.service
        return Sprinted(self.unsprinted.service, self.sprint_after_s, self.speedup)

    @cached_property
    def moments(self) -> Moments:
        """The first three moments of the time of a job."""
        if not self.sprints:
            return self.unsprinted.service.moments
        times = self.unsprinted.times
        slow = np.minimum(times, self.sprint_after_s)
        return self.unsprinted.sums(slow + (times - slow) / self.speedup)

    @property
    def mean_s(self) -> float:
        """The mean time of a job."""
        return self.moments[0]

    @cached_property
    def sprint_s(self) -> float:
        """How long a job sprints on average."""
        saved_s = self.unsprinted.service.mean - self.mean_s
        return saved_s / (self.speedup - 1) if self.sprints else 0.0

    def slower(self, factor: float) -> Option:
        """Return the same with jobs that take longer."""
        return replace(self, unsprinted=self.unsprinted.slower(factor))


class DropStep(NamedTuple):
    """A drop ratio, the error that was measured for it, and how long a job then takes."""

    drop: float
    error: float
    service: ServiceTime


@dataclass(frozen=True)
class DropSteps:
    """The drop ratios of a class that are worth trying, and those that its error limit forbids.

    Attributes
    ----------
    reason
        Why nothing can be dropped; empty if something can.
    """

    allowed: tuple[DropStep, ...]
    refused: tuple[DropStep, ...]
    reason: str = ""


def steps_of(job: JobClass, make: MakeService) -> DropSteps:
    """List the ratios at which a job becomes shorter, each with its error and service time.

    A ratio between two numbers of kept tasks changes nothing, and neither does one that saves no
    wave of tasks that all take equally long.
    """
    found = [DropStep(0.0, 0.0, make(0.0))]
    if reason := _no_drop(job):
        return DropSteps(tuple(found), (), reason)
    for drop in drop_steps(_tasks(job), max(job.error)):
        error, service = error_at(job.error, drop), make(drop)
        if error is not None and service.mean < found[-1].service.mean * (1 - _LEAST_GAIN):
            found.append(DropStep(drop, error, service))
    limit = job.max_error or 0.0
    allowed = [step for step in found if step.error <= limit + 1e-12]
    return DropSteps(tuple(allowed), tuple(found[len(allowed) :]))


def _no_drop(job: JobClass) -> str:
    if not job.has_tasks:
        return f"it is described by {job.kind}, not by tasks"
    if not job.error:
        return "no error was measured for it (error = { 0.1 = 0.085, 0.2 = 0.15 })"
    if job.max_error is None:
        return "it has no max_error"
    return ""


def _tasks(job: JobClass) -> dict[int, float]:
    if job.tasks is not None:
        return job.tasks
    assert isinstance(job.stages, list)
    counts = [n for stage in job.stages if stage.drop is None for n in stage.tasks]
    return dict.fromkeys(counts, 1.0)


def time_outs(spread: Spread) -> list[float]:
    """Return when a sprint may begin: at once, after each tenth of the work, or never.

    Deciles of the time itself would lie close together where jobs take about equally long. Tenths
    of the work are deciles of that time in which work is done: each saves the same energy.

    >>> from foretell.decide.queueing.service.sample import constant
    >>> time_outs(Spread.of(constant(100.0)))[:3]
    [0.0, 10.0, 20.0]
    """
    # E[min(S, t)] at each time: straight lines between.
    times = spread.times
    beyond = np.cumsum(spread.weights[::-1])[::-1]
    done = np.append(0.0, np.cumsum(np.diff(times, prepend=0.0) * beyond))
    shares = np.arange(1, _N_TIME_OUTS) / _N_TIME_OUTS
    at = np.interp(shares * done[-1], done, np.append(0.0, times))
    return [0.0, *sorted({float(f"{t:.{_N_DIGITS}g}") for t in at}), math.inf]


def options_of(steps: Iterable[DropStep], speedup: float) -> Iterator[Option]:
    """Combine drop ratios with time-outs of sprints."""
    for drop, error, service in steps:
        spread = Spread.of(service)
        outs = time_outs(spread) if speedup > 1 else [math.inf]
        for after_s in outs:
            yield Option(drop, error, after_s, speedup, spread)
