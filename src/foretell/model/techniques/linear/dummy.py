"""Dummy: the mean of the target, whatever the features; the bar that others must clear."""

from __future__ import annotations

import numpy as np

from foretell.model.techniques._base import Params, Regressor, Technique, TrainingRows
from foretell.model.techniques.linear._least_squares import LinearRegressor


class DummyTechnique(Technique):
    """Predict the mean."""

    name = "Dummy"
    regressor = LinearRegressor

    def merges_repeats(self, params: Params) -> bool:
        """A weighted mean of means is the mean."""
        return True

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> Regressor:
        """Take the mean of the runs."""
        mean = float(np.average(prepared.y, weights=prepared.weight))
        return LinearRegressor(np.zeros(prepared.x.shape[1]), mean)
