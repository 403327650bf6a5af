"""Probes: small jobs that show how fast a type of node is, bound by arithmetic or by memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foretell.measure.running.orphans import without_orphans
from foretell.measure.workloads._base import RunFailedError

Array = NDArray[np.float64]
_N_COLUMNS, _N_CENTERS = 32, 16
_GOVERNORS = Path("/sys/devices/system/cpu")
#: Leaves a process behind that waits until its input is closed, and then writes to each file what
#: is given after the name; the end of its output tells that all is written.
_RESTORE = """exec 3<&0
(cat <&3 > /dev/null; while [ $# -gt 1 ]; do printf %s "$2" > "$1"; shift 2; done) &"""


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
        The frequency governor to set, where the machine grants it; the one before is set again
        however the probe ends.
    """
    from threadpoolctl import threadpool_limits

    if job not in JOBS:
        raise RunFailedError(f"there is no probe '{job}'; known: {', '.join(JOBS)}")
    allowed = sorted(os.sched_getaffinity(0))
    if cpus > len(allowed):
        raise RunFailedError(f"{cpus} CPUs are asked for, and this machine has {len(allowed)}")
    os.sched_setaffinity(0, allowed[:cpus])
    with threadpool_limits(cpus), nullcontext() if governor is None else _governor(governor):
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


@contextmanager
def _governor(name: str) -> Iterator[None]:
    """Set a frequency governor, and the old ones again afterwards, even after ``kill -9``."""
    files = sorted(_GOVERNORS.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    if not files:
        raise RunFailedError(
            "this machine has no frequency governors; leave the governor out of the sweep"
        )
    offered = {n for file in files for n in _offered(file)}
    if offered and name not in offered:
        raise RunFailedError(
            f"this machine has no governor {name}, but {', '.join(sorted(offered))}; leave it out "
            "of the sweep"
        )
    try:
        before = [part for file in files for part in (str(file), file.read_text().strip())]
    except OSError as error:
        raise RunFailedError(
            f"a governor cannot be read: {error.strerror}; leave it out of the sweep"
        ) from None
    with _restored(before):
        try:
            for file in files:
                file.write_text(name)
        except OSError as error:
            raise RunFailedError(
                f"the governor cannot be set to {name}: {error.strerror}; run as root"
            ) from None
        yield


@contextmanager
def _restored(before: list[str]) -> Iterator[None]:
    """Write to files what they held before, in the end, whatever ends this process.

    That is done by another process. It must not be a child of this one, or of the runner that this
    one is a part of: those are killed with it.
    """
    with without_orphans():
        restorer = subprocess.Popen(  # noqa: S603 - names and contents of files in sysfs
            ["/bin/sh", "-c", _RESTORE, "restore", *before], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        restorer.wait()
    assert restorer.stdin is not None
    assert restorer.stdout is not None
    with restorer.stdout:
        try:
            yield
        finally:
            restorer.stdin.close()
            restorer.stdout.read()


def _offered(file: Path) -> list[str]:
    try:
        return file.with_name("scaling_available_governors").read_text().split()
    except OSError:
        return []


#: The probes by name: two are bound by arithmetic, one by memory.
JOBS: dict[str, Callable[[int, int, int], None]] = {
    "k_means": _k_means,
    "matrix_product": _matrix_product,
    "copy": _copy,
}
