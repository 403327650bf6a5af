"""Baselines: isolated, additive CPU, roofline classes; and the fluid model, by one interface."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Protocol

from foretell.corun.models.cases import Case
from foretell.corun.models.residual import fluid_times
from foretell.decide.corun.jobs import CPU, DISK, JobNeeds

_MEMORY_BYTES = 64 * 2**20  # from here on a program counts as bound by memory
_BUSY = 0.75  # below this share of a core it counts as bound by input and output


class CoRunModel(Protocol):
    """Predicts how long each job of a co-run takes."""

    name: ClassVar[str]

    def fit(self, cases: Sequence[Case]) -> None:
        """Learn from measured co-runs."""

    def predict(self, case: Case) -> list[float]:
        """Return how long each job takes, from its start."""


class Isolated:
    """Every job takes as long as alone."""

    name: ClassVar[str] = "isolated"

    def fit(self, cases: Sequence[Case]) -> None:
        """Learn nothing."""

    def predict(self, case: Case) -> list[float]:
        """Return the times alone."""
        return [case.alone_s(k) for k in range(len(case.jobs))]


class AdditiveCpu:
    """All jobs are slowed by what they use of CPU time on average, over what there is."""

    name: ClassVar[str] = "additive CPU"

    def fit(self, cases: Sequence[Case]) -> None:
        """Learn nothing."""

    def predict(self, case: Case) -> list[float]:
        """Return the times alone times max(1, used / cores)."""
        used = math.fsum(job.job.mean(CPU) for job in case.jobs)
        factor = max(1.0, used / case.capacity.n_cores)
        return [factor * case.alone_s(k) for k in range(len(case.jobs))]


class RooflineClasses:
    """One factor for each pair of classes: bound by arithmetic, memory, or input and output."""

    name: ClassVar[str] = "roofline classes"

    def __init__(self) -> None:
        self._factors: dict[tuple[str, str], float] = {}

    def fit(self, cases: Sequence[Case]) -> None:
        """Learn the mean of log slowdowns by class of the job and of its neighbor."""
        logs: dict[tuple[str, str], list[float]] = {}
        for case in (case for case in cases if len(case.jobs) == 2):
            for k in range(2):
                pair = (_class(case.jobs[k].job), _class(case.jobs[1 - k].job))
                logs.setdefault(pair, []).append(math.log(case.walls_s[k] / case.alone_s(k)))
        self._factors = {p: math.exp(math.fsum(v) / len(v)) for p, v in logs.items()}

    def predict(self, case: Case) -> list[float]:
        """Return the times alone times the factors of all neighbors."""
        found = []
        for k, job in enumerate(case.jobs):
            others = [_class(o.job) for i, o in enumerate(case.jobs) if i != k]
            factors = [self._factors.get((_class(job.job), other), 1.0) for other in others]
            found.append(case.alone_s(k) * math.prod(factors))
        return found


def _class(job: JobNeeds) -> str:
    if job.mean(CPU) < _BUSY or job.mean(DISK) > job.mean(CPU):
        return "input and output"
    return "memory" if job.memory_bytes > _MEMORY_BYTES else "compute"


class Fluid:
    """The fluid model, untrained."""

    name: ClassVar[str] = "fluid"

    def fit(self, cases: Sequence[Case]) -> None:
        """Learn nothing."""

    def predict(self, case: Case) -> list[float]:
        """Return the times by the model."""
        return fluid_times(case)
