"""Times of batches: a line in the batch size, corrected where measured points leave it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Levels at which the spread of a batch time is kept.
N_LEVELS = 256
#: A median is never known better than this: a server is another process, with its memory elsewhere.
_LEAST_ERROR = 0.05
#: A larger error says that nothing is known: the time may be 25 times as long.
_MOST_ERROR = 2.0
#: How far a line may be off between two points, where no third point tells.
_UNKNOWN_CURVATURE = 0.10
_LEAST_CURVATURE = 0.03
#: Quantile of a normal distribution: the ends of an interval of 90 %.
_Z90 = 1.6449


@dataclass(frozen=True)
class Point:
    """What was measured of one batch size with one number of threads.

    Attributes
    ----------
    levels
        Times of single calls divided by their median: quantiles in even steps, smallest first.
    error
        Relative standard error of the median, from rounds at different times.
    busy_cores
        CPU seconds per second of a call.
    disturbed
        The share of rounds that were left out, as other work made them slow.
    pause_s
        What a call takes longer after a pause, in which the processor did something else or
        nothing; 0 where that was not measured.
    """

    threads: int
    batch: int
    median_s: float
    levels: tuple[float, ...]
    error: float
    busy_cores: float
    n_calls: int
    disturbed: float = 0.0
    pause_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain values; without the levels, of which only the mean is told."""
        return {
            "threads": self.threads,
            "batch": self.batch,
            "median_s": self.median_s,
            "mean_s": self.median_s * float(np.mean(self.levels)),
            "error": self.error,
            "busy_cores": self.busy_cores,
            "n_calls": self.n_calls,
            "disturbed": self.disturbed,
            "pause_s": self.pause_s,
        }


@dataclass(frozen=True, eq=False)
class BatchTimes:
    """Times of batches of any size with one number of threads.

    T(b) = (τ₀ + α·b)·g(b): the line is fitted to relative errors, and g leads through all measured
    points, so that nothing is assumed of the shape between them, not even that it rises.

    >>> points = [Point(1, b, 0.001 + 0.0002 * b, (1.0,), 0.0, 1.0, 20) for b in (1, 8, 64)]
    >>> times = BatchTimes(points)
    >>> round(times.fixed_s, 6), round(times.each_s, 6), round(float(times.median_s(16)), 6)
    (0.001, 0.0002, 0.0042)
    """

    points: Sequence[Point]

    @property
    def threads(self) -> int:
        """The number of threads."""
        return self.points[0].threads

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """The measured batch sizes."""
        return tuple(sorted(p.batch for p in self.points))

    @cached_property
    def _sorted(self) -> tuple[Point, ...]:
        return tuple(sorted(self.points, key=lambda p: p.batch))

    @cached_property
    def _line(self) -> tuple[float, float]:
        from scipy.optimize import nnls

        sizes = np.array([p.batch for p in self._sorted], dtype=float)
        times = np.array([p.median_s for p in self._sorted])
        if len(sizes) == 1:
            return 0.0, float(times[0] / sizes[0])
        found, _ = nnls(np.column_stack([1 / times, sizes / times]), np.ones(len(times)))
        return float(found[0]), float(found[1])

    @property
    def fixed_s(self) -> float:
        """τ₀: the time of a batch that does not depend on its size."""
        return self._line[0]

    @property
    def each_s(self) -> float:
        """α: the time that each sample adds."""
        return self._line[1]

    def _on_line(self, batches: Array) -> Array:
        return np.asarray(self.fixed_s + self.each_s * batches, dtype=float)

    @cached_property
    def _bends(self) -> Array:
        """Logarithms of measured times over those of the line."""
        sizes = np.array(self.batches, dtype=float)
        return np.log([p.median_s for p in self._sorted]) - np.log(self._on_line(sizes))

    @property
    def curvature(self) -> float:
        """How far points are from the line: the root of the mean of their squared logarithms."""
        if len(self.points) < 3:
            return _UNKNOWN_CURVATURE
        return max(_LEAST_CURVATURE, float(np.sqrt(np.mean(self._bends**2))))

    def median_s(self, batches: Iterable[int] | int) -> Array:
        """Return the times of batches."""
        sizes = np.asarray(batches, dtype=float)
        bend = np.interp(np.log(sizes), np.log(self.batches), self._bends)
        return np.asarray(self._on_line(sizes) * np.exp(bend))

    def error(self, batches: Iterable[int] | int) -> Array:
        """Return relative standard errors: of the points, and of what is between them."""
        sizes = np.asarray(batches, dtype=float)
        at = np.log2(np.asarray(self.batches, dtype=float))
        own = np.clip([p.error for p in self._sorted], _LEAST_ERROR, _MOST_ERROR)
        place = np.log2(sizes)
        measured = np.interp(place, at, own)
        right = np.clip(np.searchsorted(at, place), 1, max(1, len(at) - 1))
        if len(at) == 1:
            return np.asarray(np.where(place == at[0], measured, _UNKNOWN_CURVATURE))
        gap = at[right] - at[right - 1]
        share = np.clip((place - at[right - 1]) / gap, 0.0, 1.0)
        # Half-way in a gap of one octave, a quarter of the curvature is left; it grows with gaps.
        between = self.curvature * np.minimum(1.0, gap / 4) * 4 * share * (1 - share)
        return np.asarray(np.hypot(measured, between))

    @property
    def pause_s(self) -> float:
        """What a batch takes longer after a pause: as much as the smallest one."""
        return self._sorted[0].pause_s

    def mean_s(self, batches: Iterable[int] | int) -> Array:
        """Return mean times: medians, times the mean of their spread."""
        return np.asarray(self.median_s(batches) * self._spread(batches).mean(axis=-1))

    def _spread(self, batches: Iterable[int] | int) -> Array:
        """Return quantiles over the median for each batch size, between those of points."""
        place = np.log(np.atleast_1d(np.asarray(batches, dtype=float)))
        at = np.log(np.asarray(self.batches, dtype=float))
        levels = (np.arange(N_LEVELS) + 0.5) / N_LEVELS
        known = np.array([_quantiles(p.levels, levels) for p in self._sorted])
        right = np.clip(np.searchsorted(at, place), 0, len(at) - 1)
        left = np.maximum(right - 1, 0)
        gap = np.where(at[right] > at[left], at[right] - at[left], 1.0)
        share = np.clip((place - at[left]) / gap, 0.0, 1.0)[:, None]
        return np.asarray(known[left] * (1 - share) + known[right] * share)

    def table(self, cap: int, *, overhead_s: float = 0.0, sureness: float = 0.0) -> Array:
        """Return times of batches 0 to the cap, each at even levels of its distribution.

        Parameters
        ----------
        overhead_s
            What a server adds to each batch.
        sureness
            By how many standard errors times are longer than expected.
        """
        sizes = np.arange(1, cap + 1)
        factor = np.exp(sureness * self.error(sizes))
        times = (self.median_s(sizes) * factor)[:, None] * self._spread(sizes) + overhead_s
        return np.vstack([np.zeros(N_LEVELS), times])

    def busy_cores(self, batch: float) -> float:
        """Return how many cores a call keeps busy."""
        return float(
            np.interp(
                math.log(max(batch, 1.0)),
                np.log(self.batches),
                [p.busy_cores for p in self._sorted],
            )
        )

    def per_s(self, batch: int, overhead_s: float = 0.0) -> float:
        """Return samples per second in batches of one size, without a pause."""
        return batch / (float(self.mean_s(batch).item()) + overhead_s)


#: The ends of an interval of 90 %, in standard errors.
PESSIMISTIC = _Z90
OPTIMISTIC = -_Z90


def times_by_threads(points: Iterable[Point]) -> dict[int, BatchTimes]:
    """Group measured points."""
    found: dict[int, list[Point]] = {}
    for point in points:
        found.setdefault(point.threads, []).append(point)
    return {threads: BatchTimes(found[threads]) for threads in sorted(found)}


def _quantiles(levels: Sequence[float], at: Array) -> Array:
    own = (np.arange(len(levels)) + 0.5) / len(levels)
    return np.asarray(np.interp(at, own, levels))


Times = Mapping[int, BatchTimes]
