"""How far off predictions may be at several configurations at once, and what a run reveals.

The error of a prediction, in logs, is a field: as large at each configuration as the interval there
says, and correlated between configurations that are alike. A run reveals the error where it was
made, and part of the error elsewhere. What it reveals is computed as for a Gaussian field. Errors
are also drawn, because they are not Gaussian where laws disagree: one of two may be right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: The width of a 90 % interval of a Gaussian, in standard deviations.
_Z_90 = 2 * 1.6448536269514722
#: An interval includes the noise of runs; at least this share of its variance is the model's error.
_LEAST_SHARE = 0.25
_LEAST_VARIANCE = 1e-12
#: So many draws are kept after a run that was stopped, even if it was hardly expected.
_FEWEST_DRAWS = 20


def log_sizes(lower: Array, upper: Array, noise: float | Array) -> Array:
    """Return the standard deviation of a model's error, from the ends of its 90 % intervals."""
    total = (np.log(upper) - np.log(lower)) / _Z_90
    return np.sqrt(np.maximum(total**2 - noise**2, _LEAST_SHARE * total**2))


@dataclass
class ErrorField:
    """The errors at some configurations: their expected values and their covariance.

    Attributes
    ----------
    mean
        The expected error: by how much, in logs, runs take more than is predicted.
    drawn
        Possible errors next to the expected ones, a row per draw.
    noise
        How much runs of the same configuration differ, in logs.
    """

    mean: Array
    covariance: Array
    drawn: Array
    noise: float

    @classmethod
    def of(cls, sizes: Array, alike: Array, deviates: Array, noise: float) -> ErrorField:
        """Start from the standard deviations that the model gives, and what is alike.

        ``alike``: the correlations; ``deviates``: draws with these correlations and deviations
        of 1.
        """
        return cls(
            np.zeros(len(sizes)), alike * np.outer(sizes, sizes), deviates * sizes[None, :], noise
        )

    @property
    def variance(self) -> Array:
        """The variance of each error."""
        return np.maximum(np.diag(self.covariance), _LEAST_VARIANCE)

    def first(self, n: int) -> ErrorField:
        """Keep the first configurations."""
        return ErrorField(
            self.mean[:n], self.covariance[:n, :n].copy(), self.drawn[:, :n], self.noise
        )

    def see_runs(self, rows: NDArray[np.int64], n_runs: Array) -> None:
        """Account for runs that the model was fitted to, or will be, whatever their results."""
        if not len(rows):
            return
        inner = self.covariance[np.ix_(rows, rows)] + np.diag(self.noise**2 / n_runs)
        inner += np.eye(len(rows)) * (_LEAST_VARIANCE + 1e-9 * np.trace(inner) / len(rows))
        cross = self.covariance[:, rows]
        pull = np.linalg.solve(inner, cross.T)
        self.covariance = self.covariance - cross @ pull
        scatter = np.random.default_rng(rows).normal(size=(len(self.drawn), len(rows)))
        seen = self.drawn[:, rows] + scatter * self.noise / np.sqrt(n_runs)
        self.drawn = self.drawn - seen @ pull

    def see_at_least(self, row: int, log_error: float) -> None:
        """Account for a run that was stopped: its error is at least this large."""
        from scipy.stats import norm

        variance = float(self.variance[row] + self.noise**2)
        deviation = math.sqrt(variance)
        place = (log_error - float(self.mean[row])) / deviation
        hazard = math.exp(norm.logpdf(place) - norm.logsf(place))
        weights = self.covariance[:, row] / variance
        shrunk = hazard * (hazard - place)  # the share of the variance that is removed
        self.drawn = self._draws_of_at_least(row, log_error - float(self.mean[row]))
        self.mean = self.mean + weights * (deviation * hazard)
        self.covariance = self.covariance - np.outer(weights, weights) * variance * shrunk

    def _draws_of_at_least(self, row: int, error: float) -> Array:
        """Repeat the draws in which an error is large enough, or the nearest of all to that."""
        order = np.argsort(-self.drawn[:, row], kind="stable")
        n_kept = max(int((self.drawn[:, row] >= error).sum()), _FEWEST_DRAWS)
        kept = self.drawn[np.resize(order[:n_kept], len(self.drawn))]
        off: Array = kept - kept.mean(axis=0)  # next to what is expected
        return off

    def effect(self, row: int) -> Array:
        """Return how much all errors move if a run at a row is one standard deviation higher."""
        variance = float(self.variance[row] + self.noise**2)
        return self.covariance[:, row] / math.sqrt(variance)
