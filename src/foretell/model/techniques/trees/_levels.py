"""Boosting on columns of few values, compiled: XGBoost's trees to the last bit, but sooner.

XGBoost looks through all bins of all columns in every node, and most are empty in a small one.
Where no C compiler was at hand, there is no compiled part, and XGBoost grows all trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array
from foretell.model.techniques.trees._flat import BoostedSum, Tree

#: Up to so many values of a column, XGBoost splits between any two; more are binned.
MOST_VALUES = 256

# With more rows, bins are empty only deep in a tree, and XGBoost is faster above that.
_MOST_ROWS = 1 << 14


@cache
def is_built() -> bool:
    """Whether the compiled part is there, and made for this machine."""
    try:
        from foretell.model.techniques.trees import _growing  # noqa: F401
    except ImportError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class Levels:
    """The rows by the positions of their values among those of each column, from 0 up.

    Attributes
    ----------
    places
        The position of each row's value, one line per column.
    values
        The values of all columns, each in order, one column after the other.
    first
        Where the values of each column begin.
    """

    places: NDArray[np.uint8]
    values: NDArray[np.float32]
    first: NDArray[np.intp]

    @classmethod
    def of(cls, x: NDArray[np.float32]) -> Levels | None:
        """Find the levels; None if there is nothing, or too many rows or values in a column."""
        if not x.size or len(x) > _MOST_ROWS:
            return None
        found = [np.unique(column, return_inverse=True) for column in x.T]
        counts = [len(values) for values, _ in found]
        if max(counts) > MOST_VALUES:
            return None
        return cls(
            places=np.array([places for _, places in found], dtype=np.uint8),
            values=np.concatenate([values for values, _ in found]),
            first=np.cumsum([0, *counts[:-1]]),
        )

    def bounds(self, column: NDArray[np.int32], place: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the least value that goes right where the last to go left is at some place."""
        after = np.minimum(self.first[column] + place + 1, len(self.values) - 1)
        bounds: NDArray[np.float32] = self.values[after]
        return bounds


@dataclass(frozen=True)
class Penalties:
    """What a split or a leaf costs, in the units of the target that is boosted."""

    min_child_weight: float
    gamma: float
    lambda_: float
    alpha: float
    learning_rate: float

    @property
    def numbers(self) -> NDArray[np.float32]:
        """The numbers in the order and the precision that the compiled part reads."""
        numbers = [self.min_child_weight, self.gamma, self.lambda_, self.alpha, self.learning_rate]
        return np.array(numbers, dtype=np.float32)


def boost(
    levels: Levels, y: Array, weight: Array, penalties: Penalties, *, n_trees: int, max_depth: int
) -> Boosted:
    """Grow each tree on what the earlier ones leave unexplained of ``y``."""
    from foretell.model.techniques.trees import _growing

    target, weight_32 = y.astype(np.float32), weight.astype(np.float32)
    predicted, numbers = np.zeros_like(target), penalties.numbers
    trees = []
    for _ in range(n_trees):
        gradient = (predicted - target) * weight_32
        trees.append(
            _growing.grow(levels.places, gradient, weight_32, numbers, max_depth, predicted)
        )
    joined = [b"".join(part) for part in zip(*trees, strict=True)]
    column, place, left = (np.frombuffer(part, dtype=np.int32) for part in joined[:3])
    return Boosted(
        column=column,
        bound=levels.bounds(column, place),
        left=left,
        value=np.frombuffer(joined[3], dtype=np.float32),
        starts=np.cumsum([0, *(len(tree[0]) // column.itemsize for tree in trees)], dtype=np.int64),
    )


@dataclass(frozen=True, eq=False)
class Boosted:
    """Trees as they were grown; ``left`` counts from the start of a tree, right comes after it."""

    column: NDArray[np.int32]
    bound: NDArray[np.float32]
    left: NDArray[np.int32]
    value: NDArray[np.float32]
    starts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LevelTrees(BoostedSum):
    """Compiled trees of a target."""

    boosted: Boosted

    def trees(self) -> list[Tree]:
        """Return the trees as ours."""
        grown = self.boosted
        # Here a row goes left below the bound, in ours at or below the threshold.
        threshold = np.nextafter(grown.bound, np.float32(-np.inf)).astype(np.float64)
        right = np.where(grown.left < 0, -1, grown.left + 1)
        value = grown.value.astype(np.float64) * self.unit
        nodes = (self.columns[grown.column], threshold, grown.left, right, value)
        spans = zip(grown.starts[: self.n_trees], grown.starts[1:], strict=False)
        return [Tree(*(part[start:end] for part in nodes)) for start, end in spans]

    def sums(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add up what the trees predict, in single precision like XGBoost."""
        from foretell.model.techniques.trees import _growing

        grown, sums = self.boosted, np.zeros(len(rows), dtype=np.float32)
        starts = grown.starts[: self.n_trees]
        _growing.predict(rows, starts, grown.column, grown.bound, grown.left, grown.value, sums)
        return sums
