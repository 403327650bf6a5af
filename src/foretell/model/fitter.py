"""Fitting one technique on some rows: selection, scaling and the fit itself, in that order.

The fitter is what worker processes share: it holds the table and the splits, and keeps what
fits on the same rows have in common.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from foretell.model.campaigns.schema import SFS, Campaign, XGBoostImportance
from foretell.model.campaigns.validation.scores import error_of
from foretell.model.campaigns.validation.splits import Split
from foretell.model.features.feature_map import FeatureMap
from foretell.model.features.selection import select_by_importance, select_forward
from foretell.model.shared_fits import Point, SharedResults, fit_group, groups
from foretell.model.techniques import TECHNIQUES, Regressor, TrainingRows, complete
from foretell.model.techniques.linear._least_squares import intercept

Made = TypeVar("Made")
Array = NDArray[np.float64]
Columns = NDArray[np.int64]
Rows = NDArray[np.int64]

#: Prepared rows (factorizations, binned matrices) kept by each worker.
_KEPT_BYTES = 256 * 2**20
_KEPT_OVERHEAD = 4096  # of the objects around few rows

#: A prediction below this share of the smallest target trained on is raised to it: times and
#: energies are positive, and a linear law may not know.
FLOOR_SHARE = 1e-3


@dataclass(frozen=True)
class Scaling:
    """Shift and scale of columns and target: mean 0 and deviation 1 on the training rows."""

    x_mean: Array
    x_deviation: Array
    y_mean: float
    y_deviation: float

    @classmethod
    def of(cls, rows: TrainingRows, y: Array) -> Scaling:
        """Measure training rows, counting merged ones as often as they stand for.

        The target is measured run by run: means of repeats vary less than the repeats do.
        """
        total = rows.weight.sum()
        x_mean = rows.weight @ rows.x / total
        x_deviation = np.sqrt(rows.weight @ (rows.x - x_mean) ** 2 / total)
        y_mean, y_deviation = float(y.mean()), float(y.std())
        # A constant column stays as it is; rounding leaves it a deviation of about 1e-16.
        constant = x_deviation <= 1e-12 * np.maximum(np.abs(x_mean), 1e-300)
        return cls(x_mean, np.where(constant, 1.0, x_deviation), y_mean, y_deviation or 1.0)

    def rows(self, rows: TrainingRows) -> TrainingRows:
        """Scale training rows."""
        return replace(rows, x=self.x(rows.x), y=(rows.y - self.y_mean) / self.y_deviation)

    def x(self, x: Array) -> Array:
        """Scale columns."""
        return (x - self.x_mean) / self.x_deviation


@dataclass(frozen=True)
class FittedModel:
    """A fitted model of the whole matrix: which columns it uses, their scaling, the regressor."""

    columns: Columns
    scaling: Scaling | None
    regressor: Regressor
    floor: float | None

    def predict(self, x: Array) -> Array:
        """Predict the target of each row of the whole matrix; raise ValueError if one overflows."""
        y = self.estimate(x)
        if not np.isfinite(y).all():
            raise ValueError("the model predicts values that are not finite")
        return y

    def estimate(self, x: Array) -> Array:
        """Predict like ``predict``, but leave what is not finite to the caller."""
        x = x[:, self.columns] if len(self.columns) < x.shape[1] else x
        if self.scaling is None:
            y = self.regressor.predict(x)
        else:
            y = self.regressor.predict(self.scaling.x(x))
            y = y * self.scaling.y_deviation + self.scaling.y_mean
        y = np.asarray(y, dtype=float)
        return y if self.floor is None else np.maximum(y, self.floor)

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest prediction, at which those further out are held."""
        unlimited = (-math.inf, math.inf)
        low, high = self.regressor.limits() if self.scaling is None else unlimited
        return max(low, -math.inf if self.floor is None else self.floor), high

    def estimate_with_doubt(self, x: Array, probabilities: Sequence[float]) -> Array:
        """Predict as ``estimate``, in the first of the columns of ``Regressor.with_doubt``."""
        if self.scaling is not None:  # the target may be negative, and then has no logarithm
            columns = np.zeros((len(x), 1 + len(probabilities)))
            columns[:, 0] = self.estimate(x)
            return columns
        x = x[:, self.columns] if len(self.columns) < x.shape[1] else x
        columns = self.regressor.with_doubt(x, probabilities)
        if self.floor is not None:
            columns[:, 0] = np.maximum(columns[:, 0], self.floor)
        return columns

    def is_stopped(self, x: Array) -> NDArray[np.bool_]:
        """Say of which rows of the whole matrix only lower bounds are known."""
        return self.regressor.is_stopped(x[:, self.columns])

    def coefficients(self) -> tuple[Array, float] | None:
        """Return a linear model's coefficients in the units of the table."""
        found = self.regressor.coefficients()
        if found is None or self.scaling is None:
            return found
        s = self.scaling
        slopes = found[0] * s.y_deviation / s.x_deviation
        return slopes, intercept(found[1] * s.y_deviation + s.y_mean, slopes, s.x_mean)


@dataclass
class Fitter:
    """The table, the splits and the options of a campaign; every worker has one."""

    campaign: Campaign
    x: Array
    y: Array
    configuration: NDArray[np.int64]
    splits: dict[str, Split]
    feature_map: FeatureMap
    _kept: OrderedDict[Hashable, tuple[Any, int]] = field(default_factory=OrderedDict)
    _kept_bytes: int = 0
    _fold_errors: SharedResults[float] = field(default_factory=SharedResults)

    def groups(
        self, name: str, space: Sequence[dict[str, Any]], split_key: str
    ) -> list[tuple[dict[str, Any], ...]]:
        """Group hyperparameters whose fits on the training rows of a split have much in common."""
        technique = TECHNIQUES.get(name)()
        points = [Point(technique, params) for params in space]
        n_runs, n_features = len(self.splits[split_key].train), self.x.shape[1]
        if isinstance(self.campaign.feature_selection, SFS):  # most of its fits are on one column
            n_runs, n_features = len(self._selection_folds(split_key)[0].train), 1
        found = groups(points, n_runs, n_features)
        return [tuple(dict(point.params) for point in group) for group in found]

    def fit(self, name: str, batch: Sequence[dict[str, Any]], split_key: str) -> list[FittedModel]:
        """Fit on the training rows of a split; hyperparameters of the same model share one fit."""
        technique = TECHNIQUES.get(name)()
        points = [Point(technique, params) for params in batch]
        by_columns: dict[bytes, tuple[Columns, list[Point]]] = {}
        for point in points:
            columns = self._point_columns(point, split_key)
            by_columns.setdefault(columns.tobytes(), (columns, []))[1].append(point)
        train = self.splits[split_key].train
        fitted: dict[int, FittedModel] = {}
        for columns, alike in by_columns.values():
            for group in groups(alike, len(train), len(columns)):
                models = self._fit_group(group, split_key, train, columns)
                fitted |= {id(point): model for point, model in zip(group, models, strict=True)}
        return [fitted[id(point)] for point in points]

    def _fit_group(
        self, group: Sequence[Point], rows_key: Hashable, rows: Rows, columns: Columns
    ) -> list[FittedModel]:
        """Fit points of one group on some rows, which ``rows_key`` identifies, and columns."""
        scaling, prepared = self._prepared(group[0], rows_key, rows, columns)
        technique, floor = group[0].technique, self._floor(rows)
        regressors = fit_group(
            group,
            len(rows),
            len(columns),
            lambda params: technique.fit(prepared, params, self.campaign.seed),
        )
        models = {id(r): FittedModel(columns, scaling, r, floor) for r in regressors}
        return [models[id(regressor)] for regressor in regressors]

    def _fit(self, point: Point, rows_key: Hashable, rows: Rows, columns: Columns) -> FittedModel:
        return self._fit_group([point], rows_key, rows, columns)[0]

    def _point_columns(self, point: Point, split_key: str) -> Columns:
        """Choose the columns that a point of the search uses: forward selection depends on it."""
        columns, options = self._columns(split_key), self.campaign.feature_selection
        if not isinstance(options, SFS):
            return columns
        return select_forward(
            columns.tolist(),
            lambda subset: self._subset_error(point, split_key, np.sort(subset)),
            min_features=options.min_features,
            max_features=options.max_features,
        )

    def _subset_error(self, point: Point, split_key: str, columns: Columns) -> float:
        """Return the cross-validated error of a subset of columns, inside the training rows."""
        try:
            errors = [
                self._fold_error(point, (split_key, i), fold, columns)
                for i, fold in enumerate(self._selection_folds(split_key))
            ]
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return float("inf")
        return float(np.mean(errors))

    def _fold_error(self, point: Point, rows_key: Hashable, fold: Split, columns: Columns) -> float:
        """Return the error on a fold; that of a fit that was made for another point is known."""
        depends_on, limit = point.depends_on(len(fold.train), len(columns))
        key = (depends_on, point.length, rows_key, columns.tobytes())
        error = self._fold_errors.find(key, limit)
        if error is None:
            fitted = self._fit(point, rows_key, fold.train, columns)
            predicted = fitted.predict(self.x[fold.test])
            error = error_of(self.y[fold.test], predicted, self.campaign.score)
            self._fold_errors.add(key, limit, fitted.regressor.reached(), error)
        return error

    def _selection_folds(self, split_key: str) -> list[Split]:
        """Split the training rows of a split into folds for the selection of features."""
        options, rows = self.campaign.feature_selection, self.splits[split_key].train
        assert isinstance(options, SFS)
        n_folds = min(options.folds, len(rows))

        def make() -> list[Split]:
            shuffled = np.random.default_rng(self.campaign.seed).permutation(rows)
            tests = np.array_split(shuffled, n_folds)
            return [Split(np.setdiff1d(rows, test), test) for test in tests]

        return self._once(("selection folds", split_key), make, 8 * n_folds * len(rows))

    def _prepare(self, point: Point, rows: Rows, columns: Columns) -> tuple[Scaling | None, Any]:
        technique = point.technique
        taken = self._rows(point, rows, columns)
        if technique.needs_units or not self.campaign.features.normalization:
            return None, technique.prepare(taken)
        scaling = Scaling.of(taken, self.y[rows])
        return scaling, technique.prepare(scaling.rows(taken))

    def _columns(self, split_key: str) -> Columns:
        """Choose the columns that training rows can say something about."""
        return self._once(("columns", split_key), lambda: self._select_columns(split_key), 0)

    def _select_columns(self, split_key: str) -> Columns:
        train = self.splits[split_key].train
        columns = np.arange(self.x.shape[1])
        indicators = np.flatnonzero([f.is_indicator for f in self.feature_map.features])
        if len(indicators):  # all zero where training never sees the level
            seen = (self.x[np.ix_(train, indicators)] != 0).any(axis=0)
            columns = np.setdiff1d(columns, indicators[~seen])
        options = self.campaign.feature_selection
        if isinstance(options, XGBoostImportance):
            shares = self._importances(split_key, columns)
            kept = select_by_importance(
                shares, tolerance=options.tolerance, max_features=options.max_features
            )
            columns = columns[kept]
        return columns

    def _importances(self, split_key: str, columns: Columns) -> Array:
        technique = TECHNIQUES.get("XGBoost")()
        params = complete(technique, {"n_estimators": 50, "max_depth": 3, "gamma": 0})
        train = self.splits[split_key].train
        fitted = self._fit(Point(technique, params), split_key, train, columns)
        shares = fitted.regressor.importances()
        return np.zeros(len(columns)) if shares is None else shares  # None: nothing to split on

    def _prepared(
        self, point: Point, rows_key: Hashable, rows: Rows, columns: Columns
    ) -> tuple[Scaling | None, Any]:
        key = (point.technique.name, rows_key, point.merges, columns.tobytes())
        n_bytes = 16 * len(rows) * len(columns)  # the rows, and as much again
        return self._once(key, lambda: self._prepare(point, rows, columns), n_bytes)

    def _once(self, key: Hashable, make: Callable[[], Made], n_bytes: int) -> Made:
        """Return what was made before, if it is still kept; what was not used for long goes."""
        if key not in self._kept:
            self._kept[key] = (make(), n_bytes + _KEPT_OVERHEAD)
            self._kept_bytes += n_bytes + _KEPT_OVERHEAD
            while len(self._kept) > 1 and self._kept_bytes > _KEPT_BYTES:
                _, (_, freed) = self._kept.popitem(last=False)
                self._kept_bytes -= freed
        self._kept.move_to_end(key)
        found: Made = self._kept[key][0]
        return found

    def _rows(self, point: Point, rows: Rows, columns: Columns) -> TrainingRows:
        """Take some rows and columns, with repeats merged where that changes nothing."""
        position = {int(column): i for i, column in enumerate(columns)}
        left = (tuple(position[c] for c in g if c in position) for g in self.feature_map.groups)
        groups = tuple(group for group in left if group)
        if point.merges:
            _, first, group, count = np.unique(
                self.configuration[rows], return_index=True, return_inverse=True, return_counts=True
            )
            if len(first) < len(rows):
                y = np.bincount(group, self.y[rows]) / count
                x = self._take(rows[first], columns)
                return TrainingRows(x, y, count.astype(float), groups)
        x = self._take(rows, columns)
        return TrainingRows(x, self.y[rows], np.ones(len(rows)), groups)

    def _take(self, rows: Rows, columns: Columns) -> Array:
        if len(columns) == self.x.shape[1]:
            return self.x[rows]
        return self.x[np.ix_(rows, columns)]

    def _floor(self, rows: Rows) -> float | None:
        smallest = float(self.y[rows].min())
        return FLOOR_SHARE * smallest if smallest > 0 else None
