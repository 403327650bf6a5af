"""Programs of tasks for benchmarks: each works on blocks of its data, and returns its graph."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np

from foretell.tasks import Graph, task

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "tasks"))

import cholesky as by_blocks
import unlocked


@task(reads="a b c", writes="c", size="by_blocks.edge(c.size * a.shape[1])")
def multiply(a, b, c):
    unlocked.subtract_product(a, b, c)


@task(reads="x", writes="y", size="x.size")
def scale(x, y):
    np.multiply(x, 3.0, out=y)


@task(reads="x y", writes="z", size="x.size")
def add(x, y, z):
    np.add(x, y, out=z)


@task(reads="x y z", writes="z", size="x.size")
def triad(x, y, z):
    np.multiply(y, 3.0, out=z)
    np.add(x, z, out=z)


@task(reads="above own below", writes="new", size="len(own)")
def average(above, own, below, new):
    """Replace each point by the mean of its four neighbors."""
    np.add(own[:, :-2], own[:, 2:], out=new[:, 1:-1])
    new[1:, 1:-1] += own[:-1, 1:-1]
    new[0, 1:-1] += above[-1, 1:-1]
    new[:-1, 1:-1] += own[1:, 1:-1]
    new[-1, 1:-1] += below[0, 1:-1]
    new[:, 1:-1] *= 0.25


@cache
def positive_definite(n):
    random = np.random.default_rng(0)
    found = random.standard_normal((n, n))
    found += found.T
    found[np.diag_indices(n)] += 4 * n**0.5
    return found


def parts_of(n, block):
    """Cut a length into blocks; the last one may be smaller."""
    return [slice(k, min(k + block, n)) for k in range(0, n, block)]


def cholesky(block, workers=None, n=2048):
    blocks = by_blocks.blocks_of(positive_definite(n), block)
    return by_blocks.factorize(blocks, workers)


def product(block, workers=None, n=1024):
    lengths = [part.stop - part.start for part in parts_of(n, block)]
    random = np.random.default_rng(0)
    a, b, c = ({(i, j): np.asfortranarray(random.random((rows, columns)))
                for i, rows in enumerate(lengths) for j, columns in enumerate(lengths)}
               for _ in range(3))  # fmt: skip
    with Graph(workers=workers) as graph:
        for i, j in np.ndindex(len(lengths), len(lengths)):
            for k in range(len(lengths)):
                multiply(a[i, k], b[j, k], c[i, j])
    return graph


def stream(block, workers=None, n=2_000_000):
    a, b, c = (np.full(n, value) for value in (1.0, 2.0, 0.0))  # written first, as STREAM does
    parts = parts_of(n, block)
    with Graph(workers=workers) as graph:
        for _ in range(3):
            for part in parts:
                scale(a[part], b[part])
            for part in parts:
                add(a[part], b[part], c[part])
            for part in parts:
                triad(b[part], c[part], a[part])
    return graph


def heat(block, workers=None, n=1024, n_steps=8):
    old, new = np.ones((n, n)), np.ones((n, n))
    parts = parts_of(n, block)
    with Graph(workers=workers) as graph:
        for _ in range(n_steps):
            for k, part in enumerate(parts):
                above, below = parts[max(k - 1, 0)], parts[min(k + 1, len(parts) - 1)]
                average(old[above], old[part], old[below], new[part])
            old, new = new, old
    return graph


#: Blocks that models learn from, and blocks that are foreseen.
PROGRAMS = {
    "matrix product": (product, (64, 128, 256), (80, 96, 160, 192)),
    "Stream": (stream, (10_000, 50_000, 250_000), (20_000, 40_000, 100_000, 125_000)),
    "Cholesky": (cholesky, (64, 128, 256, 512), (96, 160, 192, 320, 384)),
    "heat": (heat, (16, 64, 256), (24, 32, 96, 128)),
}
