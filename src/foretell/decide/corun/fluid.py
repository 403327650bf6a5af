"""The fluid model: jobs advance phase by phase, each as fast as the others leave it room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from foretell.decide.corun.jobs import (
    BANDWIDTH,
    CPU,
    DISK,
    RESOURCES,
    Capacity,
    CoJob,
    JobNeeds,
    Phase,
)
from foretell.decide.corun.sharing import Demand, speeds
from foretell.errors import UsageError

_LEAST_WEIGHT = 1e-3
_NEAR = 1e-9
_TOLD = 0.99  # of the speed alone: a job that is faster does not wait for anything worth telling


@dataclass(frozen=True)
class Stretch:
    """A time in which nothing changes.

    Attributes
    ----------
    speeds
        The speed of each job, 1 as alone and 0 where it does not run.
    limits
        The resource that each job waits for; empty where it runs as alone, or not at all.
    """

    start_s: float
    end_s: float
    speeds: tuple[float, ...]
    limits: tuple[str, ...]


@dataclass(frozen=True)
class CoRun:
    """Jobs that ran together, by the model.

    Attributes
    ----------
    ends_s
        When each job ends; infinite for a job without end.
    stretches
        What happened, in the order of time.
    """

    ends_s: tuple[float, ...]
    stretches: tuple[Stretch, ...]

    def contended(self) -> list[tuple[str, float, float, frozenset[int]]]:
        """Return what jobs waited for, from when to when, and which of them did.

        Stretches that follow one another with the same resource and jobs are joined.
        """
        found: list[tuple[str, float, float, frozenset[int]]] = []
        for s in self.stretches:
            for resource in dict.fromkeys(filter(None, s.limits)):
                jobs = frozenset(k for k, limit in enumerate(s.limits) if limit == resource)
                near = [
                    k for k, f in enumerate(found)
                    if (f[0], f[3]) == (resource, jobs) and f[2] == s.start_s
                ]  # fmt: skip
                if near:
                    found[near[0]] = (resource, found[near[0]][1], s.end_s, jobs)
                else:
                    found.append((resource, s.start_s, s.end_s, jobs))
        return found


@dataclass
class _Running:
    """A job while it is played: its phases that are left."""

    job: CoJob
    phases: list[Phase]
    place: int = 0
    left_s: float = 0.0

    @property
    def is_over(self) -> bool:
        return self.place >= len(self.phases)

    @property
    def phase(self) -> Phase:
        return self.phases[self.place]

    def advance(self, seconds: float) -> None:
        """Do some work, as long as it takes alone; a load without end stays the same."""
        if self.job.job.is_endless:
            return
        self.left_s -= seconds
        while not self.is_over and self.left_s <= _NEAR * max(1.0, self.phase.seconds):
            self.place += 1
            self.left_s = 0.0 if self.is_over else self.phase.seconds

    def needed_s(self, speed: float) -> float:
        """Return when its phase ends at this speed."""
        return math.inf if self.job.job.is_endless else self.left_s / speed


def play_together(jobs: Sequence[CoJob], capacity: Capacity) -> CoRun:
    """Play jobs that share a machine until the last one ends.

    >>> from foretell.decide.corun.jobs import JobNeeds
    >>> job = CoJob(JobNeeds("spin", (Phase(10.0, {CPU: 1.0}),)))
    >>> play_together([job, job], Capacity(1)).ends_s
    (20.0, 20.0)
    """
    running = [_begin(job) for job in jobs]
    ends = [math.inf] * len(jobs)
    stretches: list[Stretch] = []
    now = min((job.start_s for job in jobs), default=0.0)
    while True:
        for k, run in enumerate(running):
            if run.is_over and math.isinf(ends[k]):
                ends[k] = now
        waiting = [k for k, e in enumerate(ends) if math.isinf(e) and not _is_endless(jobs[k])]
        if not waiting:
            return CoRun(tuple(ends), tuple(stretches))
        active = [k for k, r in enumerate(running) if not r.is_over and r.job.start_s <= now]
        starts = [r.job.start_s for r in running if not r.is_over and r.job.start_s > now]
        pace = _paces([running[k] for k in active], capacity)
        steps = [running[k].needed_s(speed) for k, (speed, _) in zip(active, pace, strict=True)]
        until = min([*(now + step for step in steps), *starts])
        stretches.append(_stretch(now, until, dict(zip(active, pace, strict=True)), len(jobs)))
        for k, (speed, _), step in zip(active, pace, steps, strict=True):
            # Late times have no small parts: what is left ends by what it takes, not by the clock.
            is_done = now + step <= until
            running[k].advance(running[k].left_s if is_done else (until - now) * speed)
        now = until


def steady_speeds(jobs: Sequence[JobNeeds], capacity: Capacity) -> list[float]:
    """Return the speed of jobs that share a machine and need the same all the time.

    >>> from foretell.decide.corun.jobs import JobNeeds
    >>> job = JobNeeds("spin", (Phase(10.0, {CPU: 1.0}),))
    >>> steady_speeds([job, job, job, job], Capacity(2))
    [0.5, 0.5, 0.5, 0.5]
    """
    running = [_begin(CoJob(job.steady().within(capacity))) for job in jobs]
    return [speed for speed, _ in _paces(running, capacity)]


def _is_endless(job: CoJob) -> bool:
    return job.job.is_endless


def _begin(job: CoJob) -> _Running:
    own = job.job.steady() if job.job.is_endless else job.job
    phases = [phase for phase in own.phases if phase.seconds > 0]
    if not phases:
        raise UsageError(f"'{job.job.name}' takes no time; profile it again")
    done_s = job.progress * math.fsum(phase.seconds for phase in phases)
    run = _Running(job, phases, left_s=phases[0].seconds)
    while done_s > 0 and not run.is_over:
        step = min(done_s, run.left_s)
        run.advance(step)
        done_s -= step
    return run


def _stretch(
    start_s: float, end_s: float, pace: dict[int, tuple[float, str]], n_jobs: int
) -> Stretch:
    found = [pace.get(k, (0.0, "")) for k in range(n_jobs)]
    return Stretch(start_s, end_s, tuple(s for s, _ in found), tuple(limit for _, limit in found))


def _paces(active: Sequence[_Running], capacity: Capacity) -> list[tuple[float, str]]:
    """Return the speed of each running job, and the resource it waits for."""
    found = _shared(active, capacity, [1.0] * len(active))
    awake = _awake(active, capacity, [speed for speed, _ in found])
    if min(awake, default=1.0) == 1.0:
        return found
    return [
        (share * speed, limit or (CPU if share * speed < _TOLD else ""))
        for share, (speed, limit) in zip(awake, _shared(active, capacity, awake), strict=True)
    ]


def _awake(active: Sequence[_Running], capacity: Capacity, speeds: Sequence[float]) -> list[float]:
    """Return the share of its time in which a job that often wakes up does not wait for a core.

    It waits where all want more CPU time than there is, and others leave no core idle: a job that
    needs little of it, but often, such as one that writes and waits for the disk, is slower then
    than shares of CPU time tell.
    """
    found = []
    for run in active:
        size = _size(capacity, CPU, run.job.cpus)
        beside = [
            (other.phase.needs.get(CPU, 0.0), speed)
            for other, speed in zip(active, speeds, strict=True)
            if other.job.cpus == run.job.cpus and other is not run
        ]
        wanted = run.phase.needs.get(CPU, 0.0) + math.fsum(need for need, _ in beside)
        busy = math.fsum(need * speed for need, speed in beside) - (size - 1)
        is_scarce = wanted > size * (1 + _NEAR)
        waits = run.phase.wakes * capacity.wake_s * min(max(busy, 0.0), 1.0) if is_scarce else 0.0
        found.append(1 / (1 + waits))
    return found


def _shared(
    active: Sequence[_Running], capacity: Capacity, awake: Sequence[float]
) -> list[tuple[float, str]]:
    """Return the speed of each job while it is awake, and the resource it waits for."""
    pools: dict[tuple[str, frozenset[int] | None], Demand] = {}
    for j, run in enumerate(active):
        for resource, need in run.phase.needs.items():
            cpus = run.job.cpus if resource == CPU else None
            size = _size(capacity, resource, cpus)
            if need <= 0 or math.isinf(size):
                continue
            weight = 1.0
            if resource == CPU:
                threads = max(run.phase.threads, need, _LEAST_WEIGHT)
                weight = threads**capacity.thread_power
            asked = (j, need * awake[j], weight)
            pools.setdefault((resource, cpus), (size, []))[1].append(asked)
    # In one order, whichever job is named first: rounds of sharing begin with the first resource.
    order = sorted(pools, key=lambda pool: (RESOURCES.index(pool[0]), sorted(pool[1] or ())))
    return [
        (speed, order[k][0] if k >= 0 and speed < _TOLD else "")
        for speed, k in speeds(len(active), [pools[pool] for pool in order])
    ]


def _size(capacity: Capacity, resource: str, cpus: frozenset[int] | None) -> float:
    if resource == CPU:
        return float(capacity.n_cores if cpus is None else len(cpus))
    return {BANDWIDTH: capacity.bandwidth, DISK: capacity.disk}[resource]
