"""Kernels of the study on secure tasks: they take values and return new ones, and write nothing.

They are numpy's, which computes without Python's lock; BLAS and LAPACK in scipy keep it.
"""

import time

import numpy as np

from foretell.tasks import task


@task(size="n")
def pause(n):
    """Keep a worker for a while, so that another one starts as well."""
    time.sleep(n)


@task(size="n")
def nothing(value, n):
    return None


@task(size="n")
def potrf(a, n):
    return np.linalg.cholesky(a)


@task(size="n")
def trsm(diagonal, a, n):
    return np.linalg.solve(diagonal, a.T).T


@task(size="n")
def syrk(a, c, n):
    return c - a @ a.T


@task(size="n")
def gemm(a, b, c, n):
    return c - a @ b.T


@task(size="n")
def product(a, b, c, n):
    return c + a @ b


@task(size="n")
def dot(x, y, n):
    return float(x @ y)


@task(size="n")
def total(parts, n):
    return float(sum(parts))


@task(size="n")
def scale(x, n):
    return 3.0 * x


@task(size="n")
def add(x, y, n):
    return x + y


@task(size="n")
def triad(x, y, n):
    return x + 3.0 * y


def convolved(images, weights, bias):
    """Convolve images with kernels, and keep what is positive."""
    windows = np.lib.stride_tricks.sliding_window_view(images, weights.shape[2:], axis=(2, 3))
    n, _, height, width, _, _ = windows.shape
    rows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * height * width, -1)
    found = rows @ weights.reshape(len(weights), -1).T + bias
    return np.maximum(found, 0).reshape(n, height, width, -1).transpose(0, 3, 1, 2)


def pooled(images):
    """Keep the largest of each two by two."""
    n, channels, height, width = images.shape
    return images.reshape(n, channels, height // 2, 2, width // 2, 2).max(axis=(3, 5))


@task(size="n")
def lenet(images, weights, n):
    """Classify images of 28 × 28 with LeNet-5."""
    found = pooled(convolved(np.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2))), *weights[0]))
    found = pooled(convolved(found, *weights[1])).reshape(len(images), -1)
    for matrix, bias in weights[2:4]:
        found = np.maximum(found @ matrix + bias, 0)
    matrix, bias = weights[4]
    return (found @ matrix + bias).argmax(axis=1)
