"""LogGP: a Gaussian process of the log target, with power laws as its trend."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np

from foretell.model.techniques._base import (
    Array,
    Hyperparameter,
    LogTechnique,
    Params,
    Regressor,
    State,
    TrainingRows,
)
from foretell.model.techniques._state import read_flag, read_number
from foretell.model.techniques._values import boolean, one_of
from foretell.model.techniques.points.axes import Axes
from foretell.model.techniques.points.merging import MergedRuns, merge, merge_robustly
from foretell.model.techniques.points.robust import log_band, read_log_band
from foretell.model.techniques.processes._process import MOST_KEPT, Points, Process, fit_process

Totals = tuple[tuple[int, int], ...]

#: A total must raise the log of the posterior by this much to become an axis.
_LEAST_GAIN = 1.0
_MOST_TOTALS = 2
_MOST_CANDIDATES = 21
_MOST_SEARCHED = 100  # configurations that choose among totals
_STEPS = {"totals": 20, "other form": 40, "same form": 8}
#: Shares: how often columns exchange their values in all, how many correlations that may take, and
#: how many values are predicted from at once.
_MOST_EXCHANGES, _MOST_WORK, _FEWEST_ROWS, _MOST_VALUES = 48, 50_000_000, 10, 1 << 20


@dataclass(frozen=True, eq=False)
class LogGPRegressor(Regressor):
    """A process and the bounds of its predictions.

    Attributes
    ----------
    noise
        Deviation of the log of one run; 0 where no repeats tell it.
    low, high
        The log predictions furthest from the data that are still made.
    is_flat
        Whether predictions outside the data stay constant.
    """

    process: Process
    shift: float
    noise: float
    low: float
    high: float
    is_flat: bool = False

    @property
    def totals(self) -> Totals:
        """The products of columns that became axes."""
        axes = self.process.axes
        pairs = zip(axes.first.tolist(), axes.second.tolist(), strict=True)
        return tuple((a, b) for a, b in pairs if b >= 0)

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        if self.is_flat:
            centers = self.process.x
            x = np.clip(x, centers.min(axis=0), centers.max(axis=0))
        log_y = self.process.predict(x) + self.shift
        return np.exp(np.clip(log_y, self.low, self.high))

    def limits(self) -> tuple[float, float]:
        """Return the ends of the band of predictions."""
        return float(np.exp(self.low)), float(np.exp(self.high))

    def importances(self) -> Array | None:
        """Return the share of each column: how much predictions move when rows exchange it."""
        return self._shares

    @cached_property
    def _shares(self) -> Array | None:
        process = self.process
        random = np.random.default_rng(0)
        x = process.x[np.lexsort(process.x.T)]  # so that the order of the rows does not matter
        per_row = len(x) * (process.axes.n_axes + 1)
        owners = self._owners()[: max(1, _MOST_WORK // (_FEWEST_ROWS * per_row))]
        n_exchanges = max(1, _MOST_EXCHANGES // max(1, len(owners)))
        work = max(1, n_exchanges * len(owners) * per_row)
        n_rows = int(np.clip(_MOST_WORK // work, _FEWEST_ROWS, len(x)))
        x = x[random.permutation(len(x))[:n_rows]]
        others = np.concatenate([random.permutation(len(x)) for _ in range(n_exchanges)])
        repeated, center = np.tile(x, (n_exchanges, 1)), np.tile(process.predict(x), n_exchanges)
        effect = np.zeros(process.axes.n_columns)
        at_once = max(1, _MOST_VALUES // repeated.size)
        for start in range(0, len(owners), at_once):
            some = [list(columns) for columns in owners[start : start + at_once]]
            moved = np.tile(repeated, (len(some), 1, 1))
            for i, own in enumerate(some):
                moved[i][:, own] = x[others][:, own]
            predicted = process.predict(moved.reshape(-1, x.shape[1])).reshape(len(some), -1)
            for own, change in zip(some, np.abs(predicted - center).mean(axis=1), strict=True):
                effect[own] = change / len(own)
        total = effect.sum()
        return effect / total if total > 0 else None

    def start(self) -> LogGPRegressor:
        """Return itself: its parameters suit a part of its rows as well."""
        return self

    def _owners(self) -> list[tuple[int, ...]]:
        """Return the columns that vary and the categories, by their prior variance."""
        axes, at = self.process.axes, self.process.kernel.slices
        variance = np.exp(2 * self.process.theta)
        size: dict[tuple[int, ...], float] = {}
        for column, of_axis in zip(
            axes.first.tolist(), variance[at["slope"]] + variance[at["bump"]], strict=True
        ):
            size[column,] = size.get((column,), 0.0) + of_axis
        size.update(zip(axes.groups, variance[at["level"]].tolist(), strict=True))
        return sorted(size, key=lambda owner: -size[owner])

    def to_state(self) -> State:
        """Return plain values and arrays."""
        state = self.process.to_state()
        bounds = {name: getattr(self, name) for name in ("shift", "noise", "low", "high")}
        return State({**state.values, **bounds, "is_flat": self.is_flat}, state.arrays)

    @classmethod
    def from_state(cls, state: State, n_features: int) -> LogGPRegressor:
        """Rebuild, or raise ValueError."""
        shift, noise = read_number(state, "shift"), read_number(state, "noise")
        process, band = Process.from_state(state, n_features), read_log_band(state)
        return cls(process, shift, noise, *band, is_flat=read_flag(state, "is_flat"))


class LogGPTechnique(LogTechnique):
    """Fit the most probable process to robustly merged runs."""

    name = "LogGP"
    regressor = LogGPRegressor
    hyperparameters = (
        Hyperparameter(
            "form",
            "smooth",
            one_of(("smooth", "rough", "sparse")),
            grid=("smooth", "rough"),
            prior="choice('smooth','rough','sparse')",
        ),
        Hyperparameter("totals", True, boolean),
        Hyperparameter("beyond", "trend", one_of(("trend", "flat"))),
    )

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> LogGPRegressor:
        """Weigh the runs, look for totals, and fit."""
        merged = merge_robustly(prepared, seed=seed)
        fitted = fit_merged(merged, seed=seed, with_totals=params["totals"])
        fitted = replace(fitted, is_flat=params["beyond"] == "flat")
        if params["form"] == "smooth":
            return fitted
        points = merged.points.sample(MOST_KEPT, seed)
        other = _refitted(_Refit(points, params["form"], fitted, seed))
        return replace(other, shift=merged.shift, is_flat=fitted.is_flat)

    def refit(
        self, rows: TrainingRows, params: Params, seed: int, start: Regressor | None
    ) -> Regressor:
        """Fit merged rows from the parameters of another process, without a shift."""
        if not isinstance(start, LogGPRegressor):
            return self.fit(rows, params, seed)
        points, _ = merge(rows)
        points = replace(points, noise=start.noise or None).sample(MOST_KEPT, seed)
        fitted = _refitted(_Refit(points, params["form"], start, seed))
        return replace(fitted, is_flat=params["beyond"] == "flat")


def fit_merged(merged: MergedRuns, *, seed: int, with_totals: bool = True) -> LogGPRegressor:
    """Fit to runs that are merged already; their last process is the start."""
    start = merged.fitted.process
    points = merged.points.sample(MOST_KEPT, seed)
    totals = find_totals(points, seed) if with_totals else ()
    process = start
    if totals:
        axes = Axes.of(points.x, points.groups, totals)
        fitted = fit_process(
            points, "smooth", axes=axes, start=start, most_steps=_STEPS["other form"], seed=seed
        )
        process = fitted.process
    return LogGPRegressor(process, merged.shift, points.noise or 0.0, *log_band(points.log_y))


@dataclass(frozen=True, eq=False)
class _Refit:
    """A process to fit again; two are equal if all that the fit depends on is."""

    points: Points
    form: str
    like: LogGPRegressor
    seed: int

    @cached_property
    def _content(self) -> tuple[Hashable, ...]:
        points, process = self.points, self.like.process
        words = self.form, self.seed, self.like.noise, points.groups, points.noise, process.form
        arrays = points.x, points.log_y, points.weight, process.theta
        axes = process.axes.first, process.axes.second
        contents = [(array.shape, array.tobytes()) for array in (*arrays, *axes)]
        return *words, process.axes.groups, *contents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Refit) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)


@lru_cache(maxsize=4)  # members that differ beyond the data alone are one process
def _refitted(wanted: _Refit) -> LogGPRegressor:
    points, like = wanted.points, wanted.like
    axes = Axes.of(points.x, points.groups, like.totals)
    # Another form from its own prior: the parameters of this one may be a dead end for it.
    start, steps = None, _STEPS["other form"]
    if like.process.form == wanted.form:
        start, steps = like.process, _STEPS["same form"]
    fitted = fit_process(
        points, wanted.form, axes=axes, start=start, most_steps=steps, seed=wanted.seed
    )
    return LogGPRegressor(fitted.process, 0.0, like.noise, *log_band(points.log_y))


def find_totals(points: Points, seed: int) -> Totals:
    """Find products of two columns, such as nodes × memory, that explain what columns do not."""
    points = points.sample(_MOST_SEARCHED, seed)
    candidates = _candidates(points)
    if not candidates:
        return ()
    best = fit_process(points, "smooth", seed=seed)
    chosen: Totals = ()
    while len(chosen) < _MOST_TOTALS:
        trials = [(*chosen, pair) for pair in candidates if pair not in chosen]
        fits = [
            fit_process(
                points,
                "smooth",
                axes=Axes.of(points.x, points.groups, totals),
                start=best.process,
                most_steps=_STEPS["totals"],
                seed=seed,
            )
            for totals in trials
        ]
        if not fits:
            break
        winner = min(range(len(fits)), key=lambda i: fits[i].cost)
        if best.cost - fits[winner].cost < _LEAST_GAIN:
            break
        best, chosen = fits[winner], trials[winner]
    return chosen


def _candidates(points: Points) -> Totals:
    """List pairs of positive columns whose product is not itself a column; none if too many."""
    axes = Axes.of(points.x, points.groups)
    columns = axes.first[axes.is_log & (axes.offset == 0)]
    logs = np.log(points.x[:, columns])
    logs = (logs - logs.mean(axis=0)) / logs.std(axis=0)
    found = []
    for a, b in combinations(range(len(columns)), 2):
        total = np.log(points.x[:, columns[a]]) + np.log(points.x[:, columns[b]])
        deviation = total.std()
        if deviation < 1e-9:
            continue
        alike = np.abs(logs.T @ ((total - total.mean()) / deviation)) / len(total)
        if (alike < 1 - 1e-6).all():
            found.append((int(columns[a]), int(columns[b])))
        if len(found) > _MOST_CANDIDATES:  # too many to try any: a wide table has thousands
            return ()
    return tuple(found)
