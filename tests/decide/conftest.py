"""A model whose every answer is known: a law, and errors that follow a normal law in logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import pytest

from foretell.predictor import Forecast, Outlook, Quantiles


@dataclass(frozen=True)
class Law:
    """A predictor with a formula; ``spread`` is the deviation of its log errors."""

    target: str = "time_s"
    law: Callable = lambda f: 10 + 1000 / f["workers"]
    spread: float = 0.1
    ranges: dict = field(default_factory=lambda: {"workers": (1.0, 64.0)})
    categories: dict = field(default_factory=dict)
    reach: float = 2.0

    @property
    def columns(self):
        return [*self.ranges, *self.categories]

    @property
    def has_intervals(self):
        return not np.isnan(self.spread)

    def predict(self, frame):
        return np.asarray(self.law(frame), dtype=float)

    def outlook(self, frame, probabilities):
        value = self.predict(frame)
        factors = [np.exp(self.spread * NormalDist().inv_cdf(p)) for p in probabilities]
        quantiles = Quantiles(tuple(probabilities), np.outer(value, factors))
        return Outlook(value, quantiles, self._trust(frame))

    def _trust(self, frame):
        trust = np.full(len(frame), "inside", dtype=object)
        for name, (low, high) in self.ranges.items():
            ratio = np.maximum(frame[name] / high, low / frame[name])
            trust[(ratio > 1) & (trust != "far")] = "near"
            trust[ratio > self.reach] = "far"
        for name, levels in self.categories.items():
            trust[~frame[name].isin(levels)] = "unknown level"
        return trust

    def forecast(self, frame, interval=0.9):
        tail = (1 - interval) / 2
        outlook = self.outlook(frame, [tail, 1 - tail])
        trust = outlook.trust
        outside = ["" if t == "inside" else "workers: outside" for t in trust]
        error = np.full(len(frame), self.spread)
        return Forecast(
            outlook.value, *outlook.quantiles.values.T, outside, error, trust, {},
        )  # fmt: skip

    def outside(self, frame):
        return self.forecast(frame).outside


@pytest.fixture
def law():
    return Law()
