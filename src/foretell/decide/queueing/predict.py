"""Predicting a queue: the one path from streams and a discipline to figures by class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from foretell.decide.queueing.disciplines import Discipline
from foretell.decide.queueing.energy import QueueEnergy, queue_energy
from foretell.decide.queueing.inversion import Distribution
from foretell.decide.queueing.queue_file import SprintTable
from foretell.decide.queueing.service._base import Reals
from foretell.decide.queueing.stability import stable_discipline
from foretell.decide.queueing.streams import Stream

LEVELS = (0.5, 0.95, 0.99)


@dataclass(frozen=True, eq=False)
class ClassFigures:
    """What jobs of one class can expect.

    Attributes
    ----------
    load
        The share of time that the engine works for them, with what is thrown away.
    service_s
        The mean time of a job alone.
    wait_s
        The mean time until a job first runs.
    mean_s, p50_s, p95_s, p99_s
        The response time, from arrival to end: its mean, which may be infinite, and quantiles,
        which are NaN where the formulas cannot be trusted.
    waste
        The share of the engine's time for them that is thrown away.
    sprint_s
        The mean time that the engine sprints for a job, if the budget never runs dry.
    response
        The distribution of the response time; None where it cannot be trusted.
    """

    name: str
    rate_per_s: float
    load: float
    service_s: float
    wait_s: float
    mean_s: float
    p50_s: float
    p95_s: float
    p99_s: float
    waste: float
    sprint_s: float
    response: Distribution | None


@dataclass(frozen=True, eq=False)
class QueueFigures:
    """What one discipline comes to, the lowest class first."""

    discipline: str
    load: float
    waste: float
    classes: tuple[ClassFigures, ...]
    energy: QueueEnergy | None


def queue_figures(
    discipline: str,
    streams: Sequence[Stream],
    power: SprintTable | None = None,
    matrices: Sequence[Reals] = (),
) -> QueueFigures:
    """Predict all classes under a discipline; an OverloadError says why there is no end.

    Parameters
    ----------
    matrices
        Those of the arrivals, D0 and one for each class; none for Poisson arrivals.

    >>> from foretell.decide.queueing.service.fitted import fitted_time
    >>> alone = [Stream("jobs", 0.5, fitted_time(1.0, 1.0))]
    >>> jobs, = queue_figures("non-preemptive", alone).classes
    >>> round(jobs.mean_s, 6), round(jobs.p95_s, 4)    # exponential, with twice the mean
    (2.0, 5.9915)
    """
    found = stable_discipline(discipline, streams, matrices)
    classes = tuple(class_figures(found, k) for k in range(len(streams)))
    useful = sum(s.rate_per_s * found.useful_s(k) for k, s in enumerate(found.streams))
    energy = queue_energy(found, power or SprintTable())
    return QueueFigures(discipline, found.load, _wasted(useful, found.load), classes, energy)


def class_figures(found: Discipline, k: int) -> ClassFigures:
    """Predict one class."""
    stream, gross = found.streams[k], found.gross_s(k)
    response = response_time(found, k).trusted
    quantiles = [math.nan] * 3 if response is None else response.quantiles(LEVELS)
    p50, p95, p99 = (float(q) for q in quantiles)
    return ClassFigures(
        stream.name,
        stream.rate_per_s,
        stream.rate_per_s * gross,
        stream.service.mean,
        found.mean_wait(k),
        found.mean_response(k),
        p50,
        p95,
        p99,
        _wasted(found.useful_s(k), gross),
        found.sprint_s(k),
        response,
    )


def response_time(found: Discipline, k: int) -> Distribution:
    """Return the distribution of the response time of a class."""
    return Distribution(
        partial(found.response_transform, k), found.typical_s(k), found.streams[k].service.least
    )


def _wasted(useful: float, gross: float) -> float:
    return max(0.0, 1 - useful / gross)
