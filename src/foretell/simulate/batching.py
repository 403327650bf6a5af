"""A server that takes requests in batches, with a cap and a longest wait; Poisson arrivals."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Of a run, the share at its start that is left out: it began with an empty queue.
_WARM_UP = 0.05
N_RUNS, N_ARRIVALS = 5, 200_000
#: After as long without work a server is as slow as after any longer pause.
LONGEST_PAUSE_S = 0.01


@dataclass(frozen=True, eq=False)
class BatchRun:
    """What happened in one run, or in several one after the other.

    Attributes
    ----------
    latencies_s
        From arrival to the end of its batch, of each request after the warm-up.
    sizes
        The sizes of all batches.
    busy
        The share of time in which a batch was computed.
    """

    latencies_s: Array
    sizes: NDArray[np.int64]
    busy: float

    @property
    def mean_s(self) -> float:
        """The mean latency."""
        return float(self.latencies_s.mean())

    @property
    def p99_s(self) -> float:
        """The latency that one request in a hundred exceeds."""
        return float(np.quantile(self.latencies_s, 0.99))

    @property
    def mean_batch(self) -> float:
        """The mean size of batches."""
        return float(self.sizes.mean())


def play_batches(
    times: Array,
    *,
    rate_per_s: float,
    wait_s: float = 0.0,
    pause_s: float = 0.0,
    n_arrivals: int,
    seed: int,
) -> BatchRun:
    """Play requests through one server.

    When the server is free, it takes all that wait, up to the cap. If there are fewer than the cap,
    it first waits until the oldest has waited ``wait_s``, or until there are as many as the cap.

    Parameters
    ----------
    times
        One row per batch size from 0 to the cap: times of such batches at even levels of their
        distribution, of which each batch draws one.
    pause_s
        What a batch takes longer after the server had nothing to do; less after short pauses.

    >>> run = play_batches(np.full((2, 1), 0.5), rate_per_s=1e-3, n_arrivals=100, seed=0)
    >>> round(run.mean_s, 3), run.mean_batch
    (0.5, 1.0)
    """
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(1 / rate_per_s, n_arrivals))
    draws = random.integers(0, times.shape[1], n_arrivals).tolist()
    sizes, starts, ends = _batches(arrivals.tolist(), times.tolist(), draws, wait_s, pause_s)
    counts = np.array(sizes, dtype=np.int64)
    latencies = np.repeat(np.array(ends), counts) - arrivals
    busy = (math.fsum(ends) - math.fsum(starts)) / ends[-1]
    return BatchRun(latencies[int(_WARM_UP * n_arrivals) :], counts, busy)


def _batches(
    arrivals: list[float], times: list[list[float]], draws: list[int], wait_s: float, pause_s: float
) -> tuple[list[int], list[float], list[float]]:
    """Return the size, the start and the end of each batch, in order."""
    cap, n = len(times) - 1, len(arrivals)
    slower = pause_s / LONGEST_PAUSE_S
    sizes: list[int] = []
    starts: list[float] = []
    ends: list[float] = []
    first, free, n_batches = 0, 0.0, 0
    while first < n:
        start = max(free, arrivals[first])
        last = min(first + cap, n)
        after = bisect_right(arrivals, start, first, last)
        due = arrivals[first] + wait_s
        if after < last and start < due:
            # The one that fills the batch may come before the oldest has waited long enough.
            start = min(due, max(start, arrivals[last - 1])) if last - first == cap else due
            after = bisect_right(arrivals, start, after, last)
        pause = min(start - free, LONGEST_PAUSE_S)
        free = start + times[after - first][draws[n_batches]] + slower * pause
        sizes.append(after - first)
        starts.append(start)
        ends.append(free)
        first = after
        n_batches += 1
    return sizes, starts, ends


def play_runs(
    times: Array,
    *,
    rate_per_s: float,
    wait_s: float = 0.0,
    pause_s: float = 0.0,
    n_runs: int = N_RUNS,
    n_arrivals: int = N_ARRIVALS,
    seed: int = 0,
) -> BatchRun:
    """Play several runs, and put them one after the other."""
    runs = [
        play_batches(
            times,
            rate_per_s=rate_per_s,
            wait_s=wait_s,
            pause_s=pause_s,
            n_arrivals=n_arrivals,
            seed=seed + k,
        )
        for k in range(n_runs)
    ]
    return BatchRun(
        np.concatenate([run.latencies_s for run in runs]),
        np.concatenate([run.sizes for run in runs]),
        float(np.mean([run.busy for run in runs])),
    )
