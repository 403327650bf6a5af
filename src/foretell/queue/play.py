"""A simulation of a queue beside its formulas: the same classes, played."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from foretell.decide.queueing.queue_file import Queue, SprintTable
from foretell.decide.queueing.streams import Stream
from foretell.decide.queueing.times import unsprinted
from foretell.simulate.job_arrivals import MarkedArrivals
from foretell.simulate.queue import ClassFigures, PlayedClass, PlayedQueue, play_queue
from foretell.simulate.sprinting import SprintPower


@dataclass(frozen=True, eq=False)
class PlayedDiscipline:
    """What a simulation came to, with 95 % intervals, the lowest class first."""

    n_jobs: int
    seed: int
    queue: PlayedQueue

    @cached_property
    def classes(self) -> tuple[ClassFigures, ...]:
        """The figures of each class."""
        return tuple(self.queue.figures_of(name) for name in self.queue.names)

    @property
    def power(self) -> tuple[float, float, float] | None:
        """The mean watts for jobs, for sprints above base, and in all; None if none are given."""
        queue, span_s = self.queue, self.queue.span_s
        if not queue.power.base_w or not span_s:
            return None
        sprint_j = queue.power.extra_w * queue.sprinted_s
        return queue.busy_j / span_s, sprint_j / span_s, (queue.busy_j + queue.idle_j) / span_s

    def to_json(self) -> dict[str, Any]:
        """Return plain values; null is not known."""
        names = ("busy_w", "sprint_w", "total_w")
        return {
            "label": "simulated",
            "n_jobs": self.n_jobs,
            "seed": self.seed,
            "load": self.queue.load,
            "waste": self.queue.waste,
            "power": None if self.power is None else dict(zip(names, self.power, strict=True)),
            "classes": [_plain(asdict(figures)) for figures in self.classes],
        }


def play_streams(
    queue: Queue, streams: Sequence[Stream], discipline: str, n_jobs: int, seed: int
) -> PlayedDiscipline:
    """Play the classes under a discipline; sprints end when the budget is empty."""
    classes = [
        PlayedClass(
            job.name,
            stream.rate_per_s,
            service,
            math.inf if job.sprint_after_s is None else job.sprint_after_s,
            job.evict_s,
        )
        for job, stream, service in zip(queue.classes, streams, unsprinted(streams), strict=True)
    ]
    matrices = queue.arrivals.matrices()
    played = play_queue(
        classes,
        discipline,
        sprint=sprint_power(queue.sprint),
        arrivals=MarkedArrivals(tuple(matrices)) if matrices else None,
        n_jobs=n_jobs,
        seed=seed,
    )
    return PlayedDiscipline(n_jobs, seed, played)


def sprint_power(table: SprintTable) -> SprintPower:
    """Return speed and power as the simulation knows them."""
    base = table.base_w or 0.0
    return SprintPower(
        table.speedup,
        base,
        base if table.sprint_w is None else table.sprint_w,
        base if table.idle_w is None else table.idle_w,
        math.inf if table.budget_j is None else table.budget_j,
        table.refill_w or 0.0,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
