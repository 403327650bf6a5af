"""Twelve small programs of different kinds, of about four seconds each on one fast core.

    python programs.py NAME

What a program needs beforehand (files to pack, a table to join) is made in a folder of its own,
and counts as a part of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def gemm(threads, rounds):
    """Multiply matrices: arithmetic."""
    os.environ.update(dict.fromkeys(THREADS, str(threads)))
    import numpy as np

    a = b = np.random.default_rng(0).random((1200, 1200))
    for _ in range(rounds):
        a = a @ b / 600.0


def triad(rounds=390):
    """Add long arrays: memory bandwidth."""
    import numpy as np

    b, c = np.ones(2**23), np.ones(2**23)
    a = np.empty(2**23)
    for _ in range(rounds):
        np.multiply(c, 3.0, out=a)
        np.add(a, b, out=a)


def gather(rounds=215):
    """Read a long array at random places: memory latency."""
    import numpy as np

    random = np.random.default_rng(0)
    values, places = random.random(2**24), random.integers(0, 2**24, 2**21)
    out = np.empty(len(places))
    for _ in range(rounds):
        np.take(values, places, out=out)


def sort(rounds=380):
    """Sort numbers."""
    import numpy as np

    values = np.random.default_rng(0).random(1_500_000)
    for _ in range(rounds):
        np.sort(values)


def compress(rounds=40):
    """Compress text."""
    text = b"".join(b"%d %d\n" % (k, k * k % 977) for k in range(200_000))
    for _ in range(rounds):
        zlib.compress(text, 6)


def join(rounds=70):
    """Join two tables of a database."""
    import sqlite3

    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        base = sqlite3.connect(Path(folder, "base.sqlite"))
        base.execute("create table a (k integer, v real)")
        base.execute("create table b (k integer, w real)")
        base.executemany("insert into a values (?, ?)", ((k % 5000, k) for k in range(150_000)))
        base.executemany("insert into b values (?, ?)", ((k, k) for k in range(5000)))
        base.commit()
        for _ in range(rounds):
            base.execute(
                "select a.k, sum(v * w) from a join b on a.k = b.k group by a.k"
            ).fetchall()
        base.close()


def write(rounds=14000):
    """Write pieces of 256 KiB, each of which must reach the disk before the next."""
    piece = os.urandom(2**18)
    with tempfile.TemporaryFile(dir=Path.cwd()) as file:
        for _ in range(rounds):
            os.pwrite(file.fileno(), piece, 0)
            os.fsync(file.fileno())


def loop(rounds=190_000_000):
    """Count in Python: one thread, in the caches of a core."""
    total = 0
    for k in range(rounds):
        total += k


def train(steps=150):
    """Train a small network, with one thread."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(256, 784), torch.randint(0, 10, (256,))
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()


def tar(rounds=60):
    """Pack many small files, by a program of the system."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        Path(folder, "in").mkdir()
        for k in range(1500):
            Path(folder, "in", f"{k}").write_bytes(os.urandom(2**14))
        for _ in range(rounds):
            subprocess.run(["tar", "cf", f"{folder}/out.tar", "-C", folder, "in"], check=True)


def two_phases():
    """Wait for input, then compute on two processes."""
    time.sleep(1.5)
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            loop(120_000_000)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


PROGRAMS = {
    "gemm-1": lambda: gemm(1, 72),
    "gemm-2": lambda: gemm(2, 135),
    "triad": triad,
    "gather": gather,
    "sort": sort,
    "compress": compress,
    "join": join,
    "write": write,
    "loop": loop,
    "train": train,
    "tar": tar,
    "two-phases": two_phases,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
