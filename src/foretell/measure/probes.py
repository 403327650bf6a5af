"""Probes: small jobs that show how fast a type of node is, bound by arithmetic or by memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foretell.measure.workloads._base import RunFailedError

Array = NDArray[np.float64]
_N_COLUMNS, _N_CENTERS = 32, 16
_GOVERNORS = Path("/sys/devices/system/cpu")


def probe(
    job: str, cpus: int, iterations: int, memory_mib: float, governor: str | None = None
) -> None:
    """Run a probe on some CPUs; a sweep of `foretell cluster probe` calls it.

    Parameters
    ----------
    job
        One of ``JOBS``.
    cpus
        On how many CPUs it runs, and not on others.
    iterations
        How often the work is done.
    memory_mib
        The size of the data it works on.
    governor
        The frequency governor to set, where the machine grants it.
    """
    from threadpoolctl import threadpool_limits

    if job not in JOBS:
        raise RunFailedError(f"there is no probe '{job}'; known: {', '.join(JOBS)}")
    if governor is not None:
        _set_governor(governor)
    allowed = sorted(os.sched_getaffinity(0))
    if cpus > len(allowed):
        raise RunFailedError(f"{cpus} CPUs are asked for, and this machine has {len(allowed)}")
    os.sched_setaffinity(0, allowed[:cpus])
    with threadpool_limits(cpus):
        JOBS[job](cpus, iterations, max(1, round(memory_mib * 2**20 / 8)))


def idle(seconds: float) -> None:
    """Do nothing, to measure what an idle node draws."""
    time.sleep(seconds)


def _k_means(cpus: int, iterations: int, n_numbers: int) -> None:
    random = np.random.default_rng(0)
    points = random.random((max(_N_CENTERS, n_numbers // _N_COLUMNS), _N_COLUMNS))
    centers = points[:_N_CENTERS].copy()
    for _ in range(iterations):
        distances = (centers**2).sum(axis=1) - 2 * points @ centers.T
        nearest = distances.argmin(axis=1)
        for i in range(_N_CENTERS):
            own = points[nearest == i]
            if len(own):
                centers[i] = own.mean(axis=0)


def _matrix_product(cpus: int, iterations: int, n_numbers: int) -> None:
    n = max(8, int((n_numbers / 3) ** 0.5))  # two factors and the product
    random = np.random.default_rng(0)
    left, right = random.random((n, n)), random.random((n, n))
    for _ in range(iterations):
        np.matmul(left, right)


def _copy(cpus: int, iterations: int, n_numbers: int) -> None:
    source = np.ones(max(cpus, n_numbers // 2))
    target = np.empty_like(source)
    parts = np.array_split(np.arange(len(source)), cpus)
    slices = [slice(int(part[0]), int(part[-1]) + 1) for part in parts]

    def copy(part: slice) -> None:
        for _ in range(iterations):
            np.copyto(target[part], source[part])

    with ThreadPoolExecutor(cpus) as pool:
        list(pool.map(copy, slices))


def _set_governor(name: str) -> None:
    files = sorted(_GOVERNORS.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    try:
        for file in files:
            file.write_text(name)
    except OSError as error:
        raise RunFailedError(
            f"the governor cannot be set to {name}: {error.strerror}; run as root"
        ) from None
    if not files:
        raise RunFailedError(
            "this machine has no frequency governors; leave the governor out of the sweep"
        )


#: The probes by name: two are bound by arithmetic, one by memory.
JOBS: dict[str, Callable[[int, int, int], None]] = {
    "k_means": _k_means,
    "matrix_product": _matrix_product,
    "copy": _copy,
}
