"""What DecisionTree and RandomForest share: options, limits on nodes, and trees as grown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from foretell.model.techniques._base import Array, Hyperparameter, Params, TrainingRows
from foretell.model.techniques._values import count_or_share, one_of, optional, whole
from foretell.model.techniques.trees._flat import (
    LibraryTrees,
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
_read_criterion = one_of(
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


#: The options of every tree; a technique has defaults and a search of its own.
_TREE_OPTIONS = (
    Hyperparameter("criterion", "mse", _read_criterion),
    Hyperparameter("max_depth", 3, optional(whole(least=1)), prior="uniformint(2,20)"),
    Hyperparameter("max_features", "auto", read_max_features),
    Hyperparameter(
        "min_samples_split",
        2,
        count_or_share(least=2, one_is_share=True),
        grid=(2,),
        prior="choice(2)",
    ),
    Hyperparameter("min_samples_leaf", 1, count_or_share(least=1), prior="uniformint(1,10)"),
)


def tree_options(**changes: dict[str, Any]) -> tuple[Hyperparameter, ...]:
    """Return the options of trees with some of their attributes changed, by name of the option."""
    return tuple(replace(option, **changes.get(option.name, {})) for option in _TREE_OPTIONS)


class SingleRows:
    """Rows to grow trees on: features in single precision, the target in units of its deviation.

    Otherwise scikit-learn would take nodes for pure whose times are below a microsecond.
    """

    def __init__(self, rows: TrainingRows) -> None:
        self.rows = rows
        self.x = training_features(rows.x)
        self.unit = deviation_unit(rows.y, rows.weight)
        self.y = rows.y / self.unit


def _split_features(value: str | float | None, n_features: int) -> int:
    """Return how many features a split looks at."""
    if value is None:
        return n_features
    if isinstance(value, int):
        return min(value, n_features)
    counts = {"sqrt": math.sqrt, "log2": math.log2}
    count = counts[value](n_features) if isinstance(value, str) else value * n_features
    return max(1, int(count))


def _node_limits(params: Params, n_runs: int) -> dict[str, int]:
    """Return the fewest runs in a node that is split, and in a leaf: shares become counts."""
    names = ("min_samples_split", "min_samples_leaf")
    split, leaf = (
        value if isinstance(value, int) else math.ceil(value * n_runs)
        for value in (params[name] for name in names)
    )
    return {"min_samples_split": max(2, split, 2 * leaf), "min_samples_leaf": leaf}


def tree_settings(params: Params, n_runs: int, n_features: int) -> dict[str, Any]:
    """Return what a tree on so many runs and features depends on, as arguments of scikit-learn."""
    return {
        "criterion": params["criterion"],
        "max_depth": params["max_depth"],
        "max_features": _split_features(params["max_features"], n_features),
        **_node_limits(params, n_runs),
    }


@dataclass(frozen=True, eq=False)
class GrownTrees(LibraryTrees):
    """The mean of trees of scikit-learn, whose values are in multiples of ``unit``."""

    trees: Sequence[Any]
    n_features: int
    unit: float

    @cached_property
    def portable(self) -> TreeRegressor:
        """The same trees as ours, with the share of each feature in the decrease of impurity."""
        trees = [
            Tree(
                tree.feature,
                tree.threshold,
                tree.children_left,
                tree.children_right,
                tree.value.reshape(-1) * self.unit,
            )
            for tree in self.trees
        ]
        of_trees = (tree.compute_feature_importances() for tree in self.trees)
        # Splits that change nothing have a decrease of zero, which rounding may make negative.
        shares: Array = np.maximum(sum(of_trees, start=np.zeros(self.n_features)), 0.0)
        total = shares.sum()
        shared = shares / total if total > 0 else None
        return join_trees(trees, n_features=self.n_features, is_mean=True, shares=shared)

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        rows = single_precision(x)
        total = np.zeros(len(rows))
        for tree in self.trees:
            total += tree.predict(rows).reshape(-1)
        return total / len(self.trees) * self.unit

    def reached(self) -> float:
        """Return the depth of the deepest tree."""
        return float(max(tree.max_depth for tree in self.trees))

    def at(self, value: Any) -> GrownTrees:
        """Return the model with the first trees alone."""
        return replace(self, trees=self.trees[: prefix(value, len(self.trees))])
