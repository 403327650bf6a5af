"""Bubbles: programs that press on one resource as hard as they are told, and count what they did.

python -m foretell.corun.bubbles KIND LEVEL SECONDS [PROCESSES]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

#: Pressure levels; at level 4 a bubble never rests.
LEVELS = (0, 1, 2, 3, 4)
_PERIOD_S = 0.02
_STREAM_BYTES = 2**27  # far more than the caches of a core
_BLOCK = b"\0" * 2**20


def _cpu() -> Callable[[], float]:
    def work() -> float:
        total = 0
        for k in range(4_000):
            total += k * k
        return 1.0

    return work


def _memory() -> Callable[[], float]:
    import numpy as np

    n = _STREAM_BYTES // 16
    source, target = np.ones(n), np.zeros(n)
    step = n // 16
    place = 0

    def work() -> float:
        nonlocal place
        np.copyto(target[place : place + step], source[place : place + step])
        place = (place + step) % n
        return 16.0 * step  # bytes read and written

    return work


def _disk() -> Callable[[], float]:
    file = tempfile.NamedTemporaryFile(dir=Path.cwd(), buffering=0)  # noqa: SIM115 - to the end
    descriptor = file.fileno()

    def work() -> float:
        os.pwrite(descriptor, _BLOCK, 0)
        os.fsync(descriptor)
        file.tell()  # keeps the file open
        return float(len(_BLOCK))

    return work


KINDS: dict[str, Callable[[], Callable[[], float]]] = {
    "cpu": _cpu,
    "memory": _memory,
    "disk": _disk,
}


def press(kind: str, level: int, seconds: float) -> float:
    """Press for some time; return how much was done per second."""
    work = KINDS[kind]()
    work()
    share = level / LEVELS[-1]
    began = time.perf_counter()
    done = 0.0
    while (now := time.perf_counter() - began) < seconds:
        if share == 0 or (now % _PERIOD_S) / _PERIOD_S >= share:
            time.sleep(_PERIOD_S - now % _PERIOD_S)
            continue
        done += work()
    return done / (time.perf_counter() - began)


def main() -> None:
    """Press as the arguments say, in one process or in several, and print the sum of rates."""
    kind, level, seconds, *more = sys.argv[1:]
    n_processes = int(more[0]) if more else 1
    reader, writer = os.pipe()
    children = []
    for _ in range(n_processes - 1):
        child = os.fork()
        if child == 0:
            os.write(writer, f"{press(kind, int(level), float(seconds))}\n".encode())
            os._exit(0)
        children.append(child)
    rate = press(kind, int(level), float(seconds))
    for child in children:
        os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as file:
        rate += sum(map(float, file))
    sys.stdout.write(f"rate {rate!r}\n")


if __name__ == "__main__":
    main()
