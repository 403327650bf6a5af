"""Cholesky factorization of a matrix by blocks: four kinds of tasks, and their dependencies."""

import numpy as np
import unlocked

from foretell.tasks import Graph, task


def edge(n_products):
    """Return the edge of square blocks for which a task would multiply as often.

    Those at the end of a matrix may be smaller than the others.
    """
    return round(n_products ** (1 / 3))


@task(writes="a", size="len(a)")
def potrf(a):
    unlocked.take_root(a)


@task(reads="diagonal a", writes="a", size="edge(a.size * a.shape[1])")
def trsm(diagonal, a):
    unlocked.divide(a, diagonal)


@task(reads="a c", writes="c", size="edge(c.size * a.shape[1])")
def syrk(a, c):
    unlocked.subtract_square(a, c)


@task(reads="a b c", writes="c", size="edge(c.size * a.shape[1])")
def gemm(a, b, c):
    unlocked.subtract_product(a, b, c)


def factorize(a, workers=None):
    """Replace the blocks of the lower half by those of the factor."""
    n_blocks = 1 + max(i for i, _ in a)
    with Graph(workers=workers, policy="critical") as graph:
        for k in range(n_blocks):
            potrf(a[k, k])
            for i in range(k + 1, n_blocks):
                trsm(a[k, k], a[i, k])
            for i in range(k + 1, n_blocks):
                syrk(a[i, k], a[i, i])
                for j in range(k + 1, i):
                    gemm(a[i, k], a[j, k], a[i, j])
    return graph


def blocks_of(matrix, block):
    """Cut a matrix into blocks, each with its columns one after the other, as LAPACK wants them.

    The last ones are smaller where the length is no multiple of the block.
    """
    parts = [slice(k, min(k + block, len(matrix))) for k in range(0, len(matrix), block)]
    return {(i, j): np.asfortranarray(matrix[parts[i], parts[j]])
            for i in range(len(parts)) for j in range(i + 1)}  # fmt: skip


def main(n: int = 1024, block: int = 128):
    random = np.random.default_rng(0)
    matrix = random.standard_normal((n, n))
    matrix += matrix.T
    matrix[np.diag_indices(n)] += 4 * n**0.5
    factorize(blocks_of(matrix, block))
