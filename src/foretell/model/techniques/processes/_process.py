"""A Gaussian process of log times: fitted by its most probable parameters, saved as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.model.techniques._base import Array, State, TrainingRows
from foretell.model.techniques._state import read_array, read_number, read_word
from foretell.model.techniques.points.axes import Axes, Groups
from foretell.model.techniques.processes._expected import Expected
from foretell.model.techniques.processes._kernel import (
    _CONSTANT,
    FORMS,
    Coordinates,
    Kernel,
    Prior,
    Training,
)

#: Configurations that choose the parameters, and that the posterior rests on.
MOST_OPTIMIZED = 250
MOST_KEPT = 500
_FEW_AXES, _LEAST_OPTIMIZED = 10, 60
_SPREADS = 5.0  # how far from its prior a parameter may go
_JITTERS = (1e-10, 1e-8, 1e-6, 1e-4)  # noise added to a spoiled covariance, as a share of it
_NOISE_SPREAD = 0.4  # of the prior of the noise, when repeats tell it


@dataclass(frozen=True, eq=False)
class Points:
    """Measured configurations: the log of the target, how many runs each stands for, and noise.

    ``noise`` is the standard deviation of the log of one run, where repeats tell it.
    """

    x: Array
    log_y: Array
    weight: Array
    groups: Groups = ()
    noise: float | None = None

    def __len__(self) -> int:
        return len(self.log_y)

    def take(self, rows: NDArray[Any]) -> Points:
        """Return some of the points."""
        return replace(self, x=self.x[rows], log_y=self.log_y[rows], weight=self.weight[rows])

    def draw(self, most: int, seed: int) -> NDArray[np.int64]:
        """Draw at most this many points at random, and return their positions in order."""
        if len(self) <= most:
            return np.arange(len(self))
        return np.sort(np.random.default_rng(seed).permutation(len(self))[:most])

    def sample(self, most: int, seed: int) -> Points:
        """Draw at most this many points at random."""
        return self if len(self) <= most else self.take(self.draw(most, seed))

    def joined(self, more: Points | None) -> Points:
        """Return these points with further ones below them."""
        if more is None or not len(more):
            return self
        return replace(
            self,
            x=np.concatenate([self.x, more.x]),
            log_y=np.concatenate([self.log_y, more.log_y]),
            weight=np.concatenate([self.weight, more.weight]),
        )

    def as_rows(self) -> TrainingRows:
        """Return the points as rows, each of which stands for as many runs as its weight says."""
        return TrainingRows(self.x, np.exp(self.log_y), self.weight, self.groups)


@dataclass(frozen=True, eq=False)
class _Trend:
    """The expected trend: a quadratic function of its features.

    Attributes
    ----------
    centers, weight
        Products of two features are summed over centers, each the square of a linear function.
    own_pairs, own
        What those squares contain of products within one axis, which do not interact.
    mixed
        All of that as one matrix, where it has fewer entries than the centers have.
    """

    constant: float
    linear: Array
    centers: Array
    weight: Array
    own_pairs: tuple[NDArray[np.int64], NDArray[np.int64]]
    own: Array

    @classmethod
    def of(cls, kernel: Kernel, theta: Array, features: Array, alpha: Array) -> _Trend:
        """Sum up the trend of all centers, given their weights."""
        variances = kernel.variances(theta)
        centers, weight = features * variances, 0.5 * kernel.pair_variance(theta) * alpha
        first, second = kernel.own_pairs
        own = weight @ (centers[:, first] * centers[:, second]) * kernel.own_counts
        constant = _CONSTANT * float(alpha.sum())
        return cls(
            constant, variances * (features.T @ alpha), centers, weight, (first, second), own
        )

    @cached_property
    def mixed(self) -> Array | None:
        if len(self.centers) < len(self.linear):  # the matrix of a wide table would be huge
            return None
        mixed: Array = (self.centers.T * self.weight) @ self.centers
        first, second = self.own_pairs
        half = np.where(first == second, 1.0, 0.5) * self.own
        np.subtract.at(mixed, (first, second), half)
        np.subtract.at(mixed, (second, first), np.where(first == second, 0.0, half))
        return mixed

    def at(self, features: Array) -> Array:
        """Return the trend of each row."""
        if self.mixed is not None:
            pairs = np.einsum("nf,nf->n", features @ self.mixed, features)
        else:
            first, second = self.own_pairs
            pairs = (features @ self.centers.T) ** 2 @ self.weight
            pairs -= (features[:, first] * features[:, second]) @ self.own
        trend: Array = self.constant + features @ self.linear + pairs
        return trend


@dataclass(frozen=True, eq=False)
class Process:
    """A fitted process.

    Attributes
    ----------
    theta
        Log parameters of the covariance.
    x, alpha
        The configurations it rests on, and their weights in a prediction.
    mean, deviation
        Of the log target; the process itself has mean 0 and deviation 1.
    """

    form: str
    axes: Axes
    theta: Array
    x: Array
    alpha: Array
    mean: float
    deviation: float

    @cached_property
    def kernel(self) -> Kernel:
        """The covariance."""
        return Kernel(self.axes, FORMS[self.form])

    @property
    def unexplained(self) -> float:
        """The deviation of the log of one run from what the process can explain."""
        parts = [self.theta[self.kernel.slices[kind]][0] for kind in ("noise", "nugget")]
        return self.deviation * float(np.sqrt(np.exp(2 * np.array(parts)).sum()))

    @cached_property
    def _rows(self) -> Coordinates:
        return self.kernel.coordinates(self.x)

    @cached_property
    def _processes(self) -> Expected:
        return Expected(self.kernel, self.theta, self._rows, self.alpha)

    @cached_property
    def _trend(self) -> _Trend:
        return _Trend.of(self.kernel, self.theta, self._rows.trend, self.alpha)

    def predict(self, x: Array) -> Array:
        """Return the expected log target of each row."""
        rows = self.kernel.coordinates(x)
        expected: Array = self._trend.at(rows.trend) + self._processes.at(rows)
        return expected * self.deviation + self.mean

    def to_state(self) -> State:
        """Return plain values and arrays."""
        state = self.axes.to_state()
        values = {"form": self.form, "mean": self.mean, "deviation": self.deviation}
        return State(
            values, {**state.arrays, "theta": self.theta, "x": self.x, "alpha": self.alpha}
        )

    @classmethod
    def from_state(cls, state: State, n_columns: int) -> Process:
        """Rebuild, or raise ValueError."""
        axes = Axes.from_state(state, n_columns)
        form = read_word(state, "form", tuple(FORMS))
        alpha = read_array(state, "alpha", shape=(None,))
        x = read_array(state, "x", shape=(len(alpha), n_columns))
        n_parameters = len(Kernel(axes, FORMS[form]).median)
        theta = read_array(state, "theta", shape=(n_parameters,))
        if np.abs(theta).max(initial=0.0) > 100:
            raise ValueError("a parameter is out of all bounds")
        mean, deviation = read_number(state, "mean"), read_number(state, "deviation")
        return cls(form, axes, theta, x, alpha, mean, deviation)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A process with what only its fit knows.

    ``left_out`` predicts each point it rests on from all the others; ``cost`` is the negative log
    of the posterior of its parameters.
    """

    process: Process
    left_out: Array
    cost: float


def fit_process(
    points: Points,
    form: str,
    *,
    axes: Axes | None = None,
    start: Process | None = None,
    most_steps: int = 60,
    seed: int = 0,
) -> Fitted:
    """Fit by maximizing the posterior of the parameters, from the prior or from another fit.

    ``points``: at most MOST_KEPT of them; MOST_OPTIMIZED, drawn at random, choose the parameters.
    """
    axes = axes or Axes.of(points.x, points.groups)
    mean, deviation = float(points.log_y.mean()), float(points.log_y.std()) or 1.0
    noise = None if points.noise is None else Prior(points.noise / deviation, _NOISE_SPREAD)
    kernel = Kernel(axes, FORMS[form], noise)
    values = (points.log_y - mean) / deviation
    theta = kernel.median.copy() if start is None else _carried_over(start, kernel)
    # Fewer with many axes, for the time it takes.
    crowding = max(1.0, (axes.n_axes + len(axes.groups)) / _FEW_AXES)
    chosen = points.sample(max(_LEAST_OPTIMIZED, int(MOST_OPTIMIZED / np.sqrt(crowding))), seed)
    training = Training(kernel, kernel.coordinates(chosen.x), chosen.weight)
    theta, cost = _optimize(training, (chosen.log_y - mean) / deviation, theta, most_steps)
    if len(chosen) < len(points):
        training = Training(kernel, kernel.coordinates(points.x), points.weight)
    alpha, left_out = _posterior(training, values, theta)
    process = Process(form, axes, theta, points.x, alpha, mean, deviation)
    return Fitted(process, left_out * deviation + mean, cost)


def _carried_over(start: Process, kernel: Kernel) -> Array:
    """Take the parameters of another fit for the axes and categories that both have."""
    theta: Array = kernel.median.copy()
    mine, theirs = _parameter_names(kernel), _parameter_names(start.kernel)
    known = dict(zip(theirs, start.theta, strict=True))
    bound = _SPREADS * kernel.spread
    for i, name in enumerate(mine):
        if name in known:
            theta[i] = np.clip(known[name], theta[i] - bound[i], theta[i] + bound[i])
    return theta


def _parameter_names(kernel: Kernel) -> list[tuple[Any, ...]]:
    axes = kernel.axes
    columns = list(zip(axes.first.tolist(), axes.second.tolist(), strict=True))
    owners: dict[str, list[Any]] = {
        "slope": columns, "curve": [columns[j] for j in kernel.curved], "level": list(axes.groups),
        "bump": columns, "length": columns, "reach": list(axes.groups),
    }  # fmt: skip
    return [
        (kind, owners[kind][i] if kind in owners else i)
        for kind, part in kernel.slices.items()
        for i in range(part.stop - part.start)
    ]


def _optimize(
    training: Training, values: Array, theta: Array, most_steps: int
) -> tuple[Array, float]:
    from scipy.optimize import Bounds, minimize

    kernel = training.kernel
    bounds = Bounds(
        kernel.median - _SPREADS * kernel.spread, kernel.median + _SPREADS * kernel.spread
    )
    found = minimize(  # type: ignore[call-overload]  # the stubs know no such options
        lambda at: _cost(training, values, at),
        theta,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": most_steps, "ftol": 1e-5},
    )
    return np.asarray(found.x, dtype=float), float(found.fun)


def _cost(training: Training, values: Array, theta: Array) -> tuple[float, Array]:
    """Return the negative log posterior of the parameters, up to a constant, and its gradient."""
    from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

    kernel = training.kernel
    covariance, parts = training.covariance(theta)
    factor, fault = dpotrf(covariance, lower=1, clean=0)
    if fault:
        return 1e10, np.zeros(len(theta))
    alpha = dpotrs(factor, values, lower=1)[0]
    away = (theta - kernel.median) / kernel.spread
    cost = 0.5 * (values @ alpha + away @ away) + np.log(np.diagonal(factor)).sum()
    half = dpotri(factor, lower=1)[0]
    inverse = np.where(training.is_lower, half, half.T)
    outer = 0.5 * (inverse - np.outer(alpha, alpha))
    gradient = training.gradient(theta, parts, outer) + away / kernel.spread
    if not math.isfinite(cost):
        return 1e10, np.zeros(len(theta))
    return float(cost), gradient


def _posterior(training: Training, values: Array, theta: Array) -> tuple[Array, Array]:
    """Return the weights of the points, and each value predicted from all others."""
    from scipy.linalg import cho_solve

    covariance, _ = training.covariance(theta)
    factor = _factor(covariance)
    alpha: Array = cho_solve(factor, values, check_finite=False)
    precision = np.diagonal(cho_solve(factor, np.eye(len(values)), check_finite=False))
    return alpha, values - alpha / precision


def _factor(covariance: Array) -> tuple[Array, bool]:
    """Factorize a covariance; one that rounding has spoiled gets more noise until it works."""
    from scipy.linalg import cho_factor

    scale = float(np.diagonal(covariance).mean())
    for share in (0.0, *_JITTERS):
        try:
            jittered = covariance + share * scale * np.eye(len(covariance))
            factor: tuple[Array, bool] = cho_factor(jittered, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            continue
        return factor
    raise ValueError("the measured values leave no covariance to compute with")
