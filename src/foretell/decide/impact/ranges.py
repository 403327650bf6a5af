"""Ranges: by how much a setting alone changes a result, and whether that is more than noise.

A context is all runs that are equal in every other setting. The range of a setting in it is the
distance from the worst to the best of its levels, each the median of repeats, relative to the
larger one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.decide.impact.question import Outcome
from foretell.decide.impact.runs import NOTHING, Runs

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

HIGH, MEDIUM, LOW, NOISE = "high", "medium", "low", "within noise"
LEVELS = (HIGH, MEDIUM, LOW, NOISE)
MEASURED, MODELLED = "measured", "modelled"
_N_DRAWS, _MOST_DRAWN = 400, 1_000_000
#: The ends of the interval of a range, and the chance with which an effect is taken for none.
_ENDS, _NOISE_END = (0.05, 0.95), 0.95
#: How far effects are stretched in search of the upper end, and in how many steps.
_MOST_STRETCHED, _N_STEPS = 2.0, 9
_DOUBT_END = 0.975


@dataclass(frozen=True)
class SettingImpact:
    """How much one setting changes one result, over some contexts.

    Attributes
    ----------
    median, largest
        The ranges over all contexts; ``at`` is the context of the largest.
    lower, upper
        The ends of a 90 % interval of the median; NaN if noise is not known.
    level
        high, medium or low, if the lower end passes that level; otherwise within noise.
    noise_from
        What the interval rests on: ``repeats``; ``contexts``, where nothing was repeated;
        ``model``, for predictions; ``nothing``, with one context and no repeats.
    label
        ``measured`` or ``modelled``.
    n_left_out
        How many more contexts have no range, because all their values are 0 or below.
    """

    median: float
    largest: float
    lower: float
    upper: float
    level: str
    n_contexts: int
    noise_from: str
    label: str = MEASURED
    at: Mapping[str, Any] | None = None
    n_left_out: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values; null is not known."""
        ends = {name: getattr(self, name) for name in ("lower", "upper")}
        return {
            "level": self.level,
            "median_range": self.median,
            "largest_range": self.largest,
            "largest_at": dict(self.at or {}),
            **{name: value if np.isfinite(value) else None for name, value in ends.items()},
            "n_contexts": self.n_contexts,
            "n_left_out": self.n_left_out,
            "noise_from": self.noise_from,
            "label": self.label,
        }


def level_of(lower: float, outcome: Outcome) -> str:
    """Return the level that the lower end of a range passes.

    >>> level_of(0.15, Outcome("time_s", True, 0.2, 0.1))
    'medium'
    """
    if lower > outcome.high:
        return HIGH
    return MEDIUM if lower >= outcome.medium else LOW


@dataclass(frozen=True, eq=False)
class Contexts:
    """The cells of each context of one setting, one after the other.

    Attributes
    ----------
    cells, starts
        The cells in the order of contexts, and where each context begins.
    """

    cells: Numbers
    starts: Numbers

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Numbers:
        """How many cells each context has."""
        return np.diff(np.append(self.starts, len(self.cells)))

    def largest(self, values: Array) -> Array:
        """Return the largest value in each context, from values of all cells in the last axis."""
        found: Array = np.maximum.reduceat(values[..., self.cells], self.starts, axis=-1)
        return found

    def ranges(self, values: Array, measured: Array) -> Array:
        """Return the range in each context, from values of all cells in the last axis.

        Where noise was drawn such that nothing is positive, it is relative to what was measured.
        """
        most = self.largest(values)
        least = np.minimum.reduceat(values[..., self.cells], self.starts, axis=-1)
        found: Array = (most - least) / np.where(most > 0, most, self.largest(measured))
        return found

    def positive(self, values: Array) -> Contexts:
        """Return those with a positive value; without one, there is nothing to relate to."""
        if not len(self):
            return self
        kept, sizes = self.largest(values) > 0, self.sizes
        ends = np.cumsum(sizes[kept])
        return Contexts(self.cells[np.repeat(kept, sizes)], ends - sizes[kept])

    def centered(self, values: Array) -> Array:
        """Return for each cell the mean of its context; NaN for cells of no context."""
        means = np.add.reduceat(values[self.cells], self.starts) / self.sizes
        found = np.full(len(values), np.nan)
        found[self.cells] = np.repeat(means, self.sizes)
        return found


class CellTable:
    """One result by cell: medians of repeats, and draws of them under the noise of all repeats."""

    def __init__(self, runs: Runs, outcome: Outcome, seed: int) -> None:
        self.runs, self.outcome, self._seed = runs, outcome, seed
        order = np.argsort(runs.cell, kind="stable")
        self.counts = np.bincount(runs.cell)
        first = np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        self.codes = runs.codes[order[first]]
        self.rows = order[first]
        values = runs.frame[outcome.name].to_numpy(float)
        self.medians = np.array([np.median(v) for v in np.split(values[order], first[1:])])
        self._values = values

    @cached_property
    def noise(self) -> Array:
        """The deviations of repeats from the mean of their cell, of all cells that have some.

        They are logarithms where results differ by factors. Deviations of few repeats are too
        small, and are stretched.
        """
        cell, values = self.runs.cell, self._scaled(self._values)
        n = self.counts[cell]
        again = n > 1
        means = np.bincount(cell, values) / self.counts
        stretched: Array = (values - means[cell])[again] * np.sqrt(n[again] / (n[again] - 1))
        return stretched

    @property
    def noise_share(self) -> float | None:
        """The typical deviation of a repeat, relative to its size.

        It is None if nothing was repeated, or if the typical size is 0.
        """
        size = 1.0 if self.outcome.is_ratio else abs(float(np.median(self.medians)))
        if not len(self.noise) or size == 0:
            return None
        return float(np.sqrt((self.noise**2).mean())) / size

    def _scaled(self, values: Array) -> Array:
        return np.log(values) if self.outcome.is_ratio else values

    def _unscaled(self, values: Array) -> Array:
        return np.exp(values) if self.outcome.is_ratio else values

    @cached_property
    def disturbances(self) -> Array:
        """Draws of what noise adds to the median of each cell: one row per draw."""
        n_draws = int(min(_N_DRAWS, max(50, _MOST_DRAWN // max(1, self.counts.sum()))))
        random = np.random.default_rng([self._seed, 15])
        found = np.zeros((n_draws, len(self.counts)))
        for n in np.unique(self.counts):
            own = np.flatnonzero(self.counts == n)
            drawn = random.choice(self.noise, size=(n_draws, len(own), int(n)))
            found[:, own] = np.median(drawn, axis=2)
        return found

    @cached_property
    def _doubt(self) -> float:
        """By how much noise may be larger than it looks, as it is estimated from few repeats."""
        from scipy.stats import norm, t

        freedom = int((self.counts - 1).sum())
        return float(t.ppf(_DOUBT_END, freedom) / norm.ppf(_DOUBT_END))

    @cached_property
    def draws(self) -> Array:
        """Draws of the medians of all cells."""
        return self._unscaled(self._scaled(self.medians) + self.disturbances)

    def contexts(self, setting: int, cells: Numbers | None = None) -> Contexts:
        """Return the contexts of a setting in which it has several levels, among some cells."""
        chosen = np.arange(len(self.codes)) if cells is None else cells
        # A cell that lacks the setting says nothing of it.
        name = self.runs.settings[setting]
        empty = [i for i, level in enumerate(self.runs.levels[name]) if level == NOTHING]
        chosen = chosen[~np.isin(self.codes[chosen, setting], empty)]
        others = np.delete(self.codes[chosen], setting, axis=1)
        workload = self._workload[chosen]
        keys = np.column_stack([workload, others])
        context = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        is_several = np.bincount(context, minlength=1)[context] > 1 if len(context) else context > 0
        chosen, context = chosen[is_several], context[is_several]
        order = np.argsort(context, kind="stable")
        starts = np.flatnonzero(np.diff(context[order], prepend=-1))
        return Contexts(chosen[order], starts)

    @cached_property
    def _workload(self) -> Numbers:
        of_row = np.zeros(len(self.runs.cell), dtype=np.int64)
        for i, workload in enumerate(self.runs.workloads):
            of_row[workload.rows] = i
        found: Numbers = of_row[self.rows]
        return found

    def cells_of(self, workload: int) -> Numbers:
        """Return the cells of one workload."""
        return np.flatnonzero(self._workload == workload)

    def impact(self, setting: int, cells: Numbers | None = None) -> SettingImpact | None:
        """Return the impact of a setting over some cells; None if no context has a range."""
        whole = self.contexts(setting, cells)
        contexts = whole.positive(self.medians)
        if not len(contexts):
            return None
        ranges = contexts.ranges(self.medians, self.medians)
        if len(self.noise):
            found, source = self._against_repeats(contexts, ranges), "repeats"
        elif len(contexts) > 1:
            found, source = self._against_contexts(setting, contexts, ranges), "contexts"
        else:
            found, source = (np.nan, np.nan, True), "nothing"
        lower, upper, is_effect = found
        median = float(np.median(ranges))
        level = level_of(median if np.isnan(lower) else lower, self.outcome)
        return SettingImpact(
            median,
            float(ranges.max()),
            lower,
            upper,
            level if is_effect and median > 0 else NOISE,
            len(contexts),
            source,
            at=self._described(setting, contexts.cells[contexts.starts[int(ranges.argmax())]]),
            n_left_out=len(whole) - len(contexts),
        )

    def is_nowhere_positive(self, setting: int) -> bool:
        """Whether a setting has contexts, and none of them a range."""
        contexts = self.contexts(setting)
        return len(contexts) > 0 and not len(contexts.positive(self.medians))

    def _described(self, setting: int, cell: int) -> dict[str, Any]:
        """Return what a context is: its workload, and the levels of the other settings."""
        runs = self.runs
        found = dict(runs.workloads[int(self._workload[cell])].at)
        for j, name in enumerate(runs.settings):
            level = runs.levels[name][int(self.codes[cell, j])]
            if j != setting and level != NOTHING:
                found[name] = level
        return found

    def _against_repeats(self, contexts: Contexts, ranges: Array) -> tuple[float, float, bool]:
        """Return an interval of the median range, and whether noise alone would give less.

        Noise makes ranges larger. So the ends are ranges of effects, shrunken or stretched, with
        which noise would give the range that was found in 5 % of the draws, on either side.
        """
        median = float(np.median(ranges))
        scaled = self._scaled(self.medians)
        center = contexts.centered(scaled)
        off = scaled - center

        def drawn(size: float, share: float) -> float:
            values = self._unscaled(center + size * off + self._doubt * self.disturbances)
            found = contexts.ranges(values, self.medians)
            return float(np.quantile(np.median(found, axis=1), share))

        def alone(size: float) -> float:
            values = self._unscaled(center + size * off)
            return float(np.median(contexts.ranges(values, self.medians)))

        if median <= drawn(0.0, _ENDS[1]):
            return 0.0, max(median, alone(_crossing(lambda c: drawn(c, _ENDS[0]), median))), False
        lower = alone(_crossing(lambda c: drawn(c, _ENDS[1]), median))
        upper = alone(_crossing(lambda c: drawn(c, _ENDS[0]), median))
        return min(lower, median), max(upper, median), True

    def _against_contexts(
        self, setting: int, contexts: Contexts, ranges: Array
    ) -> tuple[float, float, bool]:
        """Return an interval by drawing contexts, and whether levels differ the same in all."""
        random = np.random.default_rng([self._seed, 16])
        drawn = np.median(random.choice(ranges, size=(_N_DRAWS, len(ranges))), axis=1)
        lower, upper = np.quantile(drawn, _ENDS)
        return float(lower), float(upper), self._is_consistent(setting, contexts)

    def can_tell(self, setting: int, cells: Numbers | None = None) -> bool:
        """Whether runs alone can tell an effect from noise.

        Where each level is in one context only, as if it was drawn at random, any noise looks like
        an effect.
        """
        contexts = self.contexts(setting, cells)
        return len(self.noise) > 0 or len(contexts) < 2 or self._levels(setting, contexts).can_tell

    def _is_consistent(self, setting: int, contexts: Contexts) -> bool:
        """Whether differences between levels are larger than those between contexts: an F test."""
        from scipy.special import fdtrc

        fitted = self._levels(setting, contexts)
        if not fitted.can_tell:
            return False
        if fitted.left <= 1e-18 * max(fitted.explained, 1e-300):
            return fitted.explained > 0
        ratio = fitted.explained / fitted.rank / (fitted.left / fitted.freedom)
        return bool(fdtrc(fitted.rank, fitted.freedom, ratio) <= 1 - _NOISE_END)

    def _levels(self, setting: int, contexts: Contexts) -> _Levels:
        cells = contexts.cells
        values = self._scaled(self.medians)
        off = (values - contexts.centered(values))[cells]
        levels = np.unique(self.codes[cells, setting], return_inverse=True)[1]
        design = np.eye(levels.max() + 1)[levels]
        means = np.add.reduceat(design, contexts.starts, axis=0) / contexts.sizes[:, None]
        design -= np.repeat(means, contexts.sizes, axis=0)
        fitted = design @ np.linalg.lstsq(design, off, rcond=None)[0]
        explained, left = float((fitted**2).sum()), float(((off - fitted) ** 2).sum())
        rank = int(np.linalg.matrix_rank(design))
        return _Levels(explained, left, rank, len(cells) - len(contexts) - rank)


@dataclass(frozen=True)
class _Levels:
    """How much of the differences within contexts one value for each level explains."""

    explained: float
    left: float
    rank: int
    freedom: int

    @property
    def can_tell(self) -> bool:
        """Whether levels come back in other contexts, so that something may be left."""
        return self.rank > 0 and self.freedom > 0


def _crossing(function: Callable[[float], float], value: float) -> float:
    """Return where a function that rises reaches a value, between 0 and the most."""
    low, high = 0.0, _MOST_STRETCHED
    for _ in range(_N_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < value else (low, middle)
    return (low + high) / 2
