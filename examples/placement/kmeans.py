"""A task: k-means on random points of 32 dimensions, as often as it is told."""

import numpy as np
from threadpoolctl import threadpool_limits

N_CENTERS = 16


def cluster(points: int, iterations: int, **node: object) -> None:
    """Move the centers to the mean of the points nearest to them, so many times."""
    random = np.random.default_rng(0)
    data = random.random((points, 32))
    centers = data[:N_CENTERS].copy()
    with threadpool_limits(1):  # one thread, whatever the machine has
        for _ in range(iterations):
            distances = (centers**2).sum(axis=1) - 2 * data @ centers.T
            nearest = distances.argmin(axis=1)
            for i in range(N_CENTERS):
                centers[i] = data[nearest == i].mean(axis=0)
