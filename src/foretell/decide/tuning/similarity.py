"""Similarity of trainings, as PipeTune has it: profiles in two clusters, and which are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_N_CLUSTERS = 2
#: Fewer profiles make no clusters.
LEAST_PROFILES = 4
#: A profile is known up to this quantile of the squared distances in its cluster.
_KNOWN_QUANTILE = 0.95
#: Of two counters that move together more than this, one is left out.
_MOST_CORRELATION = 0.95
#: Clusters are made again after so many new profiles, or if most of the recent ones are unknown.
_NEW_PROFILES, _RECENT, _MOST_UNKNOWN = 10, 20, 0.5


@dataclass(frozen=True)
class Clusters:
    """Profiles in clusters: counters as logarithms, scaled, without those that repeat others."""

    names: tuple[str, ...]
    mean: Array
    scale: Array
    centers: Array
    limits: Array

    def nearest(self, profile: Mapping[str, float]) -> int:
        """Return the cluster whose center is nearest."""
        return int(np.argmin(self._squared(profile)))

    def known(self, profile: Mapping[str, float]) -> int | None:
        """Return the cluster to which a profile belongs; None if it is like none of them."""
        squared = self._squared(profile)
        nearest = int(np.argmin(squared))
        return nearest if squared[nearest] <= self.limits[nearest] else None

    def _squared(self, profile: Mapping[str, float]) -> Array:
        row = np.log1p([max(0.0, float(profile.get(name, 0.0))) for name in self.names])
        found: Array = (((row - self.mean) / self.scale - self.centers) ** 2).sum(axis=1)
        return found


def make_clusters(profiles: Sequence[Mapping[str, float]]) -> Clusters | None:
    """Put profiles into two clusters; None while there are too few.

    >>> small = [{"faults": 10.0 + i} for i in range(3)]
    >>> large = [{"faults": 9000.0 + i} for i in range(3)]
    >>> found = make_clusters(small + large)
    >>> found.known({"faults": 11.0}) == found.nearest({"faults": 12.0})
    True
    >>> found.known({"faults": 300.0}) is None
    True
    """
    if len(profiles) < LEAST_PROFILES:
        return None
    names = sorted(set.intersection(*(set(p) for p in profiles)))
    logs = np.log1p([[max(0.0, float(p[name])) for name in names] for p in profiles])
    kept = _kept(logs)
    if not kept:
        return None
    logs = logs[:, kept]
    mean, scale = logs.mean(axis=0), logs.std(axis=0)
    scaled = (logs - mean) / scale
    from sklearn.cluster import KMeans  # loaded as late as can be: a training waits for it

    fitted = KMeans(n_clusters=_N_CLUSTERS, n_init=10, random_state=0).fit(scaled)
    centers = np.asarray(fitted.cluster_centers_, dtype=float)
    squared = ((scaled - centers[fitted.labels_]) ** 2).sum(axis=1)
    limits = [
        float(np.quantile(squared[fitted.labels_ == k], _KNOWN_QUANTILE))
        for k in range(_N_CLUSTERS)
    ]
    return Clusters(tuple(names[i] for i in kept), mean, scale, centers, np.array(limits))


def _kept(logs: Array) -> list[int]:
    """Return the columns that vary, the first of each group that moves together."""
    kept: list[int] = []
    for i in range(logs.shape[1]):
        if logs[:, i].std() < 1e-9:
            continue
        with_others = [abs(float(np.corrcoef(logs[:, i], logs[:, j])[0, 1])) for j in kept]
        if max(with_others, default=0.0) <= _MOST_CORRELATION:
            kept.append(i)
    return kept


def n_clustered(was_known: Sequence[bool]) -> int:
    """Return how many of the profiles, in order, the clusters in use were made from.

    Parameters
    ----------
    was_known
        Whether each profile was known when it came.

    >>> n_clustered([False] * 4), n_clustered([False] * 4 + [True] * 9)
    (4, 4)
    >>> n_clustered([False] * 4 + [True] * 10)
    14
    """
    if len(was_known) < LEAST_PROFILES:
        return 0
    made = LEAST_PROFILES
    for n in range(LEAST_PROFILES + 1, len(was_known) + 1):
        recent = was_known[max(made, n - _RECENT) : n]
        unknown = sum(not known for known in recent) / _RECENT
        if n - made >= _NEW_PROFILES or unknown > _MOST_UNKNOWN:
            made = n
    return made
