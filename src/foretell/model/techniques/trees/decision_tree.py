"""DecisionTree: one regression tree."""

from __future__ import annotations

from typing import Any

from foretell.model.techniques._base import Params, Technique, TrainingRows
from foretell.model.techniques._state import require_runs
from foretell.model.techniques.trees._flat import TreeRegressor
from foretell.model.techniques.trees._grown import (
    GrownTrees,
    SingleRows,
    tree_options,
    tree_settings,
)


class DecisionTreeTechnique(Technique):
    """Split the runs in two, again and again, where that lowers the error most."""

    name = "DecisionTree"
    limit = "max_depth"
    regressor = TreeRegressor
    hyperparameters = tree_options(
        max_depth={"grid": (3, 5, 8, 12, None)},
        min_samples_split={"default": 0.01},
        min_samples_leaf={"default": 0.01, "grid": (1, 2, 5)},
    )

    def merges_repeats(self, params: Params) -> bool:
        """Repeats shift the squared error of every split alike; limits on leaves become weights.

        A limit on split nodes has no such translation, so it must follow from that on leaves.
        Where two splits are equally good, rounding may break the tie another way, as may a seed.
        """
        split, leaf = params["min_samples_split"], params["min_samples_leaf"]
        if isinstance(split, int):
            follows = split <= (2 * leaf if isinstance(leaf, int) else 2)
        else:
            follows = isinstance(leaf, float) and split <= 2 * leaf
        return params["criterion"] == "squared_error" and params["max_features"] is None and follows

    def settings(self, params: Params, n_runs: int, n_features: int) -> dict[str, Any]:
        """Limits are counts, and so is the number of features that a split looks at."""
        return tree_settings(params, n_runs, n_features)

    def prepare(self, rows: TrainingRows) -> SingleRows:
        """Round the features to single precision, as trees see them."""
        return SingleRows(rows)

    def fit(self, prepared: SingleRows, params: Params, seed: int) -> GrownTrees:
        """Grow one tree."""
        from sklearn import config_context
        from sklearn.tree import DecisionTreeRegressor

        rows = prepared.rows
        if not self.merges_repeats(params):
            require_runs(rows, f"{self.name} with these options")
        n_runs = round(rows.weight.sum())
        settings = self.settings(params, n_runs, rows.x.shape[1])
        if rows.is_merged:
            settings = _weighted(settings, n_runs, len(rows.y))
        model = DecisionTreeRegressor(random_state=seed, **settings)
        weight = rows.weight if rows.is_merged else None
        with config_context(skip_parameter_validation=True):  # it takes longer than a small tree
            model.fit(prepared.x, prepared.y, sample_weight=weight, check_input=False)
        return GrownTrees([model.tree_], rows.x.shape[1], prepared.unit)


def _weighted(settings: dict[str, Any], n_runs: int, n_rows: int) -> dict[str, Any]:
    """Turn limits on the runs in a node into limits on the weight of merged rows."""
    settings = dict(settings)
    del settings["min_samples_split"]
    leaf = settings.pop("min_samples_leaf")
    if 2 * leaf > n_runs:
        return {**settings, "min_samples_split": n_rows + 1}  # no split leaves enough on both sides
    # Weights are whole, so half a run less than the limit draws the same line without rounding.
    return {**settings, "min_weight_fraction_leaf": (leaf - 0.5) / n_runs}
