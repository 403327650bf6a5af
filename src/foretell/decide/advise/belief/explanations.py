"""What runs say about other configurations: an average over many explanations of their results.

An explanation is a law drawn from a prior, plus a remainder that follows the runs: a Gaussian
process. One has no law, and its remainder learns how fast results change along each column. Each
counts as much as it makes the results likely. Distances of remainders count columns and totals, the
products of two columns such as nodes × memory: a job may fall off a cliff at a total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.advise.belief.coordinates import Coordinates
from foretell.decide.advise.belief.drawn_laws import DrawnLaws, Places
from foretell.decide.advise.past_runs import PastRuns

Array = NDArray[np.float64]

#: With fewer configurations, nothing can be learned about the effect of each column.
_FEWEST = 4
#: With more coordinates than this, all share one length.
_MOST_LENGTHS = 24
#: The distance over which results become unlike, in measured ranges, and its bounds.
_LENGTH, _LENGTHS = 1.0, (0.15, 3.0)
#: Of the variance, next to that of the results.
_SIZES = (1e-2, 1e2)
#: Lengths are learned from this many runs, and results of this many count.
_MOST_LEARNED, _MOST_RUNS = 100, 400
_LEAST_VARIANCE = 1e-9
#: How many laws are drawn, and how many explanations stand for all after the runs were seen.
_N_LAWS, _N_KEPT = 8_000, 128
#: At least about so many explanations count: if only one of all that were drawn comes close to the
#: results, it is not right for that reason.
_LEAST_COUNTED = 8.0
_FINEST_STEP = 1e-3
#: Rows that are predicted at once.
_MOST_ROWS = 4_096
#: The deviation of the remainder of a law, in logs: laws are combined with each. And how far off
#: the level of a law may be, which is not drawn.
_REMAINDERS, _ANY_LEVEL = (0.05, 0.12, 0.3), 5.0
#: Over which distance the remainder of a law changes, in measured ranges.
_REMAINDER_LENGTH = 0.7


@dataclass(frozen=True)
class _Explanation:
    """Laws, or none, that share the covariance of their remainder; and where runs were made.

    Attributes
    ----------
    laws, weights
        The laws, and how much each counts of all explanations together; without laws, one weight.
    kernel
        The covariance of the remainder, in squared logs.
    x, factor, pull
        Where the runs are, the Cholesky factor of their covariance, and for each law, what its
        differences from the runs, multiplied by the inverse of that covariance, are.
    """

    laws: DrawnLaws | None
    weights: Array
    kernel: Any
    x: Array
    factor: Array
    pull: Array

    @classmethod
    def of_nothing(cls) -> _Explanation:
        """Return what holds before any run: configurations that are near are alike."""
        from sklearn.gaussian_process.kernels import Matern

        x = np.zeros((0, 0))
        kernel = 1.0 * Matern(_LENGTH, nu=1.5)
        return cls(None, np.ones(1), kernel, x, np.zeros((0, 0)), np.zeros((1, 0)))

    def at(self, x: Array, places: Places) -> tuple[Array, Array]:
        """Return the expected logs: a row per law; and how the runs restrict the remainder."""
        from scipy.linalg import solve_triangular

        if not len(self.x):
            return np.zeros((1, len(x))), np.zeros((0, len(x)))
        cross = self.kernel(self.x, x)
        means = self.pull @ cross
        if self.laws is not None:
            means += self.laws.at(places)
        return means, solve_triangular(self.factor, cross, lower=True, check_finite=False)


@dataclass(frozen=True)
class Process:
    """What is believed of the log of a target, given the runs that were made.

    Attributes
    ----------
    coordinates
        Where configurations are.
    center
        The mean of the logs of the results.
    noise
        How much runs of the same configuration differ, in logs.
    """

    coordinates: Coordinates
    explanations: Sequence[_Explanation]
    center: float
    noise: float

    @classmethod
    def of(cls, coordinates: Coordinates, past: PastRuns, target: str, seed: int) -> Process:
        """Draw laws, learn how fast results change along columns, and weigh both by the runs."""
        if not len(past.measured):
            return cls(coordinates, [_Explanation.of_nothing()], 0.0, past.noise[target])
        order = np.random.default_rng([seed, 3]).permutation(len(past.measured))[:_MOST_RUNS]
        made = past.measured.iloc[order]
        x, places = coordinates.at(made), coordinates.places(made)
        noise = past.noise[target]
        error = noise**2 / past.n_runs[order]
        logs = past.log_means[target][order]
        center = float(logs.mean())
        logs = logs - center
        n_levels = [len(levels) for levels in coordinates.categories.values()]
        n_shares = len(coordinates.numbers) - len(coordinates.halves)
        laws = DrawnLaws.draw(_N_LAWS, coordinates.halves, n_shares, n_levels, seed)
        drawn = laws.at(places)
        candidates = [
            _Candidate.of(_remainder(size), x, logs - drawn, error) for size in _REMAINDERS
        ]
        if len(x) >= _FEWEST:
            candidates.append(_learned(x, logs, error, noise, seed))
        return cls(coordinates, _kept(candidates, laws, x, seed), center, noise)

    @property
    def n_runs(self) -> int:
        """How many measured configurations this rests on."""
        return len(self.explanations[0].x)

    def at(self, frame: pd.DataFrame) -> tuple[Array, Array]:
        """Return the expected log of a run of each row, and its deviation."""
        if len(frame) > _MOST_ROWS:  # large arrays of laws × rows are slow
            starts = range(0, len(frame), _MOST_ROWS)
            parts = [self.at(frame.iloc[start : start + _MOST_ROWS]) for start in starts]
            return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        x, places = self.coordinates.at(frame), self.coordinates.places(frame)
        mean, square = np.zeros(len(frame)), np.zeros(len(frame))
        for explanation in self.explanations:
            means, known = explanation.at(x, places)
            variance = explanation.kernel.diag(x) - (known**2).sum(axis=0)
            mean += explanation.weights @ means
            square += explanation.weights @ means**2
            square += explanation.weights.sum() * np.maximum(variance, _LEAST_VARIANCE)
        variance = np.maximum(square - mean**2, _LEAST_VARIANCE)
        return self.center + mean, np.sqrt(variance + self.noise**2)

    def alike(self, frame: pd.DataFrame, n_draws: int, seed: int) -> tuple[Array, Array]:
        """Return the correlation of what is not known yet about the rows of a table, and draws.

        The draws have means of 0 and deviations of 1.
        """
        x, places = self.coordinates.at(frame), self.coordinates.places(frame)
        parts = [(e, *e.at(x, places)) for e in self.explanations]
        mean = sum(e.weights @ means for e, means, _ in parts)
        random, drawn = np.random.default_rng([seed, 4]), []
        covariance = np.zeros((len(frame), len(frame)))
        counts = random.multinomial(n_draws, [float(e.weights.sum()) for e in self.explanations])
        for n, (e, means, known) in zip(counts, parts, strict=True):
            off, remainder = means - mean, e.kernel(x) - known.T @ known
            covariance += (off.T * e.weights) @ off + e.weights.sum() * remainder
            if n == 0:
                continue
            which = random.choice(len(off), n, p=e.weights / e.weights.sum())
            drawn.append(off[which] + random.normal(size=(n, len(frame))) @ _root(remainder).T)
        variance = np.maximum(np.diag(covariance), _LEAST_VARIANCE)
        covariance[np.diag_indices(len(frame))] = variance
        size = np.sqrt(variance)
        return covariance / np.outer(size, size), random.permutation(np.concatenate(drawn)) / size


def _tempered(evidence: Array) -> Array:
    """Return weights by evidence, which counts less if only a few would have any weight."""
    power, step = 1.0, 0.5
    while step > _FINEST_STEP:
        weights: Array = np.exp(power * evidence)
        is_enough = weights.sum() ** 2 >= _LEAST_COUNTED * (weights**2).sum()
        if is_enough and power == 1.0:
            break
        power += step if is_enough else -step
        step /= 2
    return weights


def _root(covariance: Array) -> Array:
    """Return a matrix whose product with its transpose is a covariance."""
    variances, axes = np.linalg.eigh(covariance)
    root: Array = axes * np.sqrt(np.maximum(variances, 0.0))
    return root


@dataclass(frozen=True)
class _Candidate:
    """Explanations with one covariance, before it is known which of them count.

    ``evidence``: the log of how likely each law makes the results; ``off``: its differences from
    the results, divided by the factor of their covariance.
    """

    kernel: Any
    factor: Array
    off: Array
    evidence: Array

    @classmethod
    def of(cls, kernel: Any, x: Array, off: Array, error: Array) -> _Candidate:
        """Weigh laws by what they leave to the remainder; ``off``: a row per law."""
        from scipy.linalg import cholesky, solve_triangular

        covariance = kernel(x) + np.diag(error + _LEAST_VARIANCE)
        factor = cholesky(covariance, lower=True)
        scaled = solve_triangular(factor, off.T, lower=True)
        evidence = -0.5 * (scaled**2).sum(axis=0) - np.log(np.diag(factor)).sum()
        return cls(kernel, factor, scaled, evidence)


def _remainder(size: float) -> Any:
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    return ConstantKernel(_ANY_LEVEL**2) + size**2 * Matern(_REMAINDER_LENGTH, nu=1.5)


def _learned(x: Array, logs: Array, error: Array, noise: float, seed: int) -> _Candidate:
    """Learn how fast results change along each coordinate, without any law.

    What is learned fits the results for that reason alone, which the evidence makes up for.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    n_lengths = x.shape[1] if x.shape[1] <= _MOST_LENGTHS else 1
    kernel = ConstantKernel(1.0, _SIZES) * Matern(np.full(n_lengths, _LENGTH), _LENGTHS, nu=1.5)
    size = max(float(logs.std()), noise)
    rows = slice(_MOST_LEARNED)
    regressor = GaussianProcessRegressor(
        kernel, alpha=error[rows] / size**2, n_restarts_optimizer=1, random_state=seed
    )
    found = _fitted(regressor, x[rows], logs[rows] / size).kernel_
    candidate = _Candidate.of(size**2 * found, x, logs[None, :], error)
    price = 0.5 * (n_lengths + 1) * np.log(len(x))
    return replace(candidate, evidence=candidate.evidence - price)


def _kept(
    candidates: Sequence[_Candidate], laws: DrawnLaws, x: Array, seed: int
) -> list[_Explanation]:
    """Draw explanations by how likely they make the results."""
    from scipy.linalg import solve_triangular

    evidence = np.concatenate([candidate.evidence for candidate in candidates])
    likely = _tempered(evidence - evidence.max())
    places = (np.arange(_N_KEPT) + np.random.default_rng([seed, 6]).random()) / _N_KEPT
    drawn = np.searchsorted(np.cumsum(likely) / likely.sum(), places)
    found, first = [], 0
    for candidate in candidates:
        n = len(candidate.evidence)
        mine, counts = np.unique(drawn[(drawn >= first) & (drawn < first + n)], return_counts=True)
        mine, first = mine - first, first + n
        if not len(mine):
            continue
        pull = solve_triangular(candidate.factor, candidate.off[:, mine], lower=True, trans="T").T
        kept = laws.take(mine) if n > 1 else None
        found.append(
            _Explanation(kept, counts / _N_KEPT, candidate.kernel, x, candidate.factor, pull)
        )
    return found


def _fitted(regressor: Any, x: Array, y: Array) -> Any:
    """Fit without a warning about a length at its bound, which is often right."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return regressor.fit(x, y)
