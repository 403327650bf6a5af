"""Phases of a job: where its needs change, found in the samples of one run alone (PELT)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretell.decide.corun.jobs import BANDWIDTH, CPU, DISK, Phase
from foretell.traces import Trace

Array = NDArray[np.float64]

#: The column of a trace with the CPU time of all that is not the job.
OTHERS = "other_cpu_time_s"
#: The column with how often a core was given to one of its threads; older profiles lack it.
SWITCHES = "n_switches"
_LEAST_BINS = 5  # in a phase
_MOST_BINS = 600
_LEAST_BIN_S = 0.1  # the kernel counts CPU time in steps of 0.01 s
_PENALTY = 3.0
_MOST_PHASES = 16
_LEAST_NOISE = 0.1  # of the logarithm of a rate: smaller changes are none


def job_phases(
    trace: Trace, wall_s: float, n_cores: float, bandwidth: float, kernel_time_s: float = 0.0
) -> list[Phase]:
    """Return the phases of a job, with what each needs.

    Parameters
    ----------
    wall_s
        How long the job took; its phases take as long.
    n_cores
        How many cores it could use: nothing needs more.
    bandwidth
        Bytes per second of memory bandwidth that it needs while it keeps one core busy.
    kernel_time_s
        CPU time of threads of the kernel that worked for it.
    """
    edges, rates = _binned(trace, wall_s, kernel_time_s)
    signals = np.log1p(np.array([rates["cpu"], rates["wait"], 10 * rates["disk"]]).T)
    penalty = _PENALTY * signals.shape[1]
    cuts = change_points(signals, penalty)
    while len(cuts) >= _MOST_PHASES:
        penalty *= 2
        cuts = change_points(signals, penalty)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(signals)], strict=True):
        weights = np.diff(edges)[start:end]
        mean = {n: float(np.average(v[start:end], weights=weights)) for n, v in rates.items()}
        cpu = min(mean["cpu"] + mean["kernel"], n_cores)
        needs = {CPU: cpu, DISK: min(mean["disk"], 1.0)}
        if bandwidth > 0:
            needs[BANDWIDTH] = bandwidth * min(mean["cpu"], n_cores)
        seconds = float(edges[end] - edges[start])
        found.append(Phase(seconds, needs, max(mean["cpu"] + mean["wait"], 1e-3), mean["wakes"]))
    return found


def _binned(trace: Trace, wall_s: float, kernel_time_s: float) -> tuple[Array, dict[str, Array]]:
    """Return the edges of bins of equal length, and mean rates within each."""
    n_bins = int(np.clip(wall_s / _LEAST_BIN_S, 1, _MOST_BINS))
    n_bins = min(n_bins, max(1, len(trace) - 1))
    edges = np.linspace(0.0, wall_s, n_bins + 1)
    times = np.concatenate([[0.0], trace.times_s])

    def rate(name: str) -> Array:
        total = np.concatenate([[0.0], np.maximum.accumulate(trace.columns[name])])
        values: Array = np.diff(np.interp(edges, times, total)) / np.diff(edges)
        return values

    own = rate("read_bytes") + rate("written_bytes")
    share = np.minimum(1.0, own / np.maximum(rate("disk_bytes"), 1.0))
    # When the kernel worked for the job is not sampled, only when others than the job did.
    others = rate(OTHERS) if kernel_time_s > 0 else np.zeros(n_bins)
    others_s = float(others @ np.diff(edges))
    return edges, {
        "cpu": rate("cpu_time_s"),
        "kernel": others * min(1.0, kernel_time_s / others_s) if others_s > 0 else others,
        "wait": rate("wait_time_s"),
        # Alone, a thread is given a core when it wakes up, and hardly for another reason.
        "wakes": rate(SWITCHES) if SWITCHES in trace.columns else np.zeros(n_bins),
        "disk": share * rate("disk_busy_s"),
    }


def change_points(signals: Array, penalty: float) -> list[int]:
    """Return where the mean of signals changes, by PELT (Killick, Fearnhead and Eckley, 2012).

    Signals are divided by their noise, a change costs ``penalty`` times the logarithm of the
    number of values, and at least five values lie between changes.

    >>> steps = np.repeat([[0.0], [3.0], [1.0]], 20, axis=0)
    >>> change_points(steps, 3.0)
    [20, 40]
    """
    n = len(signals)
    if n < 2 * _LEAST_BINS:
        return []
    # By the noise, not by the whole spread: a clear step must not hide itself.
    noise = 1.4826 / np.sqrt(2) * np.median(np.abs(np.diff(signals, axis=0)), axis=0)
    values = signals / np.maximum(noise, _LEAST_NOISE)
    zero = np.zeros((1, values.shape[1]))
    sums = np.concatenate([zero, values.cumsum(axis=0)])
    squares = np.concatenate([[0.0], (values**2).sum(axis=1).cumsum()])
    price = penalty * np.log(max(n, 2))
    best = np.full(n + 1, np.inf)
    best[0] = -price
    before = np.zeros(n + 1, dtype=int)
    starts = np.array([0])
    for end in range(_LEAST_BINS, n + 1):
        if end >= 2 * _LEAST_BINS:
            starts = np.append(starts, end - _LEAST_BINS)
        length = end - starts
        cost = squares[end] - squares[starts]
        cost = cost - ((sums[end] - sums[starts]) ** 2).sum(axis=1) / length
        totals = best[starts] + cost + price
        k = int(totals.argmin())
        best[end], before[end] = totals[k], starts[k]
        starts = starts[totals - price <= best[end]]
    cuts: list[int] = []
    place = int(before[n])
    while place > 0:
        cuts.append(place)
        place = int(before[place])
    return cuts[::-1]
