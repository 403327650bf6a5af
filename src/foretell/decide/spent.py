"""What runs that were made have cost: their time, money or energy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretell.dataset import Dataset
from foretell.decide.assess import Figures, Known, match_models
from foretell.decide.prices import Prices, Tariff
from foretell.decide.space import Listed
from foretell.predictor import Predictor
from foretell.spaces.quantities import TIME


def spent(dataset: Dataset, predictors: Sequence[Predictor], prices: Prices, kind: str) -> float:
    """Return what all runs of a table took together, of one kind of quantity.

    A run that went wrong counts with its wall time: nobody knows more.
    """
    frame = dataset.frame
    known = {}
    for quantity, (predictor, unit) in match_models(predictors).items():
        values = frame[predictor.target].to_numpy(dtype=float) * unit
        if quantity == TIME and "wall_time_s" in frame:
            values = np.where(np.isfinite(values), values, frame["wall_time_s"])
        values = np.nan_to_num(values)
        known[quantity] = Known(values, values[:, None])
    bill = Tariff.of(prices, Listed(frame)).bill(frame)
    figures = Figures(frame, prices, known, bill, np.zeros(len(frame), dtype=bool))
    return float(np.nansum(figures.value(kind)))
