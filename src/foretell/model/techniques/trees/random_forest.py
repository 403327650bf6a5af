"""RandomForest: the mean of trees, each grown on a resample of the runs."""

from __future__ import annotations

from typing import Any

from foretell.model.techniques._base import Hyperparameter, Params, Technique, TrainingRows
from foretell.model.techniques._state import require_runs
from foretell.model.techniques._values import whole
from foretell.model.techniques.trees._flat import TreeRegressor
from foretell.model.techniques.trees._grown import (
    GrownTrees,
    SingleRows,
    tree_options,
    tree_settings,
)


class RandomForestTechnique(Technique):
    """Average trees that differ by the runs and features each has seen."""

    name = "RandomForest"
    path = "n_estimators"
    limit = "max_depth"
    regressor = TreeRegressor
    hyperparameters = (
        Hyperparameter(
            "n_estimators", 5, whole(least=1), grid=(25, 50, 100), prior="quniform(10,150,10)"
        ),
        *tree_options(
            max_depth={"grid": (None,)},
            max_features={"grid": ("auto", "sqrt"), "prior": "choice('auto','sqrt',0.5)"},
            min_samples_split={"default": 0.1},
            min_samples_leaf={"grid": (1, 3)},
        ),
    )

    def settings(self, params: Params, n_runs: int, n_features: int) -> dict[str, Any]:
        """Limits are counts, and so is the number of features that a split looks at."""
        n_estimators = params["n_estimators"]
        return {"n_estimators": n_estimators, **tree_settings(params, n_runs, n_features)}

    def prepare(self, rows: TrainingRows) -> SingleRows:
        """Round the features to single precision, as trees see them."""
        return SingleRows(require_runs(rows, self.name))

    def fit(self, prepared: SingleRows, params: Params, seed: int) -> GrownTrees:
        """Grow the trees one after the other; fewer trees are the first of these."""
        from sklearn.ensemble import RandomForestRegressor

        n_runs, n_features = prepared.x.shape
        forest = RandomForestRegressor(
            n_jobs=1, random_state=seed, **self.settings(params, n_runs, n_features)
        )
        forest.fit(prepared.x, prepared.y)
        trees = [tree.tree_ for tree in forest.estimators_]
        return GrownTrees(trees, n_features, prepared.unit)
