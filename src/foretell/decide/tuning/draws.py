"""How values of trials go along with their times, drawn before a search and learnt during it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: How strongly values may go along with times: the standard deviation of Fisher's z.
_LIKELY_Z = 0.4


@dataclass(frozen=True)
class Along:
    """How values of trials go along with their times: slow ones may be the better ones, or not.

    Which trials go on to later rungs decides what those take. Nobody knows it before, so that each
    draw has another rank correlation; while a search runs, it is learnt.
    """

    mean_z: float = 0.0
    deviation: float = _LIKELY_Z

    def learn(self, log_times: Array, values: Array) -> Along:
        """Learn from trials that were compared at the same rung."""
        n = len(values)
        if n < 5 or np.ptp(values) == 0 or np.ptp(log_times) == 0:
            return self
        r = float(np.corrcoef(_ranks(log_times), _ranks(values))[0, 1])
        z, weight = float(np.arctanh(np.clip(r, -0.98, 0.98))), float(n - 3)
        known = 1 / self.deviation**2
        mean = (known * self.mean_z + weight * z) / (known + weight)
        return Along(float(mean), float((known + weight) ** -0.5))

    def draw(self, log_times: Array, random: np.random.Generator) -> Array:
        """Draw a value for each trial."""
        r = np.tanh(self.mean_z + self.deviation * random.standard_normal())
        spread = float(log_times.std())
        scores = (log_times - log_times.mean()) / spread if spread > 0 else np.zeros(len(log_times))
        noise = random.standard_normal(len(log_times))
        found: Array = r * scores + np.sqrt(1 - r**2) * noise
        return found


def _ranks(values: Array) -> Array:
    return np.argsort(np.argsort(values)).astype(float)
