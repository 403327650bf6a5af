"""Cores: libraries use one, so that sums come out the same; work on many rows uses all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Rows that one thread works on at a time, however many threads there are.
_BLOCK_ROWS = 4096
#: What BLAS and OpenMP libraries read when they are loaded.
_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def limit_threads() -> Any:
    """Keep BLAS and OpenMP to one thread, whether they are loaded already or on first use."""
    from threadpoolctl import threadpool_limits

    os.environ.update(dict.fromkeys(_VARIABLES, "1"))
    return threadpool_limits(1)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Limit threads for a while; a library loaded meanwhile keeps to one thread afterwards."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    limits = limit_threads()
    try:
        yield
    finally:
        limits.restore_original_limits()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit the threads of linear algebra for a moment, and leave those of PyTorch as they are.

    Small matrices gain nothing from threads, which wait for one another where cores are busy: what
    takes milliseconds then takes most of a second.
    """
    with _blas().limit(limits=1):
        yield


@cache
def _blas() -> Any:
    """Return the libraries for linear algebra that are loaded; finding them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def n_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def by_blocks(work: Callable[[Array], Array], x: Array) -> Array:
    """Apply ``work`` to blocks of rows, on all cores, and join what it returns for each row.

    Array arithmetic lets other threads run; blocks do not depend on the number of cores.
    """
    if len(x) <= _BLOCK_ROWS:
        return work(x)
    from concurrent.futures import ThreadPoolExecutor

    blocks = [x[i : i + _BLOCK_ROWS] for i in range(0, len(x), _BLOCK_ROWS)]
    with single_threaded(), ThreadPoolExecutor(n_cores()) as pool:
        return np.concatenate(list(pool.map(work, blocks)))
