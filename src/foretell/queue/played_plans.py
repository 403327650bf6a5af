"""Response times of plans by simulation: where arrivals are not Poisson, or a bucket runs dry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foretell.decide.queueing.assess import (
    RUNS,
    Evaluator,
    Limit,
    Plan,
    Response,
    has_latency_limits,
    latency_limits,
)
from foretell.decide.queueing.evaluate import PLANNED
from foretell.decide.queueing.queue_file import Queue
from foretell.queue.play import sprint_power
from foretell.simulate.job_arrivals import Arrivals, MarkedArrivals, PoissonArrivals
from foretell.simulate.queue import PlayedClass, PlayedQueue, play_queue

#: The share of runs in which limits should hold.
LUCK = 0.9
_SEEDS_APART = 1_000_000  # so that other seeds play other runs


class BySimulation:
    """Answers plan by plan, all with the same arrivals."""

    def __init__(self, queue: Queue, *, n_jobs: int, seed: int) -> None:
        self.queue, self.n_jobs, self.seed = queue, n_jobs, seed

    def responses(
        self, rates_per_s: Sequence[float], plans: Sequence[Plan]
    ) -> list[list[Response]]:
        """Return the response times by plan and class."""
        return [self._of_plan(rates_per_s, plan) for plan in plans]

    def _of_plan(self, rates_per_s: Sequence[float], plan: Plan) -> list[Response]:
        played = self.play(rates_per_s, plan)
        responses = [played.responses_of(name) for name in played.names]
        return [_response(r) for r in responses]

    def play(
        self,
        rates_per_s: Sequence[float],
        plan: Plan,
        discipline: str = PLANNED,
        *,
        n_jobs: int | None = None,
        seed: int | None = None,
    ) -> PlayedQueue:
        """Play a plan."""
        triples = zip(self.queue.classes, rates_per_s, plan, strict=True)
        classes = [
            PlayedClass(c.name, rate, option.unsprinted.service, option.sprint_after_s, c.evict_s)
            for c, rate, option in triples
        ]
        return play_queue(
            classes,
            discipline,
            sprint=sprint_power(self.queue.sprint),
            arrivals=self._arrivals(rates_per_s),
            n_jobs=self.n_jobs if n_jobs is None else n_jobs,
            seed=self.seed if seed is None else seed,
        )

    def _arrivals(self, rates_per_s: Sequence[float]) -> Arrivals:
        """Return arrivals with these rates; a Markov process becomes faster as a whole."""
        matrices = self.queue.arrivals.with_rates(rates_per_s)
        return MarkedArrivals(tuple(matrices)) if matrices else PoissonArrivals(tuple(rates_per_s))


@dataclass(frozen=True, eq=False)
class ByRuns:
    """Limits as nine of ten simulated runs keep them, and the share of runs that break any.

    No more runs are played once too many have broken a limit.
    """

    queue: Queue
    player: BySimulation
    run_length: int
    n_runs: int

    def limits(self, rates_per_s: Sequence[float], plans: Sequence[Plan]) -> list[list[Limit]]:
        """Return the limits by plan."""
        if not has_latency_limits(self.queue):
            return [[] for _ in plans]
        return [self._of_plan(rates_per_s, plan) for plan in plans]

    def _of_plan(self, rates_per_s: Sequence[float], plan: Plan) -> list[Limit]:
        first = _SEEDS_APART * (self.player.seed + 1)
        runs: list[list[Limit]] = []
        broken: list[bool] = []
        while len(runs) < self.n_runs and sum(broken) <= (1 - LUCK) * self.n_runs:
            runs.append(self._run(rates_per_s, plan, first + len(runs)))
            broken.append(any(not limit.is_kept for limit in runs[-1]))
        found = [
            replace(limits[0], value=float(np.quantile([x.value for x in limits], LUCK)))
            for limits in zip(*runs, strict=True)
        ]
        return [*found, Limit(RUNS, "", float(np.mean(broken)), round(1 - LUCK, 9))]

    def _run(self, rates_per_s: Sequence[float], plan: Plan, seed: int) -> list[Limit]:
        played = self.player.play(rates_per_s, plan, n_jobs=self.run_length, seed=seed)
        responses = [played.response_s[played.class_of == k] for k in range(len(plan))]
        return latency_limits(self.queue.classes, [_response(r) for r in responses])


class WithBucket:
    """Answers by formulas, or by simulation for plans whose sprints may empty the bucket."""

    def __init__(self, formulas: Evaluator, simulation: Evaluator, *, has_budget: bool) -> None:
        self.formulas, self.simulation, self.has_budget = formulas, simulation, has_budget

    def responses(
        self, rates_per_s: Sequence[float], plans: Sequence[Plan]
    ) -> list[Sequence[Response]]:
        """Return the response times by plan and class."""
        return [self._chosen(plan).responses(rates_per_s, [plan])[0] for plan in plans]

    def _chosen(self, plan: Plan) -> Evaluator:
        return self.simulation if self.is_simulated(plan) else self.formulas

    def is_simulated(self, plan: Plan) -> bool:
        """Whether a plan is played."""
        return self.has_budget and any(math.isfinite(option.sprint_after_s) for option in plan)


def _response(times: NDArray[np.float64]) -> Response:
    """Return the figures of some jobs; a class without a job kept everybody happy."""
    if not len(times):
        return Response(0.0, 0.0)
    return Response(float(times.mean()), float(np.quantile(times, 0.95)))
