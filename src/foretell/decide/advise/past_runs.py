"""The runs made so far: where, how often, how noisy, which failed and which hit a time limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset, as_numbers, describe_rows, read_dataset
from foretell.errors import DatasetError
from foretell.predictor import Predictor
from foretell.spaces.quantities import TIME, quantity_of_name
from foretell.spaces.rows import without
from foretell.statuses import Status

Array = NDArray[np.float64]

#: The noise that is assumed if no run was repeated, in logs.
_USUAL_NOISE = 0.03
_LEAST_NOISE = 0.002


@dataclass(frozen=True)
class PastRuns:
    """What is known of earlier runs; nothing without a table of them.

    Attributes
    ----------
    measured
        One row per configuration that went well.
    n_runs
        How often each of them was measured.
    log_means
        By target: the mean of the logs of the runs of each of them.
    noise
        By target: how much runs of the same configuration differ, in logs.
    has_repeats
        Whether any configuration was measured more than once, so that the noise is measured.
    too_long
        One row per configuration that was killed at a time limit.
    at_least
        By target: what each of those took at least; NaN if unknown.
    limit_s
        The time limits that they hit.
    broken
        One row per configuration that failed in any other way and never went well. In a table that
        does not say how runs ended, those without any result failed.
    """

    measured: pd.DataFrame
    n_runs: Array
    log_means: Mapping[str, Array]
    noise: Mapping[str, float]
    has_repeats: bool
    too_long: pd.DataFrame
    at_least: Mapping[str, Array]
    limit_s: Array
    broken: pd.DataFrame

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
            none, empty = pd.DataFrame({name: [] for name in columns}), np.zeros(0)
            noise = dict.fromkeys(targets, _USUAL_NOISE)
            return cls(none, empty, {}, noise, False, none, {}, empty, none)
        dataset = read_dataset(data)
        dataset.require([*columns, *targets])
        frame, status = dataset.frame, dataset.statuses
        is_good = (status == Status.OK).to_numpy(dtype=bool)
        measurements = {name: dataset.measurements(name, is_good) for name in targets}
        for is_measured, values in measurements.values():
            is_good = is_good & is_measured & (values > 0)
        frame = frame.assign(**{name: values for name, (_, values) in measurements.items()})
        good = frame[is_good]
        if good.empty:
            raise DatasetError(f"{dataset.name} has no run that went well; measure again")
        numbers = {name: "numbers" for p in predictors for name in p.ranges}
        levels = {name for p in predictors for name in p.categories}
        flags = {name: "true or false" for name in columns if name not in {*numbers, *levels}}
        _refuse_other_values(dataset, {**flags, **numbers}, is_good)
        groups = good.groupby(columns, sort=False, dropna=False)
        counts = groups.size()
        measured = counts.index.to_frame(index=False)
        late = frame[status == Status.TIMED_OUT].drop_duplicates(columns).reset_index(drop=True)
        is_wrong = ~status.isin([Status.OK, Status.TIMED_OUT])
        if not dataset.roles:  # only an empty result can say there that a run failed
            is_wrong = frame[targets].isna().all(axis=1)
        wrong = frame.loc[is_wrong, columns].drop_duplicates()
        limit_s = _limits(late, targets)
        return cls(
            measured,
            counts.to_numpy().astype(float),
            {name: np.asarray(groups[name].agg(_log_mean), dtype=np.float64) for name in targets},
            {target: _noise(good, columns, target) for target in targets},
            bool((counts > 1).any()),
            late[columns],
            {target: late[target].to_numpy(dtype=float) for target in targets},
            limit_s,
            without(wrong, measured).reset_index(drop=True),
        )


def _refuse_other_values(
    dataset: Dataset, wanted: Mapping[str, str], chosen: NDArray[np.bool_]
) -> None:
    """Raise a DatasetError if settings of chosen rows are empty, or not what is wanted."""
    for name, what in wanted.items():
        is_bad = chosen & ~np.isfinite(as_numbers(dataset.frame[name]))
        if is_bad.any():
            told = describe_rows(is_bad, dataset.row_numbers, "empty or other value")
            raise DatasetError(
                f"{dataset.name}, column '{name}' must hold {what}; it has {told}. Correct them, "
                "or drop those rows."
            )


def _limits(late: pd.DataFrame, targets: Sequence[str]) -> Array:
    """Return the time limits that runs hit: what they took; infinite where no column tells it."""
    for name in ("wall_time_s", *targets):
        kind, unit = quantity_of_name(name) or ("", 1.0)
        if kind == TIME and name in late.columns:
            return late[name].to_numpy(dtype=float) * unit
    return np.full(len(late), np.inf)


def _log_mean(values: pd.Series[float]) -> float:
    return float(np.log(values.to_numpy(dtype=float)).mean())


def _noise(good: pd.DataFrame, columns: list[str], target: str) -> float:
    """Return the usual deviation of repeats from the mean of their configuration, in logs."""
    logs = pd.Series(np.log(good[target].to_numpy(dtype=float)), index=good.index)
    groups = logs.groupby([good[name] for name in columns], sort=False, dropna=False)
    free = len(logs) - groups.ngroups
    if free <= 0:
        return _USUAL_NOISE
    scatter = float(((logs - groups.transform("mean")) ** 2).sum())
    return max(float(np.sqrt(scatter / free)), _LEAST_NOISE)
