"""What an automatic model says in words: what its laws explain, cliffs, plateaus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from foretell.model.automatic.bench import Bench
from foretell.model.automatic.cliffs import FEWEST_BEYOND
from foretell.model.results.schema import Cliff, Plateau
from foretell.model.saved.model import SavedModel

Array = NDArray[np.float64]

_MOST_POINTS = 200
_FEWEST_LEVELS = 4
#: Only the columns that matter most are searched for plateaus: each takes hundreds of predictions.
_MOST_COLUMNS = 12
#: The log target changes by less than the first number on a plateau, and by more than the second
#: before it.
_FLAT, _STEEP = 0.03, 0.15


def explained_share(log_y: Array, log_predicted: Array) -> float:
    """Return the share of the variance of the log target of some runs that a model explains."""
    total = float(((log_y - log_y.mean()) ** 2).sum())
    left = float(((log_y - log_predicted) ** 2).sum())
    return max(0.0, 1 - left / total) if total > 0 else 0.0


def describe_cliffs(bench: Bench, model: SavedModel) -> list[Cliff]:
    """Say by which factor predictions change at each cliff, all else equal.

    Runs that were stopped may show where a cliff is, but not how high.
    """
    points = bench.points.sample(_MOST_POINTS, bench.seed)
    found = []
    for i, feature in enumerate(model.feature_map.features):
        if feature.threshold is None:
            continue
        below, beyond = points.x.copy(), points.x.copy()
        below[:, i], beyond[:, i] = 0.0, 1.0
        ratio = model.fitted.estimate(beyond) / model.fitted.estimate(below)
        n_beyond = int((bench.points.x[:, i] > 0).sum())
        is_known = FEWEST_BEYOND <= n_beyond <= len(bench.points) - FEWEST_BEYOND
        found.append(
            Cliff(
                product=feature.name.strip("[]").rpartition(" ≥ ")[0],
                value=feature.threshold,
                factor=float(np.median(ratio)) if is_known else None,
            )
        )
    return found


def find_plateaus(bench: Bench, model: SavedModel, names: Sequence[str]) -> list[Plateau]:
    """Find columns that stop mattering from some value on, within the measured range."""
    points = bench.points.sample(_MOST_POINTS, bench.seed)
    shares = model.fitted.regressor.importances()
    columns = np.array(bench.numeric, dtype=np.int64)
    if shares is not None and len(columns) > _MOST_COLUMNS:
        columns = np.sort(columns[np.argsort(-shares[columns], kind="stable")[:_MOST_COLUMNS]])
    found = []
    for column in columns:
        levels = np.unique(points.x[:, column])
        if len(levels) < _FEWEST_LEVELS or len(levels) > _MOST_POINTS // _FEWEST_LEVELS:
            continue
        curve = _mean_curve(points.x, column, levels, model)
        start = _flat_from(curve)
        if start is not None:
            found.append(Plateau(column=names[column], value=float(levels[start])))
    return found


def _mean_curve(x: Array, column: int, levels: Array, model: SavedModel) -> Array:
    """Return the mean log prediction at each level, relative to the first.

    A step is averaged over the points measured at its two levels, which keep their other settings:
    nothing is predicted outside the data.
    """
    order = np.searchsorted(levels, x[:, column])
    near = [np.flatnonzero((order == k) | (order == k + 1)) for k in range(len(levels) - 1)]
    step = np.repeat(np.arange(len(near)), [len(rows) for rows in near])
    low = x[np.concatenate(near)]
    high = low.copy()
    low[:, column], high[:, column] = levels[step], levels[step + 1]
    both = model.feature_map.with_thresholds(np.concatenate([low, high]))
    before, after = np.split(np.log(model.fitted.estimate(both)), 2)
    changes = np.bincount(step, after - before) / np.bincount(step)
    return np.concatenate([[0.0], np.cumsum(changes)])


def _flat_from(curve: Array) -> int | None:
    """Return the first level after which the curve stays flat, if there is one."""
    last = len(curve) - 1
    if np.ptp(curve) < _STEEP:
        return None
    flat = [k for k in range(last - 1) if np.ptp(curve[k:]) < _FLAT]
    return flat[0] if flat and flat[0] > 0 else None
