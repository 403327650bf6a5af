"""Whether data or method decide: how far results spread within one value of each grouping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foretell.decide.impact.runs import Runs


@dataclass(frozen=True)
class Spread:
    """How far results spread within a group.

    Attributes
    ----------
    column
        The column that forms the groups; None for all runs together.
    decades
        The median over groups of the interquartile range of the logarithm to base 10.
    n_groups
        How many groups there are.
    """

    column: str | None
    decades: float
    n_groups: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"column": self.column, "iqr_log10": self.decades, "n_groups": self.n_groups}


def spreads_of(runs: Runs, target: str, columns: Sequence[str]) -> list[Spread]:
    """Return the spread within each value of each column, and that of all runs, the least first."""
    logs = np.log10(runs.frame[target].to_numpy(float))
    found = [Spread(None, _iqr(logs), 1)]
    for column in columns:
        parts = [logs[rows] for rows in runs.frame.groupby(column, dropna=False).indices.values()]
        found.append(Spread(column, float(np.median([_iqr(p) for p in parts])), len(parts)))
    return sorted(found, key=lambda spread: spread.decades)


def _iqr(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low)
