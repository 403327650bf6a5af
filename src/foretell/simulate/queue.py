"""One engine and jobs of several priorities, played: waits, evictions, sprints, energy.

A loop over lists instead of the event kernel, for the next thing to happen is always one of two:
the next arrival, or the end of the one job in the engine. It is ten times as fast.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foretell.errors import UsageError, suggest
from foretell.simulate.batch_means import Estimate, batch_mean, batch_quantile
from foretell.simulate.job_arrivals import Arrivals, JobArrivals, PoissonArrivals
from foretell.simulate.sprinting import Bucket, SprintPower, Stay

Array = NDArray[np.float64]
NON_PREEMPTIVE, RESUME, REPEAT, REDRAW = "non-preemptive", "resume", "repeat", "redraw"
PLAYED_DISCIPLINES = (NON_PREEMPTIVE, RESUME, REPEAT, REDRAW)
_WARM_UP = 0.05  # of the jobs: the first find an engine that is emptier than usual
_N_REDRAWN = 1024
#: The share of time after the last arrival from which on a queue has no end; and with few jobs.
_LEFT, _LEFT_BY_CHANCE = 0.01, 5.0


class Service(Protocol):
    """What a simulation needs to know of a service time."""

    def draw(self, random: np.random.Generator, n: int) -> Array:
        """Draw times at base speed, in seconds."""


@dataclass(frozen=True)
class PlayedClass:
    """Jobs of one priority: how many come, how long they take, and when they begin to sprint.

    ``evict_s`` is what the engine takes to make way when one of them is interrupted.
    """

    name: str
    rate_per_s: float
    service: Service
    sprint_after_s: float = math.inf
    evict_s: float = 0.0


@dataclass(frozen=True)
class ClassFigures:
    """What the jobs of a class came to, with 95 % intervals.

    Attributes
    ----------
    load
        The share of time that the engine had one of them.
    waste
        The share of that time that was lost by evictions.
    job_j
        The mean joules of one of them; NaN where the power of the engine is not known.
    sprint_s
        How long the engine sprinted for one of them on average.
    """

    name: str
    n_jobs: int
    response: Estimate
    wait: Estimate
    p50: Estimate
    p95: Estimate
    p99: Estimate
    load: float
    waste: float
    job_j: float
    sprint_s: float


@dataclass(frozen=True, eq=False)
class PlayedQueue:
    """What happened to each job, in the order of arrival.

    Attributes
    ----------
    class_of
        The class of each job, as its place among ``names``.
    start_s, end_s
        When a job was first in the engine, and when it left it for good.
    engine_s, wasted_s
        How long a job was in the engine, and how much of that was lost by evictions.
    sprints_s
        How long the engine sprinted for each job.
    """

    names: tuple[str, ...]
    power: SprintPower
    class_of: NDArray[np.int64]
    arrival_s: Array
    start_s: Array
    end_s: Array
    engine_s: Array
    wasted_s: Array
    sprints_s: Array
    n_evictions: int

    @property
    def response_s(self) -> Array:
        """How long each job took, from its arrival to its end."""
        return self.end_s - self.arrival_s

    @property
    def wait_s(self) -> Array:
        """How long each job waited until it first ran."""
        return self.start_s - self.arrival_s

    @property
    def busy_s(self) -> float:
        """How long the engine had a job."""
        return float(self.engine_s.sum())

    @property
    def sprinted_s(self) -> float:
        """How long the engine sprinted."""
        return float(self.sprints_s.sum())

    @property
    def span_s(self) -> float:
        """How long it lasted, from the start to the last end."""
        return float(self.end_s.max()) if len(self.end_s) else 0.0

    @property
    def load(self) -> float:
        """The share of time in which the engine had a job."""
        return self.busy_s / self.span_s if self.span_s else 0.0

    @property
    def is_growing(self) -> bool:
        """Whether work was left at the last arrival that only a queue without end leaves."""
        if not len(self.end_s):
            return False
        left = 1 - float(self.arrival_s[-1]) / self.span_s
        return left > _LEFT + _LEFT_BY_CHANCE / math.sqrt(len(self.end_s))

    @property
    def waste(self) -> float:
        """The share of the engine's time that was lost by evictions."""
        return float(self.wasted_s.sum()) / self.busy_s if self.busy_s else 0.0

    @property
    def busy_j(self) -> float:
        """The joules of the engine while it had a job."""
        return self.power.base_w * self.busy_s + self.power.extra_w * self.sprinted_s

    @property
    def idle_j(self) -> float:
        """The joules of the engine while it had none."""
        return self.power.idle_w * max(self.span_s - self.busy_s, 0.0)

    def responses_of(self, name: str) -> Array:
        """Return the response times of a class in the long run: those of the first jobs are out."""
        return self.response_s[self._settled(name)]

    def figures_of(self, name: str) -> ClassFigures:
        """Return the figures of a class."""
        settled = self._settled(name)
        response = self.response_s[settled]
        p50, p95, p99 = (batch_quantile(response, level) for level in (0.5, 0.95, 0.99))
        return ClassFigures(
            name, int(settled.sum()), batch_mean(response), batch_mean(self.wait_s[settled]),
            p50, p95, p99, *self._use_of(name),
        )  # fmt: skip

    def _use_of(self, name: str) -> tuple[float, float, float, float]:
        """Return load, waste, mean joules and mean sprint of a class, over all of its jobs."""
        own = self.class_of == self.names.index(name)
        engine_s, n = float(self.engine_s[own].sum()), int(own.sum())
        load = engine_s / self.span_s if self.span_s else 0.0
        waste = float(self.wasted_s[own].sum()) / engine_s if engine_s else 0.0
        sprint_s = float(self.sprints_s[own].sum()) / n if n else 0.0
        if not n or not self.power.base_w:
            return load, waste, math.nan, sprint_s
        job_j = self.power.base_w * engine_s / n + self.power.extra_w * sprint_s
        return load, waste, job_j, sprint_s

    def _settled(self, name: str) -> NDArray[np.bool_]:
        is_late = np.arange(len(self.class_of)) >= _WARM_UP * len(self.class_of)
        found: NDArray[np.bool_] = is_late & (self.class_of == self.names.index(name))
        return found


def play_queue(
    classes: Sequence[PlayedClass],
    discipline: str = NON_PREEMPTIVE,
    *,
    sprint: SprintPower | None = None,
    arrivals: Arrivals | None = None,
    n_jobs: int = 100_000,
    seed: int = 0,
) -> PlayedQueue:
    """Let jobs arrive at one engine, and note what becomes of them.

    The same seed gives the same jobs under every discipline and every sprint.

    Parameters
    ----------
    classes
        The lowest priority first.
    discipline
        What happens when a job of a higher class arrives: the one in the engine stays
        (``non-preemptive``), or leaves and later goes on (``resume``), starts again (``repeat``),
        or starts again with another size (``redraw``).
    sprint
        Speed and power of the engine; by default it never sprints and draws nothing.
    arrivals
        By default Poisson, with the rates of the classes.
    """
    if discipline not in PLAYED_DISCIPLINES:
        raise UsageError(
            f"there is no discipline '{discipline}'. {suggest(discipline, PLAYED_DISCIPLINES)}"
        )
    source = arrivals or PoissonArrivals(tuple(c.rate_per_s for c in classes))
    jobs = source.draw(np.random.default_rng([seed, 0]), n_jobs)
    sized = _sized(jobs, classes, seed)
    return _Play(classes, discipline, sprint or SprintPower(), sized, seed).play()


def _sized(jobs: JobArrivals, classes: Sequence[PlayedClass], seed: int) -> JobArrivals:
    """Return the jobs with a size for each, drawn for each class by itself."""
    if jobs.service_s is not None:
        return jobs
    sizes = np.zeros(len(jobs.at_s))
    for k, of_class in enumerate(classes):
        own = jobs.class_of == k
        sizes[own] = of_class.service.draw(np.random.default_rng([seed, 1, k]), int(own.sum()))
    return JobArrivals(jobs.at_s, jobs.class_of, sizes)


def _redrawn(of_class: PlayedClass, random: np.random.Generator) -> Iterator[float]:
    while True:
        yield from of_class.service.draw(random, _N_REDRAWN).tolist()


class _Play:
    """The engine at work."""

    def __init__(
        self,
        classes: Sequence[PlayedClass],
        discipline: str,
        power: SprintPower,
        jobs: JobArrivals,
        seed: int,
    ) -> None:
        assert jobs.service_s is not None
        self.names = tuple(c.name for c in classes)
        self.discipline, self.power, self.jobs = discipline, power, jobs
        self.after_s = [c.sprint_after_s for c in classes]
        self.evict_s = [c.evict_s for c in classes]
        self.redrawn = [
            _redrawn(c, np.random.default_rng([seed, 2, k])) for k, c in enumerate(classes)
        ]
        self.bucket = Bucket(power)
        self.buffers: list[deque[int]] = [deque() for _ in classes]
        self.at_s: list[float] = jobs.at_s.tolist()
        self.class_of: list[int] = jobs.class_of.tolist()
        self.sizes: list[float] = jobs.service_s.tolist()
        n = len(self.at_s)
        self.left_s = list(self.sizes)  # work, in seconds at base speed
        self.attained_s = [0.0] * n  # time in the engine since the job last began
        self.start_s, self.end_s = [math.nan] * n, [math.nan] * n
        self.engine_s, self.wasted_s = [0.0] * n, [0.0] * n
        self.sprints_s = [0.0] * n
        self.now_s, self.n_arrived, self.n_evictions = 0.0, 0, 0

    def play(self) -> PlayedQueue:
        """Serve job after job, until none is left."""
        serve = self._serve if self.discipline == NON_PREEMPTIVE else self._serve_until_evicted
        n = len(self.at_s)
        while True:
            buffer = self._highest()
            if buffer is None:
                if self.n_arrived == n:
                    break
                self.now_s = self.at_s[self.n_arrived]
                self._admit(self.now_s)
            else:
                serve(buffer.popleft())
        return PlayedQueue(
            self.names,
            self.power,
            self.jobs.class_of,
            self.jobs.at_s,
            np.array(self.start_s),
            np.array(self.end_s),
            np.array(self.engine_s),
            np.array(self.wasted_s),
            np.array(self.sprints_s),
            self.n_evictions,
        )

    def _highest(self) -> deque[int] | None:
        for buffer in reversed(self.buffers):
            if buffer:
                return buffer
        return None

    def _admit(self, until_s: float) -> None:
        """Let jobs join the buffers of their classes."""
        i, at_s, n = self.n_arrived, self.at_s, len(self.at_s)
        while i < n and at_s[i] <= until_s:
            self.buffers[self.class_of[i]].append(i)
            i += 1
        self.n_arrived = i

    def _begin(self, job: int) -> Stay:
        if self.start_s[job] != self.start_s[job]:  # NaN: not yet in the engine
            self.start_s[job] = self.now_s
        after_s = self.after_s[self.class_of[job]]
        if after_s == math.inf:
            return Stay(self.left_s[job], 0.0, 0.0)
        sprint_in_s = max(after_s - self.attained_s[job], 0.0)
        return self.bucket.plan(self.now_s, self.left_s[job], sprint_in_s)

    def _serve(self, job: int) -> None:
        """Keep a job in the engine until it ends."""
        self._end(job, self._begin(job))

    def _serve_until_evicted(self, job: int) -> None:
        """Keep a job in the engine until it ends or a job of a higher class arrives."""
        stay = self._begin(job)
        end_s = self.now_s + stay.length_s
        own = self.class_of[job]
        i, at_s, n = self.n_arrived, self.at_s, len(self.at_s)
        while i < n and at_s[i] < end_s:
            arrived = self.class_of[i]
            self.buffers[arrived].append(i)
            i += 1
            if arrived > own:
                self.n_arrived = i
                self._evict(job, stay, at_s[i - 1])
                return
        self.n_arrived = i
        self._end(job, stay)

    def _end(self, job: int, stay: Stay) -> None:
        self._leave(job, stay, self.now_s + stay.length_s)
        self.end_s[job] = self.now_s
        self._admit(self.now_s)

    def _leave(self, job: int, stay: Stay, now_s: float) -> None:
        """Take a job out of the engine after a stay."""
        self.now_s = now_s
        self.engine_s[job] += stay.length_s
        self.sprints_s[job] += stay.sprint_s
        self.bucket.spend(now_s, stay)

    def _evict(self, job: int, planned: Stay, now_s: float) -> None:
        """Take a job out of the engine before its end, and put it at the head of its buffer."""
        stay = planned.cut(now_s - self.now_s)
        self._leave(job, stay, now_s)
        self.n_evictions += 1
        k = self.class_of[job]
        self.buffers[k].appendleft(job)
        self._make_way(job, self.evict_s[k])
        if self.discipline == RESUME:
            self.left_s[job] = max(self.left_s[job] - stay.work(self.power.speedup), 0.0)
            self.attained_s[job] += stay.length_s
            return
        self.wasted_s[job] += stay.length_s
        if self.discipline == REDRAW:
            self.left_s[job] = next(self.redrawn[k])

    def _make_way(self, job: int, evict_s: float) -> None:
        """Let some time pass in which the engine ends a job, and nothing starts."""
        self.engine_s[job] += evict_s
        self.wasted_s[job] += evict_s
        self.now_s += evict_s
        self._admit(self.now_s)
