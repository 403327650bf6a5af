"""Trees whose splits are drawn at random, as scikit-learn's ExtraTreesRegressor grows them.

Many trees on few rows are grown here, all of them together, level by level: each step is one
operation on arrays, and neither settings nor Python's loops cost time for every tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array
from foretell.model.techniques.trees._flat import TreeRegressor

#: Trees that are grown together, from random numbers of their own. The same group is always grown
#: as a whole, so that fewer trees are the first of many.
_GROUP = 25
#: Numbers looked at together: enough for numpy, few enough for the cache.
_MOST_CELLS = 1 << 17
#: Targets that differ by less, in units of their deviation, are the same.
_SAME = 1e-8
_LEAF = -1

Places = NDArray[np.int64]


class _Level(NamedTuple):
    """The nodes of one depth, of all trees of a group; the right child follows the left one."""

    tree: Places
    feature: Places
    threshold: Array
    left: Places
    value: Array
    gain: Array


class _Splits(NamedTuple):
    """How some nodes are split: -1 as the feature of a leaf, and which of their rows go left."""

    feature: Places
    threshold: Array
    value: Array
    gain: Array
    goes_left: NDArray[np.bool_]


def grow_random_trees(
    x: NDArray[np.float32], y: Array, weight: Array, n_trees: int, seed: int
) -> TreeRegressor:
    """Grow trees until each leaf is pure; the best of one random split of each feature is taken.

    ``y``: in units of its deviation.
    """
    counts = weight > 0  # a row without weight teaches nothing
    rows = _Rows(x[counts], y[counts], weight[counts])
    groups = [
        _joined(list(rows.levels(np.random.default_rng([seed, group]))))
        for group in range(-(-n_trees // _GROUP))
    ]
    return _flattened(groups, n_trees, x.shape[1])


@dataclass(frozen=True, eq=False)
class _Rows:
    x: NDArray[np.float32]
    y: Array
    weight: Array

    def levels(self, random: np.random.Generator) -> Iterator[_Level]:
        """Split the nodes of a group of trees, from the roots on, until all are leaves."""
        tree = np.arange(_GROUP)
        members, sizes = np.tile(np.arange(len(self.y)), _GROUP), np.full(_GROUP, len(self.y))
        n_nodes = _GROUP
        while len(sizes):
            drawn = random.random((len(sizes), self.x.shape[1]), dtype=np.float32)
            found = self._split_all(members, sizes, drawn)
            is_split = found.feature != _LEAF
            n_split = int(is_split.sum())
            left = np.full(len(sizes), _LEAF)
            left[is_split] = n_nodes + 2 * np.arange(n_split)
            yield _Level(tree, found.feature, found.threshold, left, found.value, found.gain)
            moves = np.repeat(is_split, sizes)
            child = 2 * np.repeat(np.arange(n_split), sizes[is_split]) + ~found.goes_left[moves]
            members = members[moves][np.argsort(child, kind="stable")]
            sizes = np.bincount(child, minlength=2 * n_split)
            tree = np.repeat(tree[is_split], 2)
            n_nodes += 2 * n_split

    def _split_all(self, members: Places, sizes: Places, drawn: NDArray[np.float32]) -> _Splits:
        """Split the nodes of a level, some at a time."""
        ends = np.cumsum(sizes)
        block = (ends - sizes) * self.x.shape[1] // _MOST_CELLS
        cuts = np.flatnonzero(np.diff(block, prepend=-1, append=block[-1] + 1))
        parts = [
            self._split(members[ends[a] - sizes[a] : ends[b - 1]], sizes[a:b], drawn[a:b])
            for a, b in pairwise(cuts.tolist())
        ]
        return _Splits(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _split(self, members: Places, sizes: Places, drawn: NDArray[np.float32]) -> _Splits:
        """Split nodes, given the rows of each in turn, and where between its ends to cut."""
        first = np.cumsum(sizes) - sizes
        node = np.repeat(np.arange(len(sizes)), sizes)
        x, y, weight = self.x[members], self.y[members], self.weight[members]
        low, high = (end.reduceat(x, first, axis=0) for end in (np.minimum, np.maximum))
        threshold = low + drawn * (high - low)
        threshold = np.where(threshold < high, threshold, low)  # rounded up to the end
        is_left = x <= threshold[node]
        total, moment = np.add.reduceat(weight, first), np.add.reduceat(weight * y, first)
        total_left, moment_left = (
            np.add.reduceat(is_left * part[:, None], first, axis=0) for part in (weight, weight * y)
        )
        total_right = total[:, None] - total_left
        is_possible = (high > low) & (total_left > 0) & (total_right > 0)
        # The decrease of the squared error, but for a part that is the same for every feature.
        with np.errstate(divide="ignore", invalid="ignore"):
            explained = moment_left**2 / total_left
            explained += (moment[:, None] - moment_left) ** 2 / total_right
        explained = np.where(is_possible, explained, -np.inf)
        best = explained.argmax(axis=1)
        at_best = np.arange(len(sizes)), best
        is_mixed = np.maximum.reduceat(y, first) - np.minimum.reduceat(y, first) > _SAME
        is_split = is_mixed & is_possible.any(axis=1)
        gain = np.maximum(explained[at_best] - moment**2 / total, 0.0)
        return _Splits(
            np.where(is_split, best, _LEAF),
            threshold[at_best].astype(np.float64),
            moment / total,
            np.where(is_split, gain, 0.0),
            is_left[np.arange(len(members)), best[node]],
        )


def _joined(levels: list[_Level]) -> _Level:
    return _Level(*(np.concatenate(parts) for parts in zip(*levels, strict=True)))


def _flattened(groups: list[_Level], n_trees: int, n_features: int) -> TreeRegressor:
    """Lay the nodes of each tree side by side, and keep the first trees."""
    sizes = [len(group.tree) for group in groups]
    start = np.repeat(np.cumsum(sizes) - sizes, sizes)
    nodes = _joined(groups)
    tree = nodes.tree + np.repeat(_GROUP * np.arange(len(groups)), sizes)
    left = np.where(nodes.left == _LEAF, _LEAF, nodes.left + start)
    order = np.argsort(tree, kind="stable")[: np.count_nonzero(tree < n_trees)]
    place = np.zeros(len(tree), dtype=np.int64)
    place[order] = np.arange(len(order))
    is_leaf = left[order] == _LEAF
    first_child = np.where(is_leaf, 0, left[order])
    return TreeRegressor(
        feature=np.where(is_leaf, 0, nodes.feature[order]).astype(np.int32),
        threshold=np.where(is_leaf, 0.0, nodes.threshold[order]),
        left=np.where(is_leaf, _LEAF, place[first_child]).astype(np.int32),
        right=np.where(is_leaf, _LEAF, place[first_child + ~is_leaf]).astype(np.int32),
        value=nodes.value[order],
        starts=np.append(0, np.cumsum(np.bincount(tree[order], minlength=n_trees))),
        n_features=n_features,
        is_mean=True,
        shares=_shares(tree[order], nodes.feature[order], nodes.gain[order], n_trees, n_features),
    )


def _shares(
    tree: Places, feature: Places, gain: Array, n_trees: int, n_features: int
) -> Array | None:
    """Return the share of each feature in what splits explain, the mean over trees; or None."""
    is_split = feature != _LEAF
    cell = tree[is_split] * n_features + feature[is_split]
    of_trees = np.bincount(cell, gain[is_split], n_trees * n_features).reshape(n_trees, n_features)
    total = of_trees.sum(axis=1, keepdims=True)
    shares: Array = (of_trees / np.where(total > 0, total, 1.0)).sum(axis=0)
    return shares / shares.sum() if shares.sum() > 0 else None
