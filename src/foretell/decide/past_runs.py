"""The runs that were made already: where, how often, how noisy, and which ran into a time limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from foretell.dataset import STATUS_OK, Dataset, read_dataset
from foretell.errors import DatasetError
from foretell.predictor import Predictor

#: Of runs that were never repeated, what is taken for their noise, in logs.
_USUAL_NOISE = 0.03
_LEAST_NOISE = 0.002
_TIMED_OUT = "timed out"


@dataclass(frozen=True)
class PastRuns:
    """What is known of earlier runs; nothing, without a table of them.

    Attributes
    ----------
    measured
        One row per configuration that went well.
    n_runs
        How often each of them was measured.
    noise
        By target: how much runs of the same configuration differ, in logs.
    too_long
        One row per configuration that was killed at a time limit.
    at_least
        By target: what each of those took at least; NaN where nobody knows.
    limit_s
        The time limits that they ran into.
    """

    measured: pd.DataFrame
    n_runs: np.ndarray[tuple[int], np.dtype[np.float64]]
    noise: dict[str, float]
    too_long: pd.DataFrame
    at_least: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = field(default_factory=dict)
    limit_s: np.ndarray[tuple[int], np.dtype[np.float64]] = field(
        default_factory=lambda: np.zeros(0)
    )

    @classmethod
    def of(
        cls,
        data: pd.DataFrame | Dataset | Path | str | None,
        predictors: Sequence[Predictor],
    ) -> PastRuns:
        """Read a table of runs, and check that it has the columns of the models."""
        columns = list(dict.fromkeys(name for p in predictors for name in p.columns))
        targets = [p.target for p in predictors]
        if data is None:
            none = pd.DataFrame({name: [] for name in columns})
            return cls(none, np.zeros(0), dict.fromkeys(targets, _USUAL_NOISE), none)
        dataset = read_dataset(data)
        dataset.require([*columns, *targets])
        frame = dataset.frame
        status = frame["status"] if "status" in frame else pd.Series(STATUS_OK, frame.index)
        good = frame[(status == STATUS_OK) & frame[targets].notna().all(axis=1)]
        if good.empty:
            raise DatasetError(f"{dataset.name} has no run that went well; measure again")
        counts = good.groupby(columns, sort=False, dropna=False).size().reset_index(name="n")
        late = frame[status == _TIMED_OUT].drop_duplicates(columns).reset_index(drop=True)
        limit_s = (
            late["wall_time_s"].to_numpy(float)
            if "wall_time_s" in late
            else np.full(len(late), np.inf)
        )
        return cls(
            counts[columns],
            counts["n"].to_numpy(dtype=float),
            {target: _noise(good, columns, target) for target in targets},
            late[columns],
            {target: late[target].to_numpy(dtype=float) for target in targets},
            limit_s,
        )


def _noise(good: pd.DataFrame, columns: list[str], target: str) -> float:
    """Return the usual deviation of repeats from the mean of their configuration, in logs."""
    logs = pd.Series(np.log(good[target].to_numpy(dtype=float)), index=good.index)
    groups = logs.groupby([good[name] for name in columns], sort=False, dropna=False)
    free = len(logs) - groups.ngroups
    if free <= 0:
        return _USUAL_NOISE
    scatter = float(((logs - groups.transform("mean")) ** 2).sum())
    return max(float(np.sqrt(scatter / free)), _LEAST_NOISE)
