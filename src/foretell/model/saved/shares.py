"""What matters to a model: the share of each column in the variance of its predictions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.model.saved.model import Configurations, SavedModel, TooFarError
from foretell.sensitivity.shares import VarianceShares
from foretell.sensitivity.sobol import N_POINTS, shares_on_levels

#: How many values stand for a column that has too many to be listed.
_N_VALUES = 16
_LOG_RATIO = 20.0
#: With more columns fewer points are drawn, for the time it takes.
_MANY_COLUMNS = 12


def measured_levels(model: SavedModel) -> dict[str, list[Any]]:
    """Return the values of each column over which a model was fitted, where there are several.

    A numeric column with many values has some of equal distance, on a logarithmic scale if it
    spans much.
    """
    found: dict[str, list[Any]] = {}
    for name in model.columns:
        if name in model.ranges:
            found[name] = model.levels.get(name) or _spaced(*model.ranges[name])
        else:
            found[name] = list(model.categories.get(name, (False, True)))
    return {name: levels for name, levels in found.items() if len(levels) > 1}


def _spaced(low: float, high: float) -> list[float]:
    if low == high:
        return [low]
    space = np.geomspace if low > 0 and high / low >= _LOG_RATIO else np.linspace
    values: list[float] = np.clip(space(low, high, _N_VALUES), low, high).tolist()
    return values


def model_shares(
    model: SavedModel,
    levels: Mapping[str, Sequence[Any]],
    fixed: Mapping[str, Any] | None = None,
    *,
    is_ratio: bool = True,
    seed: int = 0,
    with_pairs: bool = True,
) -> VarianceShares:
    """Divide the variance of predictions over levels of columns.

    Parameters
    ----------
    fixed
        The values of columns that are not varied; by default the middle one of their levels.
    is_ratio
        Whether predictions differ by factors, as times do; then it is the variance of their
        logarithm, if all are positive.
    """
    every = measured_levels(model)
    held = {name: values[len(values) // 2] for name, values in every.items()}
    held |= {name: model.ranges[name][0] for name in model.ranges if name not in held}
    held |= {n: levels[0] for n, levels in model.categories.items() if n not in held}
    held |= dict(fixed or {})

    def predict(taken: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        n = len(next(iter(taken.values())))
        columns = {
            name: taken[name] if name in taken else [held.get(name, False)] * n
            for name in model.columns
        }
        # Their names are those of the training, so that nothing may be renamed.
        rows = Configurations(pd.DataFrame(columns), "the measured values", model=model)
        predicted = model.predict(rows)
        return np.log(predicted) if is_ratio and (predicted > 0).all() else predicted

    n_points = N_POINTS if len(levels) <= _MANY_COLUMNS else N_POINTS // 4
    return shares_on_levels(predict, levels, n_points=n_points, seed=seed, with_pairs=with_pairs)


def column_shares(model: SavedModel, without_effect: Collection[str] = ()) -> dict[str, float]:
    """Return the share of each column of the table that has an effect, largest first."""
    levels = {n: v for n, v in measured_levels(model).items() if n not in without_effect}
    if not levels:
        return {}
    try:
        return model_shares(model, levels, with_pairs=False).by_input()
    except TooFarError:  # some combination of levels has no prediction
        return {}
