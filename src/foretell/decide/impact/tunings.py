"""What tuning reaches: settings of the system only, of what runs on it only, and both together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.decide.impact.costs import costs_of, settings_of
from foretell.decide.impact.question import ImpactQuestion, Outcome
from foretell.decide.impact.ranges import MEASURED, CellTable
from foretell.decide.impact.runs import NOTHING, Runs, given_level

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

BASELINE, HYPER_ONLY, SYSTEM_ONLY, JOINT = "baseline", "hyper only", "system only", "joint"
_ENDS = (0.025, 0.975)
#: Where the better end of an interval of 90 % begins.
_LEAST_OFF = 0.05


@dataclass(frozen=True)
class Tuning:
    """The best that a way of tuning reaches in a workload.

    Attributes
    ----------
    kind
        ``baseline``, ``hyper only``, ``system only`` or ``joint``.
    varied
        The settings that it varies; all others keep their baseline.
    lower, upper
        The ends of a 95 % interval of the value; NaN if noise is not known.
    n_choices
        Between how many configurations it chose.
    passed_over
        The configuration that is best but for its quality, if that is another one.
    """

    workload: str
    kind: str
    settings: Mapping[str, Any]
    varied: tuple[str, ...]
    value: float
    lower: float
    upper: float
    quality: float | None
    cost: float | None
    n_choices: int
    label: str = MEASURED
    passed_over: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; null is not known."""
        ends = {name: getattr(self, name) for name in ("lower", "upper")}
        return {
            "workload": self.workload,
            "tuning": self.kind,
            "settings": dict(self.settings),
            "varied": list(self.varied),
            "value": self.value,
            **{name: value if np.isfinite(value) else None for name, value in ends.items()},
            "quality": self.quality,
            "cost": self.cost,
            "n_choices": self.n_choices,
            "label": self.label,
            "passed_over": None if self.passed_over is None else dict(self.passed_over),
        }


def baseline_of(runs: Runs, asked: ImpactQuestion, rows: Numbers) -> dict[str, Any]:
    """Return the usual level of each setting in some runs: given, or the most frequent of all runs.

    Of several that are equally frequent, it is the middle one.
    """
    found: dict[str, Any] = {}
    for j, name in enumerate(runs.settings):
        if name in asked.baseline:
            found[name] = given_level(runs.levels[name], asked.baseline[name])
            continue
        counts = np.bincount(runs.codes[:, j])
        counts[~np.isin(np.arange(len(counts)), runs.codes[rows, j])] = 0
        common = np.flatnonzero(counts == counts.max())
        found[name] = runs.levels[name][int(common[(len(common) - 1) // 2])]
    return {name: level for name, level in found.items() if level != NOTHING}


def ways(asked: ImpactQuestion, high: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return which settings each way of tuning varies: only those of high impact.

    With settings of one kind only, there is one way.
    """
    system = tuple(n for n in asked.system if n in high)
    hyper = tuple(n for n in asked.hyper if n in high)
    found: dict[str, tuple[str, ...]] = {BASELINE: ()}
    if asked.hyper:
        found[HYPER_ONLY] = hyper
    if asked.system:
        found[SYSTEM_ONLY] = system
    if asked.hyper and asked.system:
        found[JOINT] = (*hyper, *system)
    return found


def measured_tunings(
    table: CellTable,
    quality: CellTable | None,
    asked: ImpactQuestion,
    workload: int,
    high: Collection[str],
) -> list[Tuning] | None:
    """Return what each way reaches among measured runs; None if the baseline was not measured."""
    runs = table.runs
    cells = table.cells_of(workload)
    baseline = baseline_of(runs, asked, runs.workloads[workload].rows)
    is_off = np.column_stack(
        [_is_off(table, cells, j, baseline.get(name)) for j, name in enumerate(runs.settings)]
    )
    if not (~is_off.any(axis=1)).any():
        return None
    cost = costs_of(runs.frame.iloc[table.rows], table.medians, asked.cost)
    at_baseline = int(cells[np.flatnonzero(~is_off.any(axis=1))[0]])
    found = []
    for kind, varied in ways(asked, high).items():
        fixed = [j for j, name in enumerate(runs.settings) if name not in varied]
        choices = cells[~is_off[:, fixed].any(axis=1)]
        fastest = best = _best(choices, table)
        if quality is not None:
            choices = choices[_kept_quality(quality, choices, at_baseline)]
            best = _best(choices, table)
        drawn = table.draws[:, best] if len(table.noise) else np.array([np.nan])
        ends = np.quantile(drawn, _ENDS)
        found.append(
            Tuning(
                runs.workloads[workload].name, kind, settings_of(table, best), varied,
                float(table.medians[best]), float(ends[0]), float(ends[1]),
                None if quality is None else float(quality.medians[best]),
                None if cost is None else float(cost[best]),
                len(choices),
                passed_over=None if fastest == best else settings_of(table, fastest),
            )
        )  # fmt: skip
    return found


def _kept_quality(quality: CellTable, choices: Numbers, baseline: int) -> NDArray[np.bool_]:
    """Say which choices are about as good as the baseline, or may be, as noise goes."""
    own, outcome = quality.medians, quality.outcome
    kept = good_enough(own[choices], own[baseline], outcome)
    if not len(quality.noise):
        return kept
    off = quality.draws[:, choices] - quality.draws[:, [baseline]]
    least = np.quantile(off, _LEAST_OFF if outcome.is_lower_better else 1 - _LEAST_OFF, axis=0)
    maybe = good_enough(own[baseline] + least, own[baseline], outcome)
    found: NDArray[np.bool_] = kept | maybe
    return found


def _is_off(table: CellTable, cells: Numbers, j: int, level: Any) -> NDArray[np.bool_]:
    """Whether each cell has another level of a setting than the baseline."""
    levels = table.runs.levels[table.runs.settings[j]]
    code = levels.index(NOTHING if level is None else level)
    found: NDArray[np.bool_] = table.codes[cells, j] != code
    return found


def good_enough(quality: Array, baseline: float, outcome: Outcome) -> NDArray[np.bool_]:
    """Say which qualities are about as good as that of the baseline.

    >>> good_enough(np.array([0.9, 0.8]), 0.905, Outcome("accuracy", False, 0.05, 0.01)).tolist()
    [True, False]
    """
    allowed = outcome.medium * abs(baseline)
    if outcome.is_lower_better:
        return quality <= baseline + allowed
    return quality >= baseline - allowed


def _best(choices: Numbers, table: CellTable) -> int:
    values = table.medians[choices]
    return int(choices[values.argmin() if table.outcome.is_lower_better else values.argmax()])
