"""One thread per process: processes use the cores, and sums come out the same everywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
