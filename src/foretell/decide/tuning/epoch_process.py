"""Epoch times from few rows: a Gaussian process of their logarithm that knows what it has not seen.

Hyperparameters act through lines and through a level of their own for each combination; settings
through a level for each value that starts from the prior of its knob, and that may depend on the
hyperparameters. What is asked is how two settings compare for the same hyperparameters: all that
they share cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Values = Mapping[str, float | str]

_Z90 = 1.6448536269514722
#: Standard deviations of the parts, in logarithms.
_LEVEL, _LINE, _OWN_LEVEL, _OWN_SETTING, _INTERACTION = 10.0, 2.0, 0.3, 0.06, 0.3
_WARM_UP, _WARM_UP_OF_SETTING, _SHARED, _SHARED_OF_SETTING = 0.15, 0.1, 0.3, 0.3
_LEAST_NOISE, _USUAL_NOISE = 0.02, 0.05
#: A setting is inside the data from so many rows on.
_LEAST_ROWS = 3


@dataclass(frozen=True)
class Epochs:
    """Epochs of one training under one setting: their mean logarithm, and how many they are.

    One that was disturbed may count as a part of an epoch.
    """

    hyper: Values
    system: Values
    log_s: float
    n: float = 1
    is_warm_up: bool = False
    is_shared: bool = False


@dataclass(frozen=True)
class Ratio:
    """How long epochs take under a setting, as a multiple of those under another."""

    low: float
    high: float
    is_inside: bool


#: The prior of a knob: 90 % interval of the ratio of epoch times between two of its values.
Prior = Mapping[tuple[str, float | str], tuple[float, float]]


class EpochProcess:
    """Compares settings by the epochs seen so far.

    Parameters
    ----------
    priors
        For each knob and value, the 90 % interval of epoch times against the knob's first value.

    >>> rows = [Epochs({"batch": 16}, {"threads": t}, math.log(s))
    ...         for t, s in ((1, 1.0), (2, 2.0), (1, 1.02), (2, 1.98), (1, 1.0), (2, 2.0))]
    >>> process = EpochProcess(rows, {("threads", 2): (0.5, 1.6)})
    >>> found = process.ratio({"batch": 16}, {"threads": 1}, than={"threads": 2})
    >>> round(math.sqrt(found.low * found.high), 1), found.is_inside
    (0.5, True)
    """

    def __init__(self, rows: Sequence[Epochs], priors: Prior) -> None:
        self._rows, self._priors = list(rows), priors
        self._scales = _scales([row.hyper for row in rows])
        noise = _noise(rows)
        cross = self._covariance(self._rows, self._rows)
        per_row = [noise**2 / row.n for row in self._rows]
        self._matrix = cross + np.diag(per_row) + 1e-8 * np.eye(len(self._rows))
        residual = np.array([row.log_s - self._mean(row) for row in self._rows])
        self._factor = _factor(self._matrix)
        self._weights = _solve(self._factor, residual)

    def ratio(
        self, hyper: Values, setting: Values, than: Values, *, is_shared: bool = False
    ) -> Ratio:
        """Compare two settings for the same hyperparameters, after the first epoch."""
        asked = [Epochs(hyper, s, 0.0, is_shared=is_shared) for s in (setting, than)]
        cross = self._covariance(asked, self._rows)
        own = self._covariance(asked, asked)
        mean = np.array([self._mean(row) for row in asked]) + cross @ self._weights
        if self._rows:
            half = np.linalg.solve(self._factor, cross.T)
            own = own - half.T @ half
        middle = float(mean[0] - mean[1])
        sd = math.sqrt(max(float(own[0, 0] + own[1, 1] - 2 * own[0, 1]), 1e-8))
        inside = all(self._is_inside(hyper, s, is_shared) for s in (setting, than))
        return Ratio(math.exp(middle - _Z90 * sd), math.exp(middle + _Z90 * sd), inside)

    def _is_inside(self, hyper: Values, setting: Values, is_shared: bool) -> bool:
        """Tell whether trainings like this one were measured under a setting."""
        like = [
            row.hyper
            for row in self._rows
            if dict(row.system) == dict(setting) and row.is_shared == is_shared
        ]
        return len(like) >= _LEAST_ROWS and all(
            _covers([h.get(name) for h in like], value) for name, value in hyper.items()
        )

    def _mean(self, row: Epochs) -> float:
        """Return what the priors of the knobs say."""
        return sum(_middle(self._priors.get(pair)) for pair in row.system.items())

    def _covariance(self, a: Sequence[Epochs], b: Sequence[Epochs]) -> Array:
        """Return how much each row of one list says about each row of another."""
        lines = self._lines(a) @ self._lines(b).T
        same_hyper, same_setting = _same(a, b, _hyper_key), _same(a, b, _setting_key)
        found = _LEVEL**2 + _LINE**2 * lines
        found += same_hyper * (_OWN_LEVEL**2 + same_setting * _OWN_SETTING**2)
        for pair, interval in self._priors.items():
            has_a, has_b = (np.array([r.system.get(pair[0]) == pair[1] for r in x]) for x in (a, b))
            found += np.outer(has_a, has_b) * (_spread(interval) ** 2 + _INTERACTION**2 * lines)
        warm = np.outer([r.is_warm_up for r in a], [r.is_warm_up for r in b])
        found += warm * (_WARM_UP**2 + same_setting * _WARM_UP_OF_SETTING**2)
        shared = np.outer([r.is_shared for r in a], [r.is_shared for r in b])
        found += shared * (_SHARED**2 + same_setting * _SHARED_OF_SETTING**2)
        return found

    def _lines(self, rows: Sequence[Epochs]) -> Array:
        """Return the hyperparameters of rows as numbers of about size one."""
        found = [[scale.of(row.hyper) for scale in self._scales] for row in rows]
        return np.array(found, dtype=float).reshape(len(rows), len(self._scales))


def _hyper_key(row: Epochs) -> object:
    return tuple(sorted(row.hyper.items()))


def _setting_key(row: Epochs) -> object:
    return tuple(sorted(row.system.items()))


def _same(a: Sequence[Epochs], b: Sequence[Epochs], key: Callable[[Epochs], object]) -> Array:
    """Return 1 where rows of two lists have the same key."""
    codes: dict[object, int] = {}
    first, second = ([codes.setdefault(key(r), len(codes)) for r in rows] for rows in (a, b))
    return np.equal.outer(first, second).astype(float)


@dataclass(frozen=True)
class _Scale:
    name: str
    is_log: bool
    mean: float
    sd: float

    def of(self, hyper: Values) -> float:
        value = hyper.get(self.name)
        if not isinstance(value, int | float) or (self.is_log and value <= 0):
            return 0.0
        return ((math.log(value) if self.is_log else float(value)) - self.mean) / self.sd


def _scales(hypers: Sequence[Values]) -> list[_Scale]:
    """Return how each numeric hyperparameter that varies is made a number of about size one."""
    found = []
    for name in sorted({name for hyper in hypers for name in hyper}):
        values = [hyper.get(name) for hyper in hypers]
        numbers = [float(v) for v in values if isinstance(v, int | float)]
        if len(numbers) < len(values) or min(numbers) == max(numbers):
            continue
        is_log = min(numbers) > 0
        used = np.log(numbers) if is_log else np.array(numbers)
        found.append(_Scale(name, is_log, float(used.mean()), float(used.std())))
    return found


def _covers(seen: Sequence[float | str | None], value: float | str) -> bool:
    """Tell whether a value is among those seen, or between them."""
    if isinstance(value, str):
        return value in seen
    numbers = [v for v in seen if isinstance(v, int | float)]
    return bool(numbers) and min(numbers) <= value <= max(numbers)


def _noise(rows: Sequence[Epochs]) -> float:
    """Return by how much equal epochs differ, in logarithms."""
    groups: dict[object, list[float]] = {}
    for row in rows:
        key = (*sorted(row.hyper.items()), "|", *sorted(row.system.items()), row.is_warm_up)
        groups.setdefault((key, row.is_shared), []).append(row.log_s)
    deviations = [v - np.mean(g) for g in groups.values() if len(g) > 1 for v in g]
    degrees = sum(len(g) - 1 for g in groups.values())
    if degrees < _LEAST_ROWS:
        return _USUAL_NOISE
    return max(_LEAST_NOISE, math.sqrt(sum(d * d for d in deviations) / degrees))


def _middle(interval: tuple[float, float] | None) -> float:
    return 0.5 * (math.log(interval[0]) + math.log(interval[1])) if interval else 0.0


def _spread(interval: tuple[float, float]) -> float:
    return math.log(interval[1] / interval[0]) / (2 * _Z90)


def _factor(matrix: Array) -> Array:
    return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64) if len(matrix) else matrix


def _solve(factor: Array, residual: Array) -> Array:
    if not len(residual):
        return residual
    found: Array = np.linalg.solve(factor.T, np.linalg.solve(factor, residual))
    return found
