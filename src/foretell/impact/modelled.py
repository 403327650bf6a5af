"""Impacts, shares and tunings by a model, where runs alone do not tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.decide.impact.costs import costs_of
from foretell.decide.impact.question import CostRule, ImpactQuestion, Outcome
from foretell.decide.impact.ranges import MODELLED, NOISE, SettingImpact, level_of
from foretell.decide.impact.runs import NOTHING, Runs, Workload
from foretell.decide.impact.tunings import Tuning, baseline_of, good_enough, ways
from foretell.model.results.fit import Fit
from foretell.model.saved.model import SavedModel
from foretell.model.saved.shares import model_shares
from foretell.predictor import TRUST_FAR, TRUST_UNKNOWN
from foretell.sensitivity.shares import VarianceShares

Array = NDArray[np.float64]

#: How many configurations a setting is varied in, and over how many of its levels at most.
_MOST_BASES, _MOST_LEVELS = 200, 12
_MOST_CHOICES = 20_000
_N_DRAWS, _N_FAR = 400, 1024


@dataclass(frozen=True, eq=False)
class KnownModel:
    """A model of one result, and what is known about it.

    Attributes
    ----------
    without_effect
        Columns of which no effect was found.
    """

    model: SavedModel
    without_effect: tuple[str, ...] = ()

    @classmethod
    def of(cls, fit: Fit) -> KnownModel:
        """Take the best model of a fit."""
        found = fit.results.explanation
        return cls(fit.best, () if found is None else tuple(found.without_effect))

    @property
    def error(self) -> float:
        """How far predictions at known values were off on average; 0 if that is not known."""
        for kind, name in (("rehearsed", "inside"), ("validation", "mape"), ("training", "mape")):
            if (found := self.model.scores.get(kind, {}).get(name)) is not None:
                return float(found)
        return 0.0


def spread_levels(levels: Sequence[Any], most: int = _MOST_LEVELS) -> list[Any]:
    """Return some of the levels of a setting, evenly through their order, with both ends.

    >>> spread_levels(range(100), 3)
    [0, 50, 99]
    """
    known = [level for level in levels if level != NOTHING]
    if len(known) <= most:
        return known
    at = np.unique(np.linspace(0, len(known) - 1, most).round().astype(int))
    return [known[i] for i in at]


def levels_in(runs: Runs, rows: NDArray[np.int64]) -> dict[str, list[Any]]:
    """Return the levels of settings that vary in some runs."""
    part = runs.take(rows)
    return {
        (name := runs.settings[j]): [runs.levels[name][c] for c in np.unique(part.codes[:, j])]
        for j in part.varied()
    }


def modelled_impact(
    known: KnownModel,
    runs: Runs,
    setting: str,
    outcome: Outcome,
    rows: NDArray[np.int64],
    seed: int,
) -> SettingImpact | None:
    """Return the impact of a setting on predictions, at measured values of all others."""
    levels = levels_in(runs, rows).get(setting)
    if levels is None or setting not in known.model.columns:
        return None
    random = np.random.default_rng([seed, 17])
    bases = runs.frame.iloc[rows][known.model.columns].dropna().drop_duplicates()
    if len(bases) > _MOST_BASES:
        bases = bases.iloc[np.sort(random.choice(len(bases), _MOST_BASES, replace=False))]
    tried = spread_levels(levels)
    frame = bases.loc[bases.index.repeat(len(tried))].reset_index(drop=True)
    frame[setting] = tried * len(bases)
    predicted = known.model.predict(frame).reshape(len(bases), len(tried))
    worst, best = predicted.max(axis=1), predicted.min(axis=1)
    kept = worst > 0
    if not kept.any():
        return None
    ranges = (worst - best)[kept] / worst[kept]
    drawn = np.median(random.choice(ranges, size=(_N_DRAWS, len(ranges))), axis=1)
    median = float(np.median(ranges))
    low, high = np.quantile(drawn, (0.05, 0.95))
    # The model may be wrong in one direction at all configurations.
    lower = median - float(np.hypot(median - low, known.error))
    upper = min(median + float(np.hypot(high - median, known.error)), max(1.0, ranges.max()))
    is_effect = lower > 0 and setting not in known.without_effect
    at = bases[kept].iloc[int(ranges.argmax())].drop(setting)
    return SettingImpact(
        median, float(ranges.max()), max(0.0, lower), upper,
        level_of(lower, outcome) if is_effect else NOISE,
        len(ranges), "model", MODELLED, {str(k): _plain(v) for k, v in at.items()},
        int((~kept).sum()),
    )  # fmt: skip


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def modelled_shares(
    known: KnownModel, runs: Runs, workload: Workload, outcome: Outcome, seed: int
) -> tuple[VarianceShares, float] | None:
    """Divide the variance of predictions over measured levels; also return how many are far."""
    levels = levels_in(runs, workload.rows)
    levels = {n: v for n, v in levels.items() if n in known.model.columns}
    if not levels:
        return None
    fixed = _fixed(runs, workload, known.model.columns)
    found = model_shares(known.model, levels, fixed, is_ratio=outcome.is_ratio, seed=seed)
    found = found.without(known.without_effect)
    return found, _far_share(known.model, levels, fixed, seed)


def _fixed(runs: Runs, workload: Workload, columns: Sequence[str]) -> dict[str, Any]:
    """Return the value of columns that do not vary in a workload."""
    first = runs.frame.iloc[int(workload.rows[0])]
    return {name: workload.at.get(name, first[name]) for name in columns}


def _far_share(
    model: SavedModel, levels: Mapping[str, Sequence[Any]], fixed: Mapping[str, Any], seed: int
) -> float:
    """Return the share of combinations of levels that lie far outside the data."""
    random = np.random.default_rng([seed, 18])
    columns = {
        name: random.choice(np.asarray(levels[name], dtype=object), _N_FAR)
        if name in levels
        else [fixed[name]] * _N_FAR
        for name in model.columns
    }
    trust = model.outlook(pd.DataFrame(columns).infer_objects(), (0.5,)).trust
    return float(np.isin(trust, (TRUST_FAR, TRUST_UNKNOWN)).mean())


def modelled_tunings(
    known: KnownModel,
    quality: KnownModel | None,
    runs: Runs,
    asked: ImpactQuestion,
    workload: int,
    high: Collection[str],
) -> list[Tuning]:
    """Return what each way of tuning reaches by predictions, over measured levels."""
    own = runs.workloads[workload]
    levels = levels_in(runs, own.rows)
    baseline = _fixed(runs, own, known.model.columns)
    baseline |= {
        n: v for n, v in baseline_of(runs, asked, own.rows).items() if n in known.model.columns
    }
    outcome = asked.outcomes[0]
    found = []
    for kind, varied in ways(asked, high).items():
        varied = tuple(n for n in varied if n in levels)
        frame = _choices(baseline, {n: levels[n] for n in varied}, asked.seed)
        outlook = known.model.outlook(frame, (0.025, 0.5, 0.975))
        judged = None if quality is None else quality.model.predict(frame)
        is_good = np.ones(len(frame), dtype=bool)
        if judged is not None:
            is_good = good_enough(judged, float(judged[0]), asked.outcomes[1])
        allowed = np.flatnonzero(is_good)
        values = outlook.value[allowed]
        side = np.argmin if outcome.is_lower_better else np.argmax
        best, fastest = int(allowed[side(values)]), int(side(outlook.value))
        cost = _cost(frame.iloc[[best]], outlook.value[[best]], runs, own, asked.cost)
        settings = _settings_of(frame, best, runs)
        ends = outlook.quantiles.values[best] if known.model.has_intervals else [np.nan] * 3
        found.append(
            Tuning(
                own.name, kind, settings, varied, float(outlook.value[best]), float(ends[0]),
                float(ends[2]), None if judged is None else float(judged[best]), cost,
                len(allowed), MODELLED,
                None if fastest == best else _settings_of(frame, fastest, runs),
            )
        )  # fmt: skip
    return found


def _settings_of(frame: pd.DataFrame, row: int, runs: Runs) -> dict[str, Any]:
    return {n: _plain(frame[n].iloc[row]) for n in frame.columns if n in runs.settings}


def _cost(
    chosen: pd.DataFrame, seconds: Array, runs: Runs, workload: Workload, rule: CostRule
) -> float | None:
    """Return what a chosen configuration costs; None if it depends on what only runs tell."""
    for name in rule.columns:
        if name not in chosen.columns:
            known = runs.frame[name].iloc[workload.rows].unique()
            if len(known) > 1:
                return None
            chosen = chosen.assign(**{name: known[0]})
    found = costs_of(chosen, seconds, rule)
    return None if found is None else float(found[0])


def _choices(
    baseline: Mapping[str, Any], levels: Mapping[str, Sequence[Any]], seed: int
) -> pd.DataFrame:
    """List combinations of levels, the baseline first; a sample of them if they are many."""
    tried = {name: spread_levels(values) for name, values in levels.items()}
    sizes = [len(values) for values in tried.values()]
    n = int(min(np.prod(sizes, dtype=float), 1e15)) if sizes else 1
    if n <= _MOST_CHOICES:
        places = np.indices(sizes).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), int)
    else:
        random = np.random.default_rng([seed, 19])
        places = np.array([random.integers(0, size, _MOST_CHOICES) for size in sizes])
    n_rows = places.shape[1] + 1
    columns: dict[str, Any] = {name: [value] * n_rows for name, value in baseline.items()}
    for (name, values), at in zip(tried.items(), places, strict=True):
        columns[name] = [baseline[name], *(values[i] for i in at)]
    return pd.DataFrame(columns).drop_duplicates(ignore_index=True)
