"""Measuring batch times: each number of threads in a process of its own, and few sizes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from foretell.decide.deployment.batch_times import BatchTimes, Point, Times, times_by_threads
from foretell.decide.deployment.points import Points
from foretell.deploy.cache import PointCache
from foretell.deploy.network import BatchFailedError, Effort, Network, NetworkProcess
from foretell.errors import NothingUsableError

#: From here on a change of times between two measurements is told.
_LARGE_DRIFT = 0.05
#: Beyond it, it is a disturbance that the rounds did not show, and no interval would help.
_MOST_DRIFT = 0.25
#: Tells whether a batch size can be computed at all.
_TRIAL = Effort(n_warm_ups=1, warm_up_s=0.0, n_calls=1, calls_s=0.0, n_pauses=0)
#: Says which threads and batch sizes a choice by the times so far depends on.
Wanted = Callable[[Times], list[tuple[int, int]]]


class Stopwatch:
    """Times batches of a network; processes start when they are first needed.

    Parameters
    ----------
    folder
        Where points are kept; None keeps none.

    Attributes
    ----------
    largest
        The largest batch that a server will have had, which a process computes before all others;
        0 for none. An allocator that had it keeps as much memory, and smaller batches no longer
        take theirs from the system in each call, which made some a fifth slower.
    """

    def __init__(self, network: Network, threads: int, effort: Effort, folder: Path | None) -> None:
        self.network, self.effort = network, effort
        first = NetworkProcess(network, threads)
        self._processes = {threads: first}
        self._warm: set[int] = set()
        self._folder = folder
        self.description: dict[str, Any] = first.description
        self.largest = 0

    @property
    def largest(self) -> int:
        """The largest batch that processes compute first; times beside another are other times."""
        return self._largest

    @largest.setter
    def largest(self, batch: int) -> None:
        self._largest = batch
        self.cache = PointCache(self._folder, self.network, self.description, self.effort, batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            process.close()

    def point(self, threads: int, batch: int) -> Point:
        """Return the time of a batch size; raise a BatchFailedError if it cannot be computed."""
        found = self.cache.get(threads, batch)
        return self.timed(threads, batch) if found is None else found

    def can_compute(self, threads: int, batch: int) -> bool:
        """Try a batch size, which takes less time than to measure it."""
        try:
            self.timed(threads, batch, _TRIAL)
        except BatchFailedError:
            return False
        return True

    def timed(self, threads: int, batch: int, effort: Effort | None = None) -> Point:
        """Time a batch size, whether that was done before or not."""
        if threads not in self._warm:
            self._warm.add(threads)
            if batch < self.largest:
                self.can_compute(threads, self.largest)
        if threads not in self._processes:
            self._processes[threads] = NetworkProcess(self.network, threads)
        try:
            timed = self._processes[threads].timed(batch, effort or self.effort)
        except BatchFailedError:
            self._processes.pop(threads).close()
            self._warm.discard(threads)
            self.largest = 0
            raise
        return Point(threads, batch, **{**timed, "levels": tuple(timed["levels"])})


@dataclass
class Measured:
    """Points of a network, and how they came about.

    Attributes
    ----------
    most_batch
        The largest batch size that could be computed; None if none failed.
    """

    points: list[Point] = field(default_factory=list)
    n_grid: int = 0
    n_cached: int = 0
    seconds: float = 0.0
    most_batch: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def times(self) -> dict[int, BatchTimes]:
        """The times of batches by threads."""
        return times_by_threads(self.points)


def measure_points(
    stopwatch: Stopwatch,
    plan: Points,
    wanted: Wanted,
    progress: Callable[[str], None] | None = None,
) -> Measured:
    """Measure one point after the other, until the choice is known well enough."""
    found = Measured(n_grid=plan.n_grid)
    stopwatch.largest = plan.sizes[-1]
    started = time.monotonic()
    while True:
        spot = plan.next(_wanted(found, plan, wanted))
        if spot is None:
            break
        threads, batch = spot
        if progress is not None:
            progress(f"batch {batch}, {threads} thread{'' if threads == 1 else 's'}")
        own = [p for p in found.points if p.threads == threads]
        foretold = float(BatchTimes(own).median_s(batch).item()) if len(own) > 1 else None
        try:
            point = stopwatch.point(threads, batch)
        except BatchFailedError as error:
            plan = _smaller(stopwatch, plan, found, spot, error)
            continue
        found.points.append(point)
        plan.tell(threads, batch, foretold, point.median_s)
    known = stopwatch.cache
    taken = {(p.threads, p.batch) for p in found.points}
    left = [spot for spot in product(plan.threads, plan.sizes) if spot not in taken]
    # What is known costs nothing.
    found.points += [p for spot in left if (p := known.get(*spot)) is not None]
    found.n_cached = sum(known.get(p.threads, p.batch) is not None for p in found.points)
    _add_drift(stopwatch, found)
    found.seconds = time.monotonic() - started
    found.notes += _disturbance(found.points)
    return found


def _add_drift(stopwatch: Stopwatch, found: Measured) -> None:
    """Time the first point of each number of threads again, some time after the others.

    How far the two are apart is how well any time is known from one minute to the next.
    """
    fresh = [p for p in found.points if stopwatch.cache.get(p.threads, p.batch) is None]
    if len(fresh) > 2:
        first = {p.threads: p for p in reversed(fresh)}
        shifts = [
            math.log(stopwatch.timed(p.threads, p.batch).median_s / p.median_s)
            for p in first.values()
        ]
        # Each of two times is off by the root of one half of the square of their difference.
        drift = min(math.sqrt(sum(s * s for s in shifts) / len(shifts) / 2), _MOST_DRIFT)
        if drift > _LARGE_DRIFT:
            found.notes.append(
                f"Times changed by {100 * (math.exp(max(map(abs, shifts))) - 1):.0f} % while they "
                "were measured, which is why intervals are wide."
            )
        wider = {id(p): replace(p, error=math.hypot(p.error, drift)) for p in fresh}
        found.points = [wider.get(id(p), p) for p in found.points]
        fresh = list(wider.values())
    for point in fresh:
        stopwatch.cache.add(point)


def _disturbance(points: list[Point]) -> list[str]:
    """Return a note if other work disturbed the measurement."""
    disturbed = [p for p in points if p.disturbed > 0.25]
    if len(disturbed) <= len(points) // 4:
        return []
    return [
        f"Other work disturbed {len(disturbed)} of {len(points)} measurements; times are those of "
        "the rounds in between. Measure again when the machine does nothing else."
    ]


def _wanted(found: Measured, plan: Points, wanted: Wanted) -> list[tuple[int, int]]:
    """Ask what the choice depends on, once each curve has its ends."""
    least = min(2, len(plan.sizes)) * len(plan.threads)
    is_early = plan.n_taken < least or plan.n_taken >= plan.most or plan.is_whole
    return [] if is_early else wanted(found.times)


def _smaller(
    stopwatch: Stopwatch,
    plan: Points,
    found: Measured,
    failed: tuple[int, int],
    error: BatchFailedError,
) -> Points:
    """Go on with the batch sizes that can be computed, up to the largest, found by halving."""
    threads, batch = failed
    sizes = [size for size in plan.sizes if size < batch]
    known = max((p.batch for p in found.points if p.batch < batch), default=0)
    low, high = sum(size <= known for size in sizes), len(sizes)
    while low < high:  # the first `low` sizes can be computed, and those from `high` on cannot
        middle = (low + high) // 2
        if stopwatch.can_compute(threads, sizes[middle]):
            low = middle + 1
        else:
            batch, high = sizes[middle], middle
    sizes = sizes[:low]
    if not sizes:
        raise NothingUsableError(f"a batch of {batch} cannot be computed: {error}")
    found.most_batch = sizes[-1]
    found.notes = [f"Batches of {batch} and more cannot be computed: {error}."]
    found.points = [p for p in found.points if p.batch < batch]
    taken = {t: [s for s in own if s < batch] for t, own in plan.taken.items()}
    stopwatch.largest = sizes[-1]
    return Points(sizes, plan.threads, plan.is_whole, taken)
