"""Epoch times that are known: by a law, with a spread that tests choose."""

import numpy as np
from scipy.special import ndtri


class KnownTimes:
    """Seconds grow with the width and shrink with the batch size, and with threads if asked to."""

    def __init__(self, spread=0.02, columns=("width", "batch_size"), per_thread=1.0):
        self.spread, self.columns, self.per_thread = spread, list(columns), per_thread

    def mean_s(self, frame):
        seconds = frame["width"] / 10 * 16 / frame["batch_size"]
        if "threads" in self.columns:
            seconds = seconds / (1 + self.per_thread * (frame["threads"] - 1))
        return seconds.to_numpy(float)

    def quantiles(self, frame, probabilities):
        means = self.mean_s(frame)[:, None]
        return means * np.exp(self.spread * ndtri(np.array(probabilities)))[None, :]


SPACE = {
    "hyperparameters": {
        "width": [10, 20, 30],
        "batch_size": [16, 160],
        "lr": {"from": 0.001, "to": 0.1, "spacing": "log"},
    }
}
#: The mean of all six combinations.
MEAN_S = (10 + 20 + 30) / 3 / 10 * (1 + 0.1) / 2
