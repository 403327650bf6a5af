"""What runs say about configurations near them: a Gaussian process through the logs of results.

Distances count columns and totals, the products of two columns such as nodes × memory: a job may
fall off a cliff at a total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import as_numbers
from foretell.decide.advise.past_runs import PastRuns
from foretell.predictor import Predictor
from foretell.spaces.levels import trained_levels

Array = NDArray[np.float64]

#: With fewer configurations, nothing can be learned about the effect of each column; results then
#: have at least this deviation, in logs.
_FEWEST, _SIZE = 4, 0.5
#: With more numbers than this, their products do not count.
_MOST_MULTIPLIED = 6
#: With more coordinates than this, all share one length.
_MOST_LENGTHS = 24
#: The distance over which results become unlike, in measured ranges, and its bounds.
_LENGTH, _LENGTHS = 1.0, (0.15, 3.0)
#: How far apart levels of a category are along each of their coordinates. Before anything is
#: learned, two levels share half of an error.
_BETWEEN_LEVELS = 0.7
#: Of the variance, next to that of the results.
_SIZES = (1e-2, 1e2)
#: Lengths are learned from this many runs, and results of this many count.
_MOST_LEARNED, _MOST_RUNS = 100, 400
_LEAST_VARIANCE = 1e-9


@dataclass(frozen=True)
class Coordinates:
    """Where configurations are, in measured ranges.

    ``numbers``: by column, whether it counts in logs, where its measured range begins, and the
    width of it. Columns of true and false go from 0 to 1.
    """

    numbers: Mapping[str, tuple[bool, float, float]]
    categories: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, predictors: Sequence[Predictor]) -> Coordinates:
        """Take the ranges of models; if they differ, the widest."""
        ranges: dict[str, tuple[float, float]] = {}
        levels: dict[str, list[str]] = {}
        for predictor in predictors:
            for name, (low, high) in predictor.ranges.items():
                from_, to = ranges.get(name, (low, high))
                ranges[name] = (min(low, from_), max(high, to))
            for name, known in predictor.categories.items():
                levels[name] = list(dict.fromkeys([*levels.get(name, []), *known]))
        for name in (name for predictor in predictors for name in predictor.columns):
            if name not in levels:  # without a range, it is true or false
                ranges.setdefault(name, (0.0, 1.0))
        return cls({name: _scale(*ends) for name, ends in ranges.items()}, levels)

    def at(self, frame: pd.DataFrame) -> Array:
        """Return the coordinates of each row: numbers, totals, levels."""
        found, totals = [], []
        for name, (is_log, low, width) in self.numbers.items():
            values = as_numbers(frame[name])
            values = np.log(np.maximum(values, 1e-300)) if is_log else values
            found.append((values - low) / width)
            if is_log:
                totals.append((values - low, width))
        if len(totals) <= _MOST_MULTIPLIED:
            pairs = combinations(totals, 2)
            found += [(one + other) / (width + more) for (one, width), (other, more) in pairs]
        for name, levels in self.categories.items():
            written = trained_levels(frame[name], levels)
            found += [_BETWEEN_LEVELS * (written == level) for level in levels]
        return np.column_stack([np.zeros((len(frame), 0)), *found])


def _scale(low: float, high: float) -> tuple[bool, float, float]:
    if low > 0:
        return True, float(np.log(low)), float(np.log(high / low)) or 1.0
    return False, low, (high - low) or 1.0


@dataclass(frozen=True)
class Process:
    """A Gaussian process of the log of a target, given the runs that were made.

    Attributes
    ----------
    coordinates, regressor
        Where configurations are, and the process of the standardized logs there.
    center, size
        The mean of the logs, and the deviation by which they are divided.
    noise
        How much runs of the same configuration differ, in logs.
    """

    coordinates: Coordinates
    regressor: Any
    center: float
    size: float
    noise: float

    @classmethod
    def of(cls, coordinates: Coordinates, past: PastRuns, target: str, seed: int) -> Process:
        """Learn how fast results change along each column, then account for all runs."""
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern

        x = coordinates.at(past.measured)
        n_lengths = x.shape[1] if x.shape[1] <= _MOST_LENGTHS else 1
        kernel = ConstantKernel(1.0, _SIZES) * Matern(np.full(n_lengths, _LENGTH), _LENGTHS, nu=1.5)
        if not len(x):
            return cls(coordinates, GaussianProcessRegressor(kernel), 0.0, _SIZE, 0.0)
        logs, noise = past.log_means[target], past.noise[target]
        is_learned = len(x) >= _FEWEST
        center, size = float(logs.mean()), max(float(logs.std()), noise if is_learned else _SIZE)
        scaled, error = (logs - center) / size, (noise / size) ** 2 / past.n_runs
        order = np.random.default_rng([seed, 3]).permutation(len(x))[:_MOST_RUNS]
        if is_learned:
            rows = order[:_MOST_LEARNED]
            learned = GaussianProcessRegressor(
                kernel, alpha=error[rows], n_restarts_optimizer=1, random_state=seed
            )
            kernel = _fitted(learned, x[rows], scaled[rows]).kernel_
        regressor = GaussianProcessRegressor(kernel, alpha=error[order], optimizer=None)
        regressor.fit(x[order], scaled[order])
        return cls(coordinates, regressor, center, size, noise)

    @property
    def knows_runs(self) -> bool:
        """Whether there were any runs."""
        return hasattr(self.regressor, "X_train_")

    def at(self, frame: pd.DataFrame) -> tuple[Array, Array]:
        """Return the expected log of a run of each row, and its deviation."""
        mean, deviation = self.regressor.predict(self.coordinates.at(frame), return_std=True)
        return self.center + self.size * mean, np.hypot(self.size * deviation, self.noise)

    def alike(self, frame: pd.DataFrame) -> Array:
        """Return the correlation of what is not known yet about the rows of a table."""
        _, covariance = self.regressor.predict(self.coordinates.at(frame), return_cov=True)
        variance = np.maximum(np.diag(covariance), _LEAST_VARIANCE)
        covariance[np.diag_indices(len(frame))] = variance
        found: Array = covariance / np.sqrt(np.outer(variance, variance))
        return found


def _fitted(regressor: Any, x: Array, y: Array) -> Any:
    """Fit without a warning about a length at its bound, which is often right."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return regressor.fit(x, y)
