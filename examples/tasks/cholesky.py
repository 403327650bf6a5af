"""Cholesky factorization of a matrix by blocks: four kinds of tasks, and their dependencies."""

import numpy as np
import unlocked

from foretell.tasks import Graph, task


@task(writes="a", size="a.shape[0]")
def potrf(a):
    unlocked.take_root(a)


@task(reads="diagonal a", writes="a", size="a.shape[0]")
def trsm(diagonal, a):
    unlocked.divide(a, diagonal)


@task(reads="a c", writes="c", size="a.shape[0]")
def syrk(a, c):
    unlocked.subtract_square(a, c)


@task(reads="a b c", writes="c", size="a.shape[0]")
def gemm(a, b, c):
    unlocked.subtract_product(a, b, c)


def factorize(a, n_blocks, workers=None):
    """Replace the blocks of the lower half by those of the factor."""
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
    """Cut a matrix into blocks, each with its columns one after the other, as LAPACK wants them."""
    n = len(matrix) // block
    cut = {(i, j): np.s_[i * block : (i + 1) * block, j * block : (j + 1) * block]
           for i in range(n) for j in range(i + 1)}  # fmt: skip
    return {place: np.asfortranarray(matrix[part]) for place, part in cut.items()}


def main(n: int = 1024, block: int = 128):
    random = np.random.default_rng(0)
    matrix = random.standard_normal((n, n))
    matrix += matrix.T
    matrix[np.diag_indices(n)] += 4 * n**0.5
    factorize(blocks_of(matrix, block), n // block)
