"""Decision trees and sums of them as flat arrays: one rule of descent for every library."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array, Regressor, State
from foretell.model.techniques._state import read_array, read_flag, read_number, read_whole
from foretell.model.techniques.points.grid_rows import combined

# Pairs of row and tree that descend together: enough for numpy, few enough for the cache.
_PAIRS = 1 << 16

# Fewer rows are hardly ever alike; and where more than this share differ, nothing is saved.
_MANY_ROWS, _MOST_KINDS = 1 << 10, 0.8

# The place of a node's children is twice its index, which must fit 32 bits.
_MOST_NODES = 1 << 30

# Of the unit of a target: even smaller ones would leave no room to divide further.
_LEAST_EXPONENT = -1000


class Tree(NamedTuple):
    """One tree; children are indices in its own arrays, -1 at leaves."""

    feature: NDArray[Any]
    threshold: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    value: NDArray[Any]


_WHOLE = ("feature", "left", "right")  # what holds whole numbers


@dataclass(frozen=True, eq=False)
class TreeRegressor(Regressor):
    """The mean or the sum of trees, plus a base value.

    A row, in single precision, goes left where its feature is at most the threshold.

    Attributes
    ----------
    feature, threshold, left, right, value
        One entry per node of all trees, parents before children; ``left`` and ``right`` are -1
        at leaves, and only leaves use ``value``.
    starts
        The first node of each tree, and at the end the number of nodes.
    shares
        Importance of each feature; None when no tree splits, or when trees were taken away.
    """

    feature: NDArray[np.int32]
    threshold: Array
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array
    starts: NDArray[np.int64]
    n_features: int
    is_mean: bool
    base: float = 0.0
    shares: Array | None = None

    def __post_init__(self) -> None:
        _check_trees(self)

    @property
    def n_trees(self) -> int:
        """How many trees there are."""
        return len(self.starts) - 1

    @cached_property
    def _children(self) -> NDArray[np.int32]:
        """Right and left child of each node in turn, so that one look-up serves both."""
        return np.column_stack([self.right, self.left]).ravel()

    @cached_property
    def _bounds(self) -> NDArray[np.float32]:
        """Thresholds rounded down to single precision, which decides no row otherwise."""
        with np.errstate(over="ignore"):
            single = self.threshold.astype(np.float32)
        lower = np.nextafter(single, np.float32(-np.inf))
        return np.where(single > self.threshold, lower, single)

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        if x.shape[1] != self.n_features:
            raise ValueError(f"expected {self.n_features} features, not {x.shape[1]}")
        rows = single_precision(x)
        kinds = self._kinds(rows)
        first, of_row = kinds or (None, None)
        predicted = np.empty(len(rows) if first is None else len(first))
        step = max(1, _PAIRS // self.n_trees)
        for start in range(0, len(predicted), step):
            some = slice(start, start + step)
            leaves = self._descend(rows[some] if first is None else rows[first[some]])
            predicted[some] = self.value.take(leaves).sum(axis=0)
        if self.is_mean:
            predicted /= self.n_trees
        predicted += self.base
        return predicted if of_row is None else predicted[of_row]

    @cached_property
    def _cuts(self) -> list[NDArray[np.float32]]:
        """The thresholds of each feature; between two of them no tree tells rows apart."""
        is_split = self.left >= 0
        feature, bounds = self.feature[is_split], self._bounds[is_split]
        return [np.unique(bounds[feature == j]) for j in range(self.n_features)]

    def _kinds(
        self, rows: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Group many rows that end in the same leaves: a grid has few kinds of them.

        Return the first row of each kind, and the kind of each row.
        """
        if len(rows) < _MANY_ROWS:
            return None
        kind = combined([np.searchsorted(cuts, rows[:, j]) for j, cuts in enumerate(self._cuts)])
        _, first, of_row = np.unique(kind, return_index=True, return_inverse=True)
        return (first, of_row) if len(first) < _MOST_KINDS * len(rows) else None

    def _descend(self, rows: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the leaf of each tree (first axis) that each row ends in."""
        values = rows.ravel()
        first = np.arange(len(rows), dtype=np.intp) * self.n_features
        first = np.tile(first, self.n_trees)
        node = np.repeat(self.starts[:-1].astype(np.int32), len(rows))
        active = np.flatnonzero(self.left.take(node) >= 0)
        while active.size:
            here = node[active]
            is_left = values.take(first[active] + self.feature.take(here)) <= self._bounds.take(
                here
            )
            here = self._children.take(2 * here + is_left)
            node[active] = here
            active = active[self.left.take(here) >= 0]
        return node.reshape(self.n_trees, len(rows))

    def at(self, value: Any) -> TreeRegressor:
        """Return the model with the first trees alone."""
        n_trees = prefix(value, self.n_trees)
        if n_trees == self.n_trees:
            return self
        n_nodes = int(self.starts[n_trees])
        nodes = {name: getattr(self, name)[:n_nodes] for name in Tree._fields}
        return replace(self, **nodes, starts=self.starts[: n_trees + 1], shares=None)

    def importances(self) -> Array | None:
        """Return the share of each feature, where it is known."""
        return self.shares

    def to_state(self) -> State:
        """Return the arrays as they are."""
        values = {
            "n_features": self.n_features,
            "is_mean": self.is_mean,
            "base": self.base,
            "has_shares": self.shares is not None,
        }
        arrays: dict[str, NDArray[Any]] = {
            name: getattr(self, name) for name in (*Tree._fields, "starts")
        }
        if self.shares is not None:
            arrays["shares"] = self.shares
        return State(values, arrays)

    @classmethod
    def from_state(cls, state: State, n_features: int) -> TreeRegressor:
        """Rebuild from a file, or raise ValueError."""
        if read_whole(state, "n_features", least=1) != n_features:
            raise ValueError(f"the trees must be of {n_features} features")
        size = read_array(state, "feature", shape=(None,), dtype=np.int32).shape
        whole = {name: read_array(state, name, shape=size, dtype=np.int32) for name in _WHOLE}
        has_shares = read_flag(state, "has_shares")
        return cls(
            **whole,
            threshold=read_array(state, "threshold", shape=size),
            value=read_array(state, "value", shape=size),
            starts=read_array(state, "starts", shape=(None,), dtype=np.int64),
            n_features=n_features,
            is_mean=read_flag(state, "is_mean"),
            base=read_number(state, "base"),
            shares=read_array(state, "shares", shape=(n_features,)) if has_shares else None,
        )


class LibraryTrees(Regressor):
    """Trees as a library grew them: they predict faster than ours, but cannot be saved."""

    @cached_property
    @abstractmethod
    def portable(self) -> TreeRegressor:
        """The same trees as ours."""

    def importances(self) -> Array | None:
        """Return the share of each feature."""
        return self.portable.shares

    def to_state(self) -> State:
        """Return the trees as arrays."""
        return self.portable.to_state()

    @classmethod
    def from_state(cls, state: State, n_features: int) -> TreeRegressor:
        """Rebuild in the portable form."""
        return TreeRegressor.from_state(state, n_features)


@dataclass(frozen=True, eq=False)
class BoostedSum(LibraryTrees):
    """The sum of the first trees that were boosted on some columns of a target in a unit."""

    n_trees: int
    columns: NDArray[np.intp]
    n_features: int
    base: float
    unit: float

    @abstractmethod
    def trees(self) -> list[Tree]:
        """Return the trees as ours."""

    @abstractmethod
    def sums(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add up what the trees predict for rows of the columns."""

    @cached_property
    def portable(self) -> TreeRegressor:
        """The same trees as ours, and how many of all splits each feature has, as a share."""
        trees = join_trees(self.trees(), n_features=self.n_features, is_mean=False, base=self.base)
        splits = trees.feature[trees.left >= 0]
        if not len(splits):
            return trees
        return replace(trees, shares=np.bincount(splits, minlength=self.n_features) / len(splits))

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        if not len(x):
            return np.zeros(0)
        sums = self.sums(single_precision(x[:, self.columns]))
        return sums.astype(np.float64) * self.unit + self.base

    def at(self, value: Any) -> BoostedSum:
        """Return the model with the first trees alone."""
        return replace(self, n_trees=prefix(value, self.n_trees))


def join_trees(trees: Sequence[Tree], **settings: Any) -> TreeRegressor:
    """Lay trees end to end; the settings are the other fields of the regressor."""
    starts = np.cumsum([0, *(len(tree.feature) for tree in trees)])
    moved = [
        [np.where(children < 0, -1, children + start) for children in (tree.left, tree.right)]
        for tree, start in zip(trees, starts, strict=False)
    ]
    return TreeRegressor(
        feature=np.concatenate([np.where(t.left < 0, 0, t.feature) for t in trees]).astype("i4"),
        threshold=np.concatenate([np.where(t.left < 0, 0, t.threshold) for t in trees]),
        left=np.concatenate([left for left, _ in moved]).astype(np.int32),
        right=np.concatenate([right for _, right in moved]).astype(np.int32),
        value=np.concatenate([t.value for t in trees]),
        starts=starts.astype(np.int64),
        **settings,
    )


def single_precision(x: Array) -> NDArray[np.float32]:
    """Return the features as trees see them; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(x, dtype=np.float32)


def training_features(x: Array) -> NDArray[np.float32]:
    """Return the features to grow trees on, or raise ValueError where they do not fit."""
    single = single_precision(x)
    if not np.isfinite(single).all():
        raise ValueError("trees work in single precision, and a feature is above 3.4e38 in size")
    return single


def deviation_unit(y: Array, weight: Array) -> float:
    """Return the power of two next below the standard deviation of the target, 1 if that is 0.

    Libraries that grow trees compare errors with fixed numbers, too large for targets in small
    units. In units of a power of two, targets keep all their digits.

    >>> deviation_unit(np.array([1e-6, 3e-6]), np.ones(2)) == 2.0**-20
    True
    """
    distance = np.abs(y - np.average(y, weights=weight))
    largest = float(distance.max())
    if largest == 0 or not math.isfinite(largest):
        return 1.0
    # Relative to the largest, because squares of the very small and the very large do not fit.
    deviation = largest * math.sqrt(np.average((distance / largest) ** 2, weights=weight))
    return math.ldexp(1.0, max(math.frexp(deviation)[1] - 1, _LEAST_EXPONENT))


def prefix(value: Any, n_trees: int) -> int:
    """Read a number of trees up to the number fitted."""
    if value != int(value) or not 1 <= value <= n_trees:
        raise ValueError(f"n_estimators must be between 1 and the {n_trees} fitted, not {value!r}")
    return int(value)


def _check_trees(trees: TreeRegressor) -> None:
    """Raise ValueError unless each node but the roots is the child of one earlier in its tree."""
    starts, n_nodes = trees.starts, len(trees.feature)
    if n_nodes > _MOST_NODES:
        raise ValueError(f"there are {n_nodes} nodes, more than {_MOST_NODES}")
    is_sound = len(starts) >= 2 and starts[0] == 0 and starts[-1] == n_nodes
    if not (is_sound and (np.diff(starts) > 0).all()):
        raise ValueError("'starts' must increase from 0 to the number of nodes")
    index = np.arange(n_nodes)
    end = np.repeat(trees.starts[1:], np.diff(trees.starts))
    splits = (trees.left != -1) | (trees.right != -1)
    for child in (trees.left[splits], trees.right[splits]):
        if not ((child > index[splits]) & (child < end[splits])).all():
            raise ValueError("children must come after their parent, in the same tree")
    is_child = np.ones(len(index), dtype=bool)
    is_child[trees.starts[:-1]] = False
    children = np.concatenate([trees.left[splits], trees.right[splits]])
    if not np.array_equal(np.sort(children), index[is_child]):
        raise ValueError("each node but the roots must be the child of exactly one node")
    if not ((trees.feature >= 0) & (trees.feature < trees.n_features)).all():
        raise ValueError(f"features must be between 0 and {trees.n_features - 1}")
    if trees.shares is not None and not (
        (trees.shares >= 0).all() and np.isclose(trees.shares.sum(), 1)
    ):
        raise ValueError("'shares' must be positive and sum to 1")
