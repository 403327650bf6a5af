"""What the residual of one job may depend on: summaries of the job, its neighbors, and products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foretell.decide.corun.fluid import CoRun
from foretell.decide.corun.jobs import CPU, DISK, CoJob, JobNeeds

Array = NDArray[np.float64]
FEATURES = (
    "slowdown", "cpu", "disk", "threads", "memory", "others_cpu", "others_disk", "others_threads",
    "others_memory", "cpu_product", "memory_product", "disk_product", "overlap",
)  # fmt: skip


def features(jobs: Sequence[CoJob], fluid: CoRun, k: int) -> Array:
    """Return what the residual of one job may depend on."""
    own = jobs[k].job
    others = [job.job for i, job in enumerate(jobs) if i != k]
    cpu, disk, threads, memory = _summary(own)
    sums = np.sum([_summary(o) for o in others], axis=0) if others else np.zeros(4)
    end = fluid.ends_s[k]
    wall = max(end - jobs[k].start_s, 1e-9)
    beside = sum(
        s.end_s - s.start_s
        for s in fluid.stretches
        if s.speeds[k] > 0 and sum(v > 0 for v in s.speeds) > 1
    )
    slowdown = math.log(max(wall / ((1 - jobs[k].progress) * own.alone_s), 1e-9))
    row = [slowdown, cpu, disk, threads, memory, *sums]
    row += [cpu * sums[0], memory * sums[3], disk * sums[1], min(beside / wall, 1.0)]
    return np.array(row, dtype=float)


def _summary(job: JobNeeds) -> tuple[float, float, float, float]:
    threads = math.fsum(p.seconds * p.threads for p in job.phases) / job.alone_s
    return job.mean(CPU), job.mean(DISK), threads, math.log1p(job.memory_bytes / 2**20)
