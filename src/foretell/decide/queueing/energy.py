"""Energy by formula: joules of a job, mean watts of the engine, and what sprints take."""

from __future__ import annotations

from dataclasses import dataclass

from foretell.decide.queueing.disciplines import Discipline
from foretell.decide.queueing.queue_file import SprintTable


@dataclass(frozen=True)
class QueueEnergy:
    """What an engine draws, modelled.

    Attributes
    ----------
    job_j
        The joules of one job of each class, with what is thrown away.
    busy_w, total_w
        The mean power for jobs, and with that of the engine without a job.
    sprint_w
        The mean power of sprints above base, which the budget must refill.
    refill_w
        How fast the budget fills; None if there is no limit.
    """

    job_j: tuple[float, ...]
    busy_w: float
    total_w: float
    sprint_w: float
    refill_w: float | None

    @property
    def is_within_budget(self) -> bool:
        """Whether the budget refills as fast as sprints use it, on average."""
        return self.refill_w is None or self.sprint_w <= self.refill_w


def queue_energy(discipline: Discipline, power: SprintTable) -> QueueEnergy | None:
    """Return the energy of a queue; None where the power of the engine is not given."""
    if power.base_w is None:
        return None
    base = power.base_w
    extra = 0.0 if power.sprint_w is None else power.sprint_w - base
    idle = base if power.idle_w is None else power.idle_w
    places = range(len(discipline.streams))
    sprints = [discipline.sprint_s(k) for k in places]
    job_j = tuple(base * discipline.gross_s(k) + extra * sprints[k] for k in places)
    rates = [stream.rate_per_s for stream in discipline.streams]
    busy_w = sum(rate * j for rate, j in zip(rates, job_j, strict=True))
    sprint_w = sum(rate * extra * s for rate, s in zip(rates, sprints, strict=True))
    total_w = busy_w + idle * (1 - discipline.load)
    return QueueEnergy(job_j, busy_w, total_w, sprint_w, power.refill_w)
