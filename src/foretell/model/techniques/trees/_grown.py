"""What DecisionTree and RandomForest share: options, limits on nodes, and trees as grown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array, Params, Regressor, State, TrainingRows
from foretell.model.techniques._values import count_or_share, one_of
from foretell.model.techniques.trees._flat import (
    Tree,
    TreeRegressor,
    deviation_unit,
    join_trees,
    prefix,
    single_precision,
    training_features,
)

# friedman_mse is an alias: scikit-learn found that its splits always were those of squared_error,
# says so since 1.9, and drops the word in 1.11.
read_criterion = one_of(
    {
        "mse": "squared_error",
        "squared_error": "squared_error",
        "friedman_mse": "squared_error",
        "mae": "absolute_error",
        "absolute_error": "absolute_error",
        "poisson": "poisson",
    }
)


def read_max_features(value: Any) -> str | int | float | None:
    """Read how many features a split may look at: a word, a share or a count; None is all.

    >>> read_max_features("auto"), read_max_features(1.0), read_max_features(1)
    (None, None, 1)
    """
    if value is None or isinstance(value, str):
        words = {"auto": None, "all": None, "none": None, "sqrt": "sqrt", "log2": "log2"}
        word: str | None = one_of(words)(value)
        return word
    if isinstance(value, float) and value == 1:
        return None
    return count_or_share(least=1)(value)


class SingleRows:
    """Rows to grow trees on: features in single precision, the target in units of its deviation.

    Otherwise scikit-learn would take nodes for pure whose times are below a microsecond.
    """

    def __init__(self, rows: TrainingRows) -> None:
        self.rows = rows
        self.x = training_features(rows.x)
        self.unit = deviation_unit(rows.y, rows.weight)
        self.y = rows.y / self.unit


@dataclass(frozen=True)
class NodeLimits:
    """The fewest runs in a node that is split, and in a leaf."""

    split: int
    leaf: int

    @classmethod
    def of(cls, params: Params, n_runs: int) -> NodeLimits:
        """Turn shares into counts as scikit-learn does."""
        split, leaf = params["min_samples_split"], params["min_samples_leaf"]
        leaf = leaf if isinstance(leaf, int) else math.ceil(leaf * n_runs)
        split = split if isinstance(split, int) else math.ceil(split * n_runs)
        return cls(max(2, split, 2 * leaf), leaf)


def common_settings(params: Params) -> dict[str, Any]:
    """Return the arguments that mean the same for one tree and for a forest."""
    return {name: params[name] for name in ("criterion", "max_depth", "max_features")}


@dataclass(frozen=True, eq=False)
class GrownTrees(Regressor):
    """The mean of trees of scikit-learn, which predict faster than ours but cannot be saved.

    Their values are in multiples of ``unit``.
    """

    trees: Sequence[Any]
    n_features: int
    unit: float

    @cached_property
    def _portable(self) -> TreeRegressor:
        return join_trees(
            [_portable(tree, self.unit) for tree in self.trees],
            n_features=self.n_features,
            is_mean=True,
            shares=self.importances(),
        )

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        rows = single_precision(x)
        total = np.zeros(len(rows))
        for tree in self.trees:
            total += tree.predict(rows).reshape(-1)
        return total / len(self.trees) * self.unit

    def at(self, value: Any) -> GrownTrees:
        """Return the model with the first trees alone."""
        return replace(self, trees=self.trees[: prefix(value, len(self.trees))])

    def importances(self) -> Array | None:
        """Return the share of each feature in the decrease of impurity, averaged over trees."""
        of_trees = (tree.compute_feature_importances() for tree in self.trees)
        # Splits that change nothing have a decrease of zero, which rounding may make negative.
        shares: Array = np.maximum(sum(of_trees, start=np.zeros(self.n_features)), 0.0)
        total = shares.sum()
        return shares / total if total > 0 else None

    def to_state(self) -> State:
        """Return the trees as arrays."""
        return self._portable.to_state()

    @classmethod
    def from_state(cls, state: State, n_features: int) -> TreeRegressor:
        """Rebuild in the portable form."""
        return TreeRegressor.from_state(state, n_features)


def _portable(tree: Any, unit: float) -> Tree:
    value: NDArray[np.float64] = tree.value.reshape(-1) * unit
    return Tree(tree.feature, tree.threshold, tree.children_left, tree.children_right, value)
