"""RandomForest: the mean of trees, each grown on a resample of the runs."""

from __future__ import annotations

from foretell.model.techniques._base import Hyperparameter, Params, Technique, TrainingRows
from foretell.model.techniques._state import require_runs
from foretell.model.techniques._values import count_or_share, optional, whole
from foretell.model.techniques.trees._flat import TreeRegressor
from foretell.model.techniques.trees._grown import (
    GrownTrees,
    SingleRows,
    common_settings,
    node_limits,
    read_criterion,
    read_max_features,
)


class RandomForestTechnique(Technique):
    """Average trees that differ by the runs and features each has seen."""

    name = "RandomForest"
    path = "n_estimators"
    regressor = TreeRegressor
    hyperparameters = (
        Hyperparameter(
            "n_estimators", 5, whole(least=1), grid=(25, 50, 100), prior="quniform(10,150,10)"
        ),
        Hyperparameter("criterion", "mse", read_criterion),
        Hyperparameter(
            "max_depth", 3, optional(whole(least=1)), grid=(None,), prior="uniformint(2,20)"
        ),
        Hyperparameter(
            "max_features",
            "auto",
            read_max_features,
            grid=("auto", "sqrt"),
            prior="choice('auto','sqrt',0.5)",
        ),
        Hyperparameter(
            "min_samples_split",
            0.1,
            count_or_share(least=2, one_is_share=True),
            grid=(2,),
            prior="choice(2)",
        ),
        Hyperparameter(
            "min_samples_leaf", 1, count_or_share(least=1), grid=(1, 3), prior="uniformint(1,10)"
        ),
    )

    def prepare(self, rows: TrainingRows) -> SingleRows:
        """Round the features to single precision, as trees see them."""
        return SingleRows(require_runs(rows, self.name))

    def fit(self, prepared: SingleRows, params: Params, seed: int) -> GrownTrees:
        """Grow the trees one after the other; fewer trees are the first of these."""
        from sklearn.ensemble import RandomForestRegressor

        n_runs, n_features = prepared.x.shape
        forest = RandomForestRegressor(
            n_estimators=params["n_estimators"],
            n_jobs=1,
            random_state=seed,
            **common_settings(params),
            **node_limits(params, n_runs),
        )
        forest.fit(prepared.x, prepared.y)
        trees = [tree.tree_ for tree in forest.estimators_]
        return GrownTrees(trees, n_features, prepared.unit)
