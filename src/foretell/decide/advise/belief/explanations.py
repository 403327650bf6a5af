"""What runs say about other configurations: an average over many explanations of their results.

An explanation is a law drawn from a prior, plus a remainder that follows the runs: a Gaussian
process. Or it is a process alone, with slopes and lengths drawn from a prior. Each counts as much
as it makes the results likely. Distances count columns and totals, the products of two columns such
as nodes × memory: a job may fall off a cliff at a total.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.advise.belief.coordinates import Coordinates
from foretell.decide.advise.belief.covariances import Covariance, same_places
from foretell.decide.advise.belief.drawn_laws import DrawnLaws, Places
from foretell.decide.advise.past_runs import PastRuns

Array = NDArray[np.float64]

#: Explanations are weighed by this many runs, and results of this many count.
_MOST_WEIGHED, _MOST_RUNS = 100, 400
_LEAST_VARIANCE = 1e-9
#: How many laws and how many processes are drawn, and how many of each stand for all after the runs
#: were seen.
_N_LAWS, _N_KEPT_LAWS = 32_000, 128
_N_PROCESSES, _N_KEPT_PROCESSES = 300, 16
#: Fewer are kept with many runs, which take long and leave less open, and if they hardly count;
#: fewer laws are drawn where categories have many levels.
_MOST_KEPT_RUNS, _LEAST_SHARE, _MOST_EFFECTS = 800, 1e-3, 8_000_000
#: At least about so many explanations count: if only one of all that were drawn comes close to the
#: results, it is not right for that reason.
_LEAST_COUNTED = 3.0
_FINEST_STEP = 1e-3
#: Rows that are predicted at once.
_MOST_ROWS = 4_096
#: The deviation of the remainder of a law, in logs: laws are combined with each. And over which
#: distance it changes, in measured ranges.
_REMAINDERS, _REMAINDER_LENGTH = (0.05, 0.1, 0.2), 0.7
#: How likely it is before the first run that results follow a process alone.
_NO_LAW = 0.05
#: Before any run: over which distance results become unlike.
_LENGTH = 1.0


@dataclass(frozen=True)
class _Runs:
    """The runs that explanations are about: where, the logs of results, and their variances."""

    x: Array
    places: Places
    logs: Array
    error: Array

    def first(self, n: int) -> _Runs:
        """Return the first of the runs."""
        return _Runs(self.x[:n], self.places.first(n), self.logs[:n], self.error[:n])

    @cached_property
    def _is_same(self) -> NDArray[np.bool_]:
        return same_places(self.x, self.x)

    def factor(self, covariance: Covariance) -> Array:
        """Return the Cholesky factor of the covariance of the results."""
        from scipy.linalg import cholesky

        between = covariance.between(self.x, self.x, self._is_same)
        between += np.diag(self.error + _LEAST_VARIANCE)
        factor: Array = cholesky(between, lower=True)
        return factor


@dataclass(frozen=True)
class _Explanation:
    """Laws, or none, that share the covariance of their remainder; and where runs were made.

    Attributes
    ----------
    laws, weights
        The laws, and how much each counts of all explanations together; without laws, one weight.
    covariance
        That of the remainder.
    runs
        The runs, from which the logs of laws differ.
    """

    laws: DrawnLaws | None
    weights: Array
    covariance: Covariance
    runs: _Runs

    @cached_property
    def _factor(self) -> Array:
        return self.runs.factor(self.covariance)

    @cached_property
    def _pull(self) -> Array:
        """The differences from the runs, multiplied by the inverse of their covariance.

        A row per law.
        """
        from scipy.linalg import cho_solve

        off = self.runs.logs[None, :]
        if self.laws is not None:
            off = off - self.laws.at(self.runs.places)
        pull: Array = cho_solve((self._factor, True), off.T).T
        return pull

    def at(self, x: Array, places: Places, is_same: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return the expected logs: a row per law; and how the runs restrict the remainder.

        ``is_same``: which of the runs were made at which of the places.
        """
        from scipy.linalg import solve_triangular

        if not len(self.runs.x):
            return np.zeros((1, len(x))), np.zeros((0, len(x)))
        cross = self.covariance.between(self.runs.x, x, is_same)
        means = self._pull @ cross
        if self.laws is not None:
            means += self.laws.at(places)
        return means, solve_triangular(self._factor, cross, lower=True, check_finite=False)


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
        """Draw laws and processes, and weigh them by the runs."""
        order = np.random.default_rng([seed, 3]).permutation(len(past.measured))[:_MOST_RUNS]
        made, noise = past.measured.iloc[order], past.noise[target]
        x, places = coordinates.at(made), coordinates.places(made)
        if not len(made):
            runs = _Runs(x, places, np.zeros(0), np.zeros(0))
            near = Covariance.of_nearness(_LENGTH, x.shape[1])
            return cls(coordinates, [_Explanation(None, np.ones(1), near, runs)], 0.0, noise)
        logs = past.log_means[target][order]
        center = float(logs.mean())
        runs = _Runs(x, places, logs - center, noise**2 / past.n_runs[order])
        n_levels = [len(levels) for levels in coordinates.categories.values()]
        n_shares = len(coordinates.numbers) - len(coordinates.halves)
        n_laws = min(_N_LAWS, max(_MOST_EFFECTS // (1 + sum(n_levels)), _N_KEPT_LAWS))
        laws = DrawnLaws.draw(n_laws, coordinates.halves, n_shares, n_levels, seed)
        return cls(coordinates, list(_explanations(laws, runs, seed)), center, noise)

    @property
    def n_runs(self) -> int:
        """How many measured configurations this rests on."""
        return len(self.runs.x)

    @property
    def runs(self) -> _Runs:
        """The runs that all explanations are about."""
        return self.explanations[0].runs

    def at(self, frame: pd.DataFrame) -> tuple[Array, Array]:
        """Return the expected log of a run of each row, and its deviation."""
        if len(frame) > _MOST_ROWS:  # large arrays of laws × rows are slow
            starts = range(0, len(frame), _MOST_ROWS)
            parts = [self.at(frame.iloc[start : start + _MOST_ROWS]) for start in starts]
            return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        x, places = self.coordinates.at(frame), self.coordinates.places(frame)
        mean, square = np.zeros(len(frame)), np.zeros(len(frame))
        is_same = same_places(self.runs.x, x)
        for explanation in self.explanations:
            means, known = explanation.at(x, places, is_same)
            variance = explanation.covariance.at(x) - (known**2).sum(axis=0)
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
        is_run, is_same = same_places(self.runs.x, x), same_places(x, x)
        parts = [(e, *e.at(x, places, is_run)) for e in self.explanations]
        mean = sum(e.weights @ means for e, means, _ in parts)
        random, drawn = np.random.default_rng([seed, 4]), []
        covariance = np.zeros((len(frame), len(frame)))
        counts = random.multinomial(n_draws, [float(e.weights.sum()) for e in self.explanations])
        for n, (e, means, known) in zip(counts, parts, strict=True):
            off, remainder = means - mean, e.covariance.between(x, x, is_same) - known.T @ known
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


def _explanations(laws: DrawnLaws, runs: _Runs, seed: int) -> Iterator[_Explanation]:
    """Draw explanations by how likely they make the results."""
    n_coordinates, few = runs.x.shape[1], runs.first(_MOST_WEIGHED)
    remainders = [
        Covariance.of_remainder(size, _REMAINDER_LENGTH, n_coordinates) for size in _REMAINDERS
    ]
    processes = list(Covariance.draw(_N_PROCESSES, n_coordinates, seed))
    off = few.logs - laws.at(few.places)
    by_laws = np.stack([_evidence(covariance, few, off) for covariance in remainders])
    by_none = np.concatenate(
        [_evidence(covariance, few, few.logs[None]) for covariance in processes]
    )
    evidence = np.concatenate([
        by_laws.ravel() + np.log((1 - _NO_LAW) / by_laws.size),
        by_none + np.log(_NO_LAW / by_none.size),
    ])  # fmt: skip
    likely = _tempered(evidence - evidence.max())
    likely /= likely.sum()
    random = np.random.default_rng([seed, 6])
    weights = _thinned(likely[: by_laws.size], _N_KEPT_LAWS, random).reshape(by_laws.shape)
    for covariance, weight in zip(remainders, weights, strict=True):
        if len(kept := np.flatnonzero(weight)):
            yield _Explanation(laws.take(kept), weight[kept], covariance, runs)
    share = likely[by_laws.size :].sum()
    if share < _LEAST_SHARE:
        return
    n_kept = min(_N_KEPT_PROCESSES * share, _MOST_KEPT_RUNS / len(runs.x))
    weights = _thinned(likely[by_laws.size :], int(np.ceil(n_kept)), random)
    for place in np.flatnonzero(weights):
        yield _Explanation(None, weights[[place]], processes[place], runs)


def _evidence(covariance: Covariance, runs: _Runs, off: Array) -> Array:
    """Return the log of how likely differences from the runs are, but for a constant."""
    from scipy.linalg import solve_triangular

    factor = runs.factor(covariance)
    scaled = solve_triangular(factor, off.T, lower=True)
    found: Array = -0.5 * (scaled**2).sum(axis=0) - np.log(np.diag(factor)).sum()
    return found


def _thinned(likely: Array, n: int, random: np.random.Generator) -> Array:
    """Keep some explanations, drawn by how likely they are; the sum of all weights stays."""
    total = likely.sum()
    if not total:
        return np.zeros_like(likely)
    places = (np.arange(n) + random.random()) / n
    drawn = np.searchsorted(np.cumsum(likely) / total, places).clip(max=len(likely) - 1)
    found: Array = np.bincount(drawn, minlength=len(likely)) * (total / n)
    return found
