"""A task: k-means on random points of 32 dimensions.

python kmeans.py POINTS ITERATIONS
"""

import sys

import numpy as np

N_CENTERS = 16


def cluster(n_points: int, n_iterations: int) -> None:
    """Move each center to the mean of the points nearest to it, so many times."""
    random = np.random.default_rng(0)
    points = random.random((n_points, 32))
    centers = points[:N_CENTERS].copy()
    for _ in range(n_iterations):
        distances = (centers**2).sum(axis=1) - 2 * points @ centers.T
        nearest = distances.argmin(axis=1)
        for i in range(N_CENTERS):
            centers[i] = points[nearest == i].mean(axis=0)


if __name__ == "__main__":
    cluster(int(sys.argv[1]), int(sys.argv[2]))
