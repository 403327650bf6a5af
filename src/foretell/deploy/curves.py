"""Curves of a deployment: batch times by size, and latency by rate."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foretell.deploy.answer import Deployment
from foretell.deploy.play import Player

Array = NDArray[np.float64]
_LOADS = (0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87, 0.93)


@dataclass(frozen=True, eq=False)
class LatencyCurve:
    """Mean and p99 against the rate of requests, for one largest batch."""

    batch: int
    per_s: Array
    mean_s: Array
    p99_s: Array


def latency_curve(found: Deployment, batch: int) -> LatencyCurve:
    """Play the chosen setting, or one with another batch size, at several rates."""
    setting = replace(found.setting, batch=batch, wait_s=found.setting.wait_s if batch > 1 else 0.0)
    times, question = found.measured.times, found.question
    player = Player(times, question.overhead_s, question.pause_s, found.seed)
    capacity = setting.replicas * times[setting.threads].per_s(batch, question.overhead_s)
    rates = capacity * np.array(_LOADS)
    played = [
        player(
            setting,
            replace(found.question.scenario, rate_per_s=float(rate)),
            sureness=0.0,
            is_rough=True,
        )
        for rate in rates
    ]
    return LatencyCurve(
        batch, rates, np.array([f.mean_s for f in played]), np.array([f.p99_s for f in played])
    )
