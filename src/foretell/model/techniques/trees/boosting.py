"""XGBoost: a sum of trees, each grown on what the earlier ones leave unexplained."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array, Hyperparameter, Params, Technique, TrainingRows
from foretell.model.techniques._values import real, whole
from foretell.model.techniques.trees._flat import (
    BoostedSum,
    Tree,
    TreeRegressor,
    deviation_unit,
    training_features,
)
from foretell.model.techniques.trees._levels import (
    MOST_VALUES,
    Levels,
    LevelTrees,
    Penalties,
    boost,
    is_built,
)

# A node of fewer rows is faster summed on its own than subtracted from its parent, bin by bin.
_ROWS_TO_SUBTRACT = 64

# Units per deviation of the target. XGBoost refuses gains below about 1e-6 squared units. This must
# not exceed its rounding errors, or it would ignore milliseconds next to minutes.
_UNITS_PER_DEVIATION = 1024

_LEAST_SINGLE, _MOST_SINGLE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


class XGBoostTechnique(Technique):
    """Boost regression trees on the squared error, with XGBoost."""

    name = "XGBoost"
    path = "n_estimators"
    regressor = TreeRegressor
    hyperparameters = (
        Hyperparameter(
            "n_estimators",
            500,
            whole(least=1),
            grid=(50, 100, 200, 400),
            prior="quniform(50,500,50)",
        ),
        Hyperparameter(
            "learning_rate", 0.1, real(above=0), grid=(0.05, 0.2), prior="loguniform(0.01,0.3)"
        ),
        Hyperparameter("max_depth", 100, whole(least=0), grid=(3, 6, 10), prior="uniformint(2,12)"),
        Hyperparameter("min_child_weight", 1, real(least=0), prior="uniformint(1,10)"),
        # In squared units of the target: 0.25 would stop trees of times below a second.
        Hyperparameter("gamma", 0.25, real(least=0), grid=(0,), prior="loguniform(0.001,10)"),
        Hyperparameter("lambda", 1, real(least=0), prior="loguniform(0.01,10)"),
        Hyperparameter("alpha", 0, real(least=0)),
        Hyperparameter("subsample", 1, real(above=0, most=1)),
        Hyperparameter("colsample_bytree", 1, real(above=0, most=1)),
    )

    def merges_repeats(self, params: Params) -> bool:
        """Gradients and weights of repeats add up, unless runs are drawn one by one.

        Columns of more than a thousand distinct values are binned by approximate quantiles, which
        may then fall elsewhere.
        """
        return bool(params["subsample"] == 1)

    def prepare(self, rows: TrainingRows) -> _Binned:
        """Keep the rows ready for binning, which the first fit does for all."""
        return _Binned(rows)

    def fit(self, prepared: _Binned, params: Params, seed: int) -> BoostedSum:
        """Boost all trees; fewer trees are the first of these."""
        draws = params["subsample"] < 1 or params["colsample_bytree"] < 1
        if draws or prepared.levels is None:
            return self._fit_library(prepared, params, seed)
        return _fit_levels(prepared, prepared.levels, params)

    def _fit_library(self, prepared: _Binned, params: Params, seed: int) -> BoostedTrees:
        import xgboost

        # When each tree draws columns, those that look alike still count.
        matrix, columns = prepared.distinct if params["colsample_bytree"] == 1 else prepared.full
        settings = {
            "objective": "reg:squarederror",
            # "exact" took 1.7 times as long on 1,448 rows, and applies gamma differently.
            "tree_method": "hist",
            "max_bin": MOST_VALUES,
            "max_cached_hist_node": max(1, len(prepared.x) // _ROWS_TO_SUBTRACT),
            "nthread": 1,
            "verbosity": 0,
            "seed": seed,
            "base_score": 0.0,
            **{h.name: params[h.name] for h in self.hyperparameters if h.name != self.path},
            "gamma": prepared.gamma(params),
            "alpha": prepared.alpha(params),
        }
        # Like xgboost.train, which after each tree also looks for rows to evaluate it on.
        booster = xgboost.Booster(settings, [matrix])
        for iteration in range(params["n_estimators"]):
            booster.update(matrix, iteration)
        return BoostedTrees(
            booster=booster,
            n_trees=params["n_estimators"],
            columns=columns,
            n_features=prepared.x.shape[1],
            base=prepared.base,
            unit=prepared.unit,
        )


def _fit_levels(prepared: _Binned, levels: Levels, params: Params) -> LevelTrees:
    boosted = boost(
        levels,
        prepared.label,
        prepared.rows.weight,
        Penalties(
            min_child_weight=params["min_child_weight"],
            gamma=prepared.gamma(params),
            lambda_=params["lambda"],
            alpha=prepared.alpha(params),
            learning_rate=params["learning_rate"],
        ),
        n_trees=params["n_estimators"],
        max_depth=params["max_depth"],
    )
    return LevelTrees(
        boosted=boosted,
        n_trees=params["n_estimators"],
        columns=prepared.columns,
        n_features=prepared.x.shape[1],
        base=prepared.base,
        unit=prepared.unit,
    )


def _single(value: float) -> float:
    """Return the nearest number that XGBoost reads; it refuses what single precision lacks."""
    return min(value, _MOST_SINGLE) if value >= _LEAST_SINGLE else 0.0


class _Binned:
    """Rows as XGBoost takes them: binned once, with the target as multiples from its mean.

    XGBoost computes in single precision, where small differences between large times would drown,
    and ignores small gains, whatever the unit. A power of two as unit changes nothing else.
    """

    def __init__(self, rows: TrainingRows) -> None:
        self.rows = rows
        self.x = training_features(rows.x)
        self.base = float(np.average(rows.y, weights=rows.weight))
        self.unit = deviation_unit(rows.y, rows.weight) / _UNITS_PER_DEVIATION

    @property
    def label(self) -> Array:
        """The target as it is boosted."""
        return (self.rows.y - self.base) / self.unit

    def gamma(self, params: Params) -> float:
        """Return the least gain of a split in our unit, squared."""
        return _single(params["gamma"] / self.unit / self.unit)

    def alpha(self, params: Params) -> float:
        """Return the penalty on the values of leaves in our unit."""
        return _single(params["alpha"] / self.unit)

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """The columns that a tree could tell from all earlier ones."""
        return distinct_columns(self.x)

    @cached_property
    def levels(self) -> Levels | None:
        """The levels of these columns; None if they are too many, or nothing is compiled."""
        return Levels.of(self.x[:, self.columns]) if is_built() else None

    @cached_property
    def full(self) -> tuple[Any, NDArray[np.intp]]:
        """The matrix of all columns, and which they are."""
        columns = np.arange(self.x.shape[1])
        return self._matrix(self.x), columns

    @cached_property
    def distinct(self) -> tuple[Any, NDArray[np.intp]]:
        """The matrix without columns that no tree could tell from an earlier one."""
        columns = self.columns
        return (
            self.full
            if len(columns) == self.x.shape[1]
            else (self._matrix(self.x[:, columns]), columns)
        )

    def _matrix(self, x: NDArray[np.float32]) -> Any:
        import xgboost

        weight = self.rows.weight if self.rows.is_merged else None
        return xgboost.QuantileDMatrix(
            x, label=self.label, weight=weight, max_bin=MOST_VALUES, nthread=1
        )


def distinct_columns(x: NDArray[np.float32]) -> NDArray[np.intp]:
    """Find the columns that order the rows differently than all columns before them.

    A tree splits by order alone, so x, x² and, reversed, 1/x offer it the same splits. Bins break
    the symmetry of the reversal once values share them.

    >>> x = np.array([1, 2, 4], dtype=np.float32)
    >>> distinct_columns(np.column_stack([x, x**2, 1 / x, (x - 2) ** 2]))
    array([0, 3])
    """
    seen: set[bytes] = set()
    kept = []
    for j in range(x.shape[1]):
        values, ranks = np.unique(x[:, j], return_inverse=True)
        order = _digest(ranks)
        if order in seen:
            continue
        kept.append(j)
        seen.add(order)
        if len(values) <= MOST_VALUES:
            seen.add(_digest(len(values) - 1 - ranks))
    return np.array(kept, dtype=np.intp)


def _digest(ranks: NDArray[np.intp]) -> bytes:
    return hashlib.blake2b(ranks.tobytes()).digest()


@dataclass(frozen=True, eq=False)
class BoostedTrees(BoostedSum):
    """A booster as trained; most are scored once and go."""

    booster: Any

    def trees(self) -> list[Tree]:
        """Return the trees as ours."""
        content = json.loads(self.booster[: self.n_trees].save_raw("json"))
        trees = content["learner"]["gradient_booster"]["model"]["trees"]
        return [_portable(tree, self.columns, self.unit) for tree in trees]

    def sums(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add up what the trees predict."""
        sums = self.booster.inplace_predict(rows, iteration_range=(0, self.n_trees))
        return np.asarray(sums, dtype=np.float32)


def _portable(tree: dict[str, Any], columns: NDArray[np.intp], unit: float) -> Tree:
    left = np.array(tree["left_children"])
    numbers = np.array(tree["split_conditions"], dtype=np.float32)  # leaves hold their value here
    # Here a row goes left below the threshold, in ours at or below it.
    threshold = np.nextafter(numbers, np.float32(-np.inf)).astype(np.float64)
    return Tree(
        feature=columns[np.array(tree["split_indices"])],
        threshold=threshold,
        left=left,
        right=np.array(tree["right_children"]),
        value=np.where(left < 0, numbers, 0).astype(np.float64) * unit,
    )
