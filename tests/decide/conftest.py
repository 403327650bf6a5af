"""A model whose every answer is known: a law, and errors that follow a normal law in logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import strategies as st

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


PRICES = {"price_per_hour": 3.6, "nodes": "workers"}  # a thousandth per node and second
WORKERS = {"workers": {"from": 1, "to": 64}}


def z(p):
    return NormalDist().inv_cdf(p)


def chosen(plan):
    assert plan.chosen is not None
    return plan.chosen.configuration


@st.composite
def problems(draw):
    """A random law over three columns, with prices and limits."""
    scale, share, spread = (draw(st.floats(0.1, 10)) for _ in range(3))
    law = Law(
        law=lambda f: (
            scale * (5 + 100 / f["workers"] + share * f["workers"] + f["size"] / f["cpus"])
        ),
        spread=min(spread / 20, 0.4),
        ranges={"workers": (1.0, 40.0), "cpus": (1.0, 8.0), "size": (1.0, 9.0)},
    )  # fmt: skip
    asked = {
        "vary": {"workers": {"from": 1, "to": draw(st.integers(2, 40))}, "cpus": [1, 2, 4, 8],
                 "size": [3, 9]},
        "prices": {"price_per_hour": "1 + cpus / 2", "nodes": "workers", "power_w": 10},
        "minimize": draw(st.sampled_from(["time", "cost", "energy"])),
        "deadline": scale * draw(st.floats(10, 200)),
        "confidence": draw(st.sampled_from([0.5, 0.75, 0.9])),
    }  # fmt: skip
    if draw(st.booleans()):
        asked["budget"] = scale * draw(st.floats(0.05, 1))
    return law, asked
