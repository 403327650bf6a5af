"""What runs cost, and which configurations no other beats in time, cost and quality at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import as_numbers
from foretell.decide.impact.question import CostRule, ImpactQuestion
from foretell.decide.impact.ranges import CellTable
from foretell.decide.impact.runs import NOTHING
from foretell.errors import DatasetError, Option, UsageError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FrontPoint:
    """A configuration that no other of its workload beats: its results, and what it costs."""

    workload: str
    settings: dict[str, Any]
    target: float
    quality: float | None
    cost: float | None

    def to_json(self) -> dict[str, Any]:
        """Return plain values; null is not known."""
        return {
            "workload": self.workload,
            "settings": self.settings,
            "target": self.target,
            "quality": self.quality,
            "cost": self.cost,
        }


def costs_of(frame: pd.DataFrame, seconds: Array, rule: CostRule) -> Array | None:
    """Return what runs of this length cost; None if there are no prices."""
    if rule.is_free:
        return None
    machines, out_gb = _figure(frame, rule.machines), _figure(frame, rule.out_gb)
    hours = seconds / 3600
    return hours * machines * rule.price_per_hour + out_gb * rule.price_per_gb


def _figure(frame: pd.DataFrame, figure: float | str) -> Array:
    if not isinstance(figure, str):
        return np.full(len(frame), float(figure))
    values = as_numbers(frame[figure])
    if not (np.isfinite(values) & (values >= 0)).all():
        raise DatasetError(f"column '{figure}' must hold numbers of at least 0 to compute costs")
    return values


def check_costs(asked: ImpactQuestion) -> None:
    """Refuse prices where the target is no time in seconds, and figures without a price."""
    rule = asked.cost
    for name, price, is_given in (
        ("machines", "price_per_hour", rule.machines != 1 and not rule.price_per_hour),
        ("out_gb", "price_per_gb", rule.out_gb != 0 and not rule.price_per_gb),
        ("price_per_gb", "out_gb", rule.price_per_gb > 0 and rule.out_gb == 0),
    ):
        if is_given:
            value = getattr(rule, name)
            raise UsageError(
                "alone it costs nothing",
                option=Option(name, value if isinstance(value, str) else f"{value:g}"),
                remedy=("add ", Option(price, "...")),
            )
    if not asked.cost.is_free and not asked.target.endswith("_s"):
        raise UsageError(
            f"costs need a target in seconds, whose name ends in _s, not '{asked.target}'",
            option=Option("price_per_hour"),
        )


def front_of(table: CellTable, quality: CellTable | None, rule: CostRule) -> list[FrontPoint]:
    """List the configurations of each workload that no other beats in all that is known."""
    runs = table.runs
    cost = costs_of(runs.frame.iloc[table.rows], table.medians, rule)
    if cost is None and quality is None:
        return []
    parts = [_smaller_is_better(table)]
    parts += [] if quality is None else [_smaller_is_better(quality)]
    parts += [] if cost is None else [cost]
    found = []
    for i, workload in enumerate(runs.workloads):
        cells = table.cells_of(i)
        objectives = np.column_stack(parts)[cells]
        kept = cells[_beaten_by_none(objectives)]
        for c in kept[np.argsort(parts[0][kept], kind="stable")]:
            found.append(
                FrontPoint(
                    workload.name,
                    settings_of(table, int(c)),
                    float(table.medians[c]),
                    None if quality is None else float(quality.medians[c]),
                    None if cost is None else float(cost[c]),
                )
            )
    return found


def settings_of(table: CellTable, cell: int) -> dict[str, Any]:
    """Return the settings of a cell by name, without those that it lacks."""
    runs = table.runs
    levels = {n: runs.levels[n][int(table.codes[cell, j])] for j, n in enumerate(runs.settings)}
    return {name: level for name, level in levels.items() if level != NOTHING}


def _smaller_is_better(table: CellTable) -> Array:
    return table.medians if table.outcome.is_lower_better else -table.medians


def _beaten_by_none(objectives: Array) -> NDArray[np.bool_]:
    """Say which rows no other is at least as good as in all columns, and better in one."""
    kept = np.zeros(len(objectives), dtype=bool)
    front = np.zeros((0, objectives.shape[1]))
    for i in np.lexsort(objectives.T[::-1]):  # whoever beats a row comes before it
        own = objectives[i]
        beats = (front <= own).all(axis=1) & (front < own).any(axis=1)
        if not beats.any():
            kept[i] = True
            front = np.vstack([front, own])
    return kept
