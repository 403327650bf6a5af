"""LightTrees: randomized trees of the log target on logarithms, their sums and differences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from foretell.model.techniques._base import (
    Array,
    Hyperparameter,
    LogTechnique,
    Params,
    Regressor,
    State,
    TrainingRows,
)
from foretell.model.techniques._state import join_states, part_of, read_number
from foretell.model.techniques._values import whole
from foretell.model.techniques.laws.power_law import read_axes
from foretell.model.techniques.points.axes import Axes
from foretell.model.techniques.trees._flat import TreeRegressor, deviation_unit, training_features
from foretell.model.techniques.trees._random_trees import grow_random_trees

#: More logarithms get no sums and differences: there would be too many to find the good ones.
_MOST_COMBINED = 8
_REHEARSED_TREES = 25


@dataclass(frozen=True, eq=False)
class LightTreesRegressor(Regressor):
    """The mean of trees, and the axes that turn columns into what the trees see.

    The trees tell the log target less ``center``.
    """

    axes: Axes
    trees: TreeRegressor
    center: float

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        return np.exp(self.trees.predict(_tree_columns(self.axes, x)) + self.center)

    def at(self, value: Any) -> LightTreesRegressor:
        """Return the model with the first trees alone."""
        return replace(self, trees=self.trees.at(value))

    def importances(self) -> Array | None:
        """Return the share of each column; a sum or difference counts half for each of its two."""
        of_trees = self.trees.importances()
        if of_trees is None:
            return None
        shares = np.zeros(self.axes.n_columns)
        for share, columns in zip(of_trees, _sources(self.axes), strict=True):
            shares[list(columns)] += share / len(columns)
        return shares

    def to_state(self) -> State:
        """Return plain values and arrays."""
        parts = join_states({"axes": self.axes.to_state(), "trees": self.trees.to_state()})
        return State({**parts.values, "center": self.center}, parts.arrays)

    @classmethod
    def from_state(cls, state: State, n_features: int) -> LightTreesRegressor:
        """Rebuild, or raise ValueError."""
        axes = read_axes(state, n_features)
        n_seen = len(_sources(axes))
        trees = TreeRegressor.from_state(part_of(state, "trees"), n_seen)
        return cls(axes, trees, read_number(state, "center"))


class LightTreesTechnique(LogTechnique):
    """Grow trees whose splits are drawn at random, on the log target."""

    name = "LightTrees"
    path = "n_estimators"
    regressor = LightTreesRegressor
    hyperparameters = (
        Hyperparameter("n_estimators", 150, whole(least=1), prior="quniform(50,300,50)"),
    )

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> LightTreesRegressor:
        """Grow the trees one after the other; fewer trees are the first of these."""
        rows = prepared
        axes = Axes.of(rows.x, rows.groups)
        seen = training_features(_tree_columns(axes, rows.x))
        log_y = np.log(rows.y)
        # About zero and of deviation one: otherwise rounding errors look like splits that explain
        # something, or nodes like pure ones.
        center = float(np.average(log_y, weights=rows.weight))
        unit = deviation_unit(log_y, rows.weight)
        target, n_trees = (log_y - center) / unit, params["n_estimators"]
        trees = grow_random_trees(seen, target, rows.weight, n_trees, seed)
        return LightTreesRegressor(axes, replace(trees, value=trees.value * unit), center)

    def refit(
        self, rows: TrainingRows, params: Params, seed: int, start: Regressor | None
    ) -> Regressor:
        """Grow fewer trees, which are nearly as good."""
        few = min(params["n_estimators"], _REHEARSED_TREES)
        return self.fit(self.prepare(rows), {**params, "n_estimators": few}, seed)


def _log_pairs(axes: Axes) -> list[tuple[int, int]]:
    """Return the pairs of axes whose logarithms are added and subtracted."""
    logs = np.flatnonzero(axes.is_log).tolist()
    return list(combinations(logs, 2)) if len(logs) <= _MOST_COMBINED else []


def _tree_columns(axes: Axes, x: Array) -> Array:
    """Return what the trees see: axes, logs of products and ratios, and levels."""
    z = axes.coordinates(x)
    logs = z * axes.deviation
    pairs = _log_pairs(axes)
    sums = [logs[:, i] + logs[:, j] for i, j in pairs]
    differences = [logs[:, i] - logs[:, j] for i, j in pairs]
    levels = [x[:, j] for group in axes.groups for j in group]
    columns = [*z.T, *sums, *differences, *levels]
    return np.column_stack(columns) if columns else np.zeros((len(x), 1))


def _sources(axes: Axes) -> list[tuple[int, ...]]:
    """Return the columns that each column of ``_tree_columns`` comes from."""
    pairs = [(int(axes.first[i]), int(axes.first[j])) for i, j in _log_pairs(axes)]
    levels = [(j,) for group in axes.groups for j in group]
    return [*((int(j),) for j in axes.first), *pairs, *pairs, *levels] or [(0,)]
