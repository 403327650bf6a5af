"""Jobs that share a machine: what each needs phase by phase, and what the machine has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

CPU, BANDWIDTH, DISK = "CPU time", "memory bandwidth", "disk"
RESOURCES = (CPU, BANDWIDTH, DISK)
#: Layouts of jobs that are pinned: all on few cores, or each on cores of its own.
PINS = ("packed", "spread")


@dataclass(frozen=True)
class Phase:
    """A part of a job that needs the same all the time.

    Attributes
    ----------
    seconds
        How long it takes alone.
    needs
        What it uses at full speed: cores, bytes per second of memory bandwidth, and the share of
        the time in which it keeps the disk busy.
    threads
        How many of its threads want to run at the same time.
    wakes
        How often per second one of its threads has waited for something else and needs a core.
    """

    seconds: float
    needs: Mapping[str, float] = field(default_factory=dict)
    threads: float = 1.0
    wakes: float = 0.0

    def __post_init__(self) -> None:
        numbers = [self.seconds, self.threads, self.wakes, *self.needs.values()]
        if not all(math.isfinite(n) and n >= 0 for n in numbers) or not self.needs.keys() <= {
            *RESOURCES
        }:
            raise ValueError(f"a phase needs finite numbers of zero or more: {self}")

    def on_cores(self, n_cores: float, speed: float) -> Phase:
        """Return the phase on cores of another speed; it takes longer where they are too few."""
        longer = max(1.0, self.needs.get(CPU, 0.0) / n_cores)
        needs = {resource: need / longer for resource, need in self.needs.items()}
        seconds = self.seconds * longer / speed
        return replace(self, seconds=seconds, needs=needs, wakes=self.wakes * speed / longer)


@dataclass(frozen=True)
class JobNeeds:
    """A job as it runs alone.

    Attributes
    ----------
    is_endless
        Whether it runs until it is stopped; then it is a steady load, and no end is told.
    """

    name: str
    phases: tuple[Phase, ...]
    memory_bytes: float = 0.0
    is_endless: bool = False

    @property
    def alone_s(self) -> float:
        """How long it takes alone."""
        return math.fsum(phase.seconds for phase in self.phases)

    def mean(self, resource: str) -> float:
        """Return what it uses of a resource on average."""
        total = math.fsum(p.seconds * p.needs.get(resource, 0.0) for p in self.phases)
        return total / self.alone_s

    def within(self, capacity: Capacity) -> JobNeeds:
        """Return the job with no need above what the machine has: alone it is not slowed."""
        sizes = {CPU: capacity.n_cores, BANDWIDTH: capacity.bandwidth, DISK: capacity.disk}
        phases = (
            replace(p, needs={r: min(n, sizes[r]) for r, n in p.needs.items()}) for p in self.phases
        )
        return JobNeeds(self.name, tuple(phases), self.memory_bytes, self.is_endless)

    def steady(self) -> JobNeeds:
        """Return the job as a load without end that needs at any time what it needs on average."""
        threads, wakes = (
            math.fsum(p.seconds * getattr(p, name) for p in self.phases) / self.alone_s
            for name in ("threads", "wakes")
        )
        phase = Phase(self.alone_s, {r: self.mean(r) for r in RESOURCES}, threads, wakes)
        return JobNeeds(self.name, (phase,), self.memory_bytes, is_endless=True)


@dataclass(frozen=True)
class CoJob:
    """A job among others.

    Attributes
    ----------
    start_s
        When it starts.
    progress
        The share of its work that is done by then, by its time alone.
    cpus
        The cores it may use; None means all.
    """

    job: JobNeeds
    start_s: float = 0.0
    progress: float = 0.0
    cpus: frozenset[int] | None = None


@dataclass(frozen=True)
class Capacity:
    """What a machine has.

    Attributes
    ----------
    n_cores
        Cores that jobs may use.
    memory_bytes
        The memory of the machine.
    bandwidth, disk
        Bytes per second of memory bandwidth, and how many disks' worth of requests the disk
        handles at the same time; infinite where it is not known.
    thread_power
        How shares of CPU time grow with threads: 1 if each thread gets the same, 0 if each job
        does.
    wake_s
        How long a thread that wakes up waits for a core while others keep all of them busy; 0
        where it is not known.
    """

    n_cores: int
    memory_bytes: float = math.inf
    bandwidth: float = math.inf
    disk: float = math.inf
    thread_power: float = 1.0
    wake_s: float = 0.0


def pinned(used: Sequence[float], n_cores: int) -> dict[str, list[frozenset[int]]]:
    """Return the cores of each job by layout: all on few cores, or each on cores of its own.

    Packed jobs share as many cores as the job that keeps most of them busy. Where there are more
    jobs than cores, spread jobs share a core with every ``n_cores``-th other.

    Parameters
    ----------
    used
        Cores that each job keeps busy alone, on average.

    >>> layouts = pinned([2.0, 1.0], 4)
    >>> [sorted(cpus) for cpus in layouts["packed"]], [sorted(c) for c in layouts["spread"]]
    ([[0, 1], [0, 1]], [[0, 2], [1, 3]])
    """
    n_jobs = len(used)
    few = frozenset(range(min(n_cores, max(1, math.ceil(max(used) - 0.25)))))
    own = [
        frozenset(range(k, n_cores, n_jobs)) if n_jobs <= n_cores else frozenset({k % n_cores})
        for k in range(n_jobs)
    ]
    return {"packed": [few] * n_jobs, "spread": own}
