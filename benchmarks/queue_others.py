"""Other ways to share an engine, beside eviction and dropping: one line, fair share, pools.

    python -m benchmarks.queue_others [--seeds 5] [--jobs 40000]

Every figure is *simulated*, on the jobs of the reference of `benchmarks.queue_study`. Jobs that run
at the same time share the slots, and a job with half of them is assumed to take twice as long.
"""

from __future__ import annotations

import argparse
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.queue_study import NP, Compared, P, Policy, SetUp, mean_of, p95_of, reference
from foretell.simulate.queue import PlayedQueue

Array = NDArray[np.float64]
Lines = Callable[[PlayedQueue], tuple[NDArray[np.int64], Mapping[int, float]]]

#: Each way says which line every job waits in, and what share of the engine a line gets, if not 1.
SHARED: dict[str, Lines] = {
    "one line, in order of arrival": lambda jobs: (np.zeros_like(jobs.class_of), {}),
    "fair share of all jobs": lambda jobs: (np.arange(len(jobs.class_of)), {}),
    "fair pools, one per class": lambda jobs: (jobs.class_of, {}),
    "pools, high weighs 9 to 1": lambda jobs: (jobs.class_of, {jobs.names.index("high"): 9.0}),
}
PRIORITIES = (P, NP, Policy("DA(0,20)", drops=(0.2, 0.0)))


def shared_ends(
    arrival_s: Array, work_s: Array, line_of: NDArray[np.int64], weights: Mapping[int, float]
) -> Array:
    """Return when jobs end whose lines share an engine; the first job of each line runs."""
    lines: dict[int, deque[int]] = {}
    left, ends, now_s, n_come = work_s.tolist(), np.zeros(len(work_s)), 0.0, 0
    while n_come < len(left) or lines:
        weight = {line: weights.get(line, 1.0) for line in lines}
        total = sum(weight.values())
        # How long each job that runs takes from now on, if nothing changes.
        takes = {line: left[jobs[0]] * total / weight[line] for line, jobs in lines.items()}
        first = min(takes, key=takes.__getitem__, default=None)
        arrival = float(arrival_s[n_come]) if n_come < len(left) else math.inf
        ends_next = first is not None and now_s + takes[first] <= arrival
        step_s = takes[first] if first is not None and ends_next else arrival - now_s
        for line, jobs in lines.items():
            left[jobs[0]] -= step_s * weight[line] / total
        now_s = now_s + step_s if ends_next else arrival
        if first is not None and ends_next:
            ends[lines[first].popleft()] = now_s
            if not lines[first]:
                del lines[first]
        else:
            lines.setdefault(int(line_of[n_come]), deque()).append(n_come)
            n_come += 1
    return ends


def others(set_up: SetUp, *, n_jobs: int, n_seeds: int) -> dict[str, list[PlayedQueue]]:
    """Play all ways on the same jobs, once for each seed."""
    played = {
        p.name: [set_up.play(p, n_jobs=n_jobs, seed=s) for s in range(n_seeds)] for p in PRIORITIES
    }
    shared: dict[str, list[PlayedQueue]] = {}
    for name, lines in SHARED.items():
        shared[name] = [
            replace(jobs, end_s=shared_ends(jobs.arrival_s, jobs.engine_s, *lines(jobs)))
            for jobs in played[NP.name]  # in which each job is in the engine once
        ]
    return {P.name: played.pop(P.name), **shared, **played}


def rows(found: Mapping[str, Sequence[PlayedQueue]]) -> list[list[str]]:
    """Return a row for each way: mean and p95 of low, those of high, and what is thrown away."""
    return [
        [
            name,
            *(
                f"{Compared.of([figure(p, of) for p in played]).mean:.0f} s"
                for of in ("low", "high")
                for figure in (mean_of, p95_of)
            ),
            f"{100 * np.mean([p.waste for p in played]):.1f} %" if name == P.name else "0",
        ]
        for name, played in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=40_000)
    given = parser.parse_args()
    header = ["reference, simulated", "low, mean", "low, p95", "high, mean", "high, p95", "waste"]
    found = others(reference(), n_jobs=given.jobs, n_seeds=given.seeds)
    for row in [header, *rows(found)]:
        print(f"{row[0]:30}" + "".join(f"{cell:>12}" for cell in row[1:]))


if __name__ == "__main__":
    main()
