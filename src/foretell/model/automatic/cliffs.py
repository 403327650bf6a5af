"""Cliffs: settings at which the target changes at once, such as data that exceed all memory.

No smooth model has a cliff, and few runs lie near one. But a cliff is one number: the value of a
column, or of a product or ratio of columns such as nodes × memory, from which on the target differs
by a factor. Each candidate becomes a column of zeros and ones. The few that a trend misses most are
added to a process, and kept if the measured times become far more likely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from foretell.model.features.feature import Factor, Feature
from foretell.model.features.feature_map import FeatureMap
from foretell.model.techniques.points.axes import Axes
from foretell.model.techniques.points.robust import MOST_LOG
from foretell.model.techniques.processes._process import Fitted, Points, fit_process
from foretell.model.techniques.processes.log_gp import LogGPRegressor, Totals

_MOST_CLIFFS = 2
_MOST_SEARCHED = 120  # configurations that choose among candidates
#: Configurations on each side of a cliff: fewer may be outliers.
FEWEST_BEYOND = 3
#: With more columns, products of three are not tried, or only single columns.
_MOST_MULTIPLIED, _MOST_OF_THREE = 8, 5
_MOST_VALUES = 40  # of one product that thresholds are tried between
#: By how much the log of the evidence must grow, beyond what the number of candidates explains:
#: one table in fifty has a cliff.
_LEAST_GAIN = 4.0
#: A trend must miss a candidate by so much for it to be tried in a process.
_LEAST_MISSED = 1.0
_TRIED = 4
_STEPS = 25
_PENALTY = 1e-3  # of the trend, per configuration
_DIGITS = 9


@dataclass(frozen=True, eq=False)
class Cliff:
    """A product of columns with powers of 1 or -1, and the value from which on the target differs.

    ``is_beyond`` says which of the configurations searched reach the threshold.
    """

    powers: tuple[tuple[int, int], ...]
    threshold: float
    is_beyond: NDArray[np.bool_]

    def feature(self, columns: FeatureMap) -> Feature:
        """Return the column of zeros and ones as a feature of the table."""
        names = {column: columns.features[column].name for column, _ in self.powers}
        factors = [
            Factor(names[column], ("inverse",) if power < 0 else ())
            for column, power in self.powers
        ]
        return Feature(
            f"[{self.text(names)} ≥ {self.threshold:.4g}]",
            tuple(factors),
            is_numeric=False,
            threshold=self.threshold,
        )

    def text(self, names: dict[int, str]) -> str:
        """Return the product in words, such as ``nodes × memory_gb``."""
        above = [names[column] for column, power in self.powers if power > 0]
        below = [names[column] for column, power in self.powers if power < 0]
        return " / ".join([" × ".join(above), *below])


def find_cliffs(points: Points, log_gp: LogGPRegressor, seed: int) -> list[Cliff]:
    """Find the cliffs that make the measured times far more likely."""
    points = points.sample(_MOST_SEARCHED, seed)
    candidates = _candidates(points)
    least_gain = _LEAST_GAIN + np.log(max(1, len(candidates)))
    best = fit_process(points, "smooth", axes=_axes(points, log_gp.totals), seed=seed)
    chosen: list[Cliff] = []
    while len(chosen) < _MOST_CLIFFS:
        trials = {
            cliff: _fitted([*chosen, cliff], points, log_gp.totals, best, seed)
            for cliff in _most_missed(points, chosen, candidates)
        }
        winner = min(trials, key=lambda cliff: trials[cliff].cost, default=None)
        if winner is None or best.cost - trials[winner].cost < least_gain:
            break
        best = trials[winner]
        chosen.append(winner)
    return chosen


def _axes(points: Points, totals: Totals) -> Axes:
    return Axes.of(points.x, points.groups, totals)


def _fitted(
    cliffs: Sequence[Cliff], points: Points, totals: Totals, start: Fitted, seed: int
) -> Fitted:
    more = np.column_stack([cliff.is_beyond for cliff in cliffs])
    extended = replace(points, x=np.column_stack([points.x, more]))
    return fit_process(
        extended,
        "smooth",
        axes=_axes(extended, totals),
        start=start.process,
        most_steps=_STEPS,
        seed=seed,
    )


def _candidates(points: Points) -> list[Cliff]:
    """List the thresholds between values of columns and products; of equal ones the simplest."""
    found: dict[bytes, Cliff] = {}
    for powers in _products(points):
        value = np.zeros(len(points))
        for column, power in powers:
            value += power * np.log(points.x[:, column])
        levels = np.unique(np.round(value, _DIGITS))
        thresholds = (levels[:-1] + levels[1:]) / 2
        if len(thresholds) > _MOST_VALUES:
            thresholds = thresholds[np.linspace(0, len(thresholds) - 1, _MOST_VALUES).astype(int)]
        for threshold in thresholds[np.abs(thresholds) < MOST_LOG]:
            is_beyond = value >= threshold
            if FEWEST_BEYOND <= is_beyond.sum() <= len(value) - FEWEST_BEYOND:
                cliff = Cliff(powers, float(np.exp(threshold)), is_beyond)
                found.setdefault(is_beyond.tobytes(), cliff)
    return list(found.values())


def _products(points: Points) -> Iterator[tuple[tuple[int, int], ...]]:
    """List columns, then products and ratios of two, then of three."""
    axes = Axes.of(points.x, points.groups)
    columns = axes.first[axes.is_log & (axes.offset == 0)].tolist()
    for column in columns:
        yield ((column, 1),)
    if len(columns) > _MOST_MULTIPLIED:
        return
    for a, b in combinations(columns, 2):
        yield (a, 1), (b, 1)
        yield (a, 1), (b, -1)
    if len(columns) > _MOST_OF_THREE:
        return
    for a, b, c in combinations(columns, 3):
        yield (a, 1), (b, 1), (c, 1)
        for divisor in (a, b, c):
            others = [(column, 1) for column in (a, b, c) if column != divisor]
            yield *others, (divisor, -1)


def _most_missed(points: Points, chosen: list[Cliff], candidates: list[Cliff]) -> list[Cliff]:
    """Return the candidates that a trend of all columns misses most."""
    if not candidates:
        return []
    axes = Axes.of(points.x, points.groups)
    z = axes.coordinates(points.x)
    levels = [points.x[:, list(group)] != 0 for group in axes.groups]
    known = [cliff.is_beyond[:, None] for cliff in chosen]
    trend = np.column_stack([np.ones(len(z)), z, axes.curves(z), *levels, *known]).astype(float)
    root = np.sqrt(points.weight / points.weight.mean())
    trend *= root[:, None]
    values = points.log_y * root
    penalty = np.full(trend.shape[1], _PENALTY * len(z))
    penalty[0] = 0.0
    normal = trend.T @ trend + np.diag(penalty + 1e-9)
    steps = np.column_stack([cliff.is_beyond for cliff in candidates]) * root[:, None]
    left = steps - trend @ np.linalg.solve(normal, trend.T @ steps)
    residual = values - trend @ np.linalg.solve(normal, trend.T @ values)
    rest = float(residual @ residual)
    explained = (values @ left) ** 2 / np.maximum(np.einsum("ij,ij->j", steps, left), 1e-9)
    missed = -len(z) / 2 * np.log1p(-np.minimum(explained / max(rest, 1e-300), 0.999))
    order = np.argsort(-missed, kind="stable")[:_TRIED]
    return [candidates[i] for i in order if missed[i] > _LEAST_MISSED]
