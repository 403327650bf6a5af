"""What tuning reaches: settings of the system only, of what runs on it only, and both together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.decide.impact.costs import costs_of, settings_of
from foretell.decide.impact.question import ImpactQuestion
from foretell.decide.impact.ranges import MEASURED, CellTable
from foretell.decide.impact.runs import NOTHING, Runs
from foretell.errors import Option, UsageError, listing

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

BASELINE, HYPER_ONLY, SYSTEM_ONLY, JOINT = "baseline", "hyper only", "system only", "joint"
_ENDS = (0.025, 0.975)


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
        }


def baseline_of(runs: Runs, asked: ImpactQuestion, rows: Numbers) -> dict[str, Any]:
    """Return the usual level of each setting in some runs: given, or the most frequent of all runs.

    Of several that are equally frequent, it is the middle one.
    """
    found: dict[str, Any] = {}
    for j, name in enumerate(runs.settings):
        if name in asked.baseline:
            found[name] = _given_level(runs, name, asked.baseline[name])
            continue
        counts = np.bincount(runs.codes[:, j])
        counts[~np.isin(np.arange(len(counts)), runs.codes[rows, j])] = 0
        common = np.flatnonzero(counts == counts.max())
        found[name] = runs.levels[name][int(common[(len(common) - 1) // 2])]
    return {name: level for name, level in found.items() if level != NOTHING}


def _given_level(runs: Runs, name: str, given: Any) -> Any:
    for level in runs.levels[name]:
        if str(level).lower() == str(given).lower() or _same_number(level, given):
            return level
    raise UsageError(
        f"'{name}' was never {given}; it was {listing(runs.levels[name])}",
        option=Option("baseline", str(given), key=name),
    )


def _same_number(level: Any, given: Any) -> bool:
    try:
        return float(level) == float(given)
    except (TypeError, ValueError):
        return False


def ways(asked: ImpactQuestion, high: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return which settings each way of tuning varies: only those of high impact."""
    system = tuple(n for n in asked.system if n in high)
    hyper = tuple(n for n in asked.hyper if n in high)
    return {BASELINE: (), HYPER_ONLY: hyper, SYSTEM_ONLY: system, JOINT: (*hyper, *system)}


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
        choices = _good_enough(choices, quality, at_baseline)
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
            )
        )  # fmt: skip
    return found


def _is_off(table: CellTable, cells: Numbers, j: int, level: Any) -> NDArray[np.bool_]:
    """Whether each cell has another level of a setting than the baseline."""
    levels = table.runs.levels[table.runs.settings[j]]
    code = levels.index(NOTHING if level is None else level)
    found: NDArray[np.bool_] = table.codes[cells, j] != code
    return found


def _good_enough(choices: Numbers, quality: CellTable | None, at_baseline: int) -> Numbers:
    """Keep choices whose quality is about as good as that of the baseline."""
    if quality is None:
        return choices
    own, least = quality.medians[choices], quality.medians[at_baseline]
    allowed = quality.outcome.medium * abs(least)
    is_lower_better = quality.outcome.is_lower_better
    is_good = own <= least + allowed if is_lower_better else own >= least - allowed
    kept: Numbers = choices[is_good]
    return kept


def _best(choices: Numbers, table: CellTable) -> int:
    values = table.medians[choices]
    return int(choices[values.argmin() if table.outcome.is_lower_better else values.argmax()])
