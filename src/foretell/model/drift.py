"""Drift: whether runs measured later are further off than rehearsals say they should be.

Each run is compared with the error that was rehearsed for runs like it: the size of its log
residual, divided by the size expected there. Repeats of one configuration tend to be off together,
so a configuration counts once, by its median run. Without drift, the mean of these ratios is about
1 or less.

By chance it may be larger, the more so the fewer configurations there are. Rehearsed errors scatter
about like an exponential distribution, so the mean of n of them scatters like a gamma distribution.
The model has drifted if the mean exceeds the 99th percentile of that distribution by a quarter: the
margin is there because rehearsals are slightly optimistic, and because a smaller change is not
worth a refit. A ratio counts at most 8, so that one odd run among several does not decide, and
rehearsed errors below 1 % count as 1 %. Runs where no error was rehearsed (trust *far*) do not
count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foretell.dataset import Dataset, describe_rows
from foretell.errors import DatasetError, Option, UsageError
from foretell.model.passports.calibration import log_of_predictions, relative_error
from foretell.wording import counted, plain, rough_percent

if TYPE_CHECKING:
    import pandas as pd

    from foretell.predictor import Forecast

Array = NDArray[np.float64]
#: The number of last rows, or the rows with at least this value of a column.
Since = int | Mapping[str, Any]

_LEAST_ERROR, _MOST_RATIO = 0.01, 8.0
_CONFIDENCE, _MARGIN = 0.99, 1.25


@dataclass(frozen=True)
class Drift:
    """How errors on later runs compare with rehearsed ones.

    Attributes
    ----------
    n_runs, n_configurations
        The runs that were compared.
    error, rehearsed_error
        The mean relative error on them, and the one expected from rehearsals; None without runs.
    ratio, limit
        How many times the rehearsed size errors are, and how many times could be chance.
    has_drifted
        Whether the ratio exceeds the limit; None if no run could be compared.
    """

    since: str
    n_runs: int
    n_configurations: int
    error: float | None = None
    rehearsed_error: float | None = None
    ratio: float | None = None
    limit: float | None = None
    has_drifted: bool | None = None

    def __str__(self) -> str:
        if self.ratio is None or self.limit is None:
            return (
                f"Drift is not known: no run {self.since} lies where errors were rehearsed. "
                "Measure some inside the data."
            )
        error, rehearsed = (rough_percent(e) for e in (self.error, self.rehearsed_error))
        found = (
            f"{error} off against {rehearsed} rehearsed, on {counted(self.n_runs, 'run')} of "
            f"{counted(self.n_configurations, 'configuration')} {self.since}"
        )
        compared = f"{self.ratio:.1f} times the rehearsed size; up to {self.limit:.1f} is chance"
        if self.has_drifted:
            return f"Drifted: {found} ({compared}). Refit with these runs."
        return f"No drift: {found} ({compared})."


def check_drift(
    forecast: Forecast, truth: Array, configuration: NDArray[np.int64], since: Since
) -> Drift:
    """Compare the errors on measured runs with those rehearsed for runs like them.

    ``configuration``: the number of each run's configuration; repeats share it.
    """
    from scipy.special import gammaincinv

    residual = np.log(truth) - log_of_predictions(forecast.value)
    is_known = np.isfinite(forecast.expected_error) & np.isfinite(residual)
    n_runs = int(is_known.sum())
    numbers, group = np.unique(configuration[is_known], return_inverse=True)
    n = len(numbers)
    told = since_text(since)
    if n == 0:
        return Drift(told, n_runs, n)
    expected = forecast.expected_error[is_known]
    residual = residual[is_known]
    scaled = residual / np.log1p(np.maximum(expected, _LEAST_ERROR))
    medians = np.array([np.median(scaled[group == g]) for g in range(n)])
    ratio = float(np.minimum(np.abs(medians), _MOST_RATIO).mean())
    limit = _MARGIN * float(gammaincinv(n, _CONFIDENCE)) / n
    error = float(relative_error(-residual, np.zeros(n_runs)).mean())
    return Drift(told, n_runs, n, error, float(expected.mean()), ratio, limit, ratio > limit)


def since_text(since: Since) -> str:
    """Write which runs were taken.

    >>> since_text(40), since_text({"date": "2026-06-01"})
    ('among the last 40 rows', 'since date=2026-06-01')
    """
    if isinstance(since, int):
        return f"among the last {counted(since, 'row')}"
    ((name, value),) = since.items()
    return f"since {plain(name)}={plain(value)}"


def is_since(dataset: Dataset, since: Since) -> NDArray[np.bool_]:
    """Say which rows of a table are among those asked for."""
    n_rows = len(dataset.frame)
    if isinstance(since, int):
        if not 1 <= since <= n_rows:
            raise UsageError(
                f"must be from 1 to {n_rows}, the rows of {dataset.name}, not {since}",
                option=Option("since"),
            )
        return np.arange(n_rows) >= n_rows - since
    if len(since) != 1:
        raise UsageError("must name one column", option=Option("since"))
    ((name, value),) = since.items()
    dataset.require([name])
    column, start = _comparable(dataset, name, value)
    found = np.asarray(column >= start, dtype=bool)
    if not found.any():
        raise DatasetError(
            f"{dataset.name} has no row {since_text(since)}; the last is {column.max()}"
        )
    return found


def _comparable(dataset: Dataset, name: str, value: Any) -> tuple[pd.Series[Any], Any]:
    """Return a column and a value as numbers, or else as dates."""
    import pandas as pd

    option = Option("since", str(value), key=name)
    column = dataset.frame[name]
    is_empty = (column.isna() | (column.astype(str).str.strip() == "")).to_numpy()
    if is_empty.any():
        rows = describe_rows(is_empty, dataset.row_numbers, "empty value")
        raise DatasetError(f"{dataset.name}, column '{name}' has {rows}", option=option)
    numbers = pd.to_numeric(column, errors="coerce")
    if numbers.notna().all():
        start = pd.to_numeric(pd.Series([value]), errors="coerce")[0]
        if pd.isna(start):
            raise UsageError(f"'{name}' holds numbers, and '{value}' is not one", option=option)
        return numbers, start
    dates, start = (
        pd.to_datetime(part.astype(str), format="ISO8601", utc=True, errors="coerce")
        for part in (column, pd.Series([value]))
    )
    if dates.isna().any():
        raise UsageError(
            f"'{name}' holds neither numbers nor dates such as 2026-06-01 (one is "
            f"'{plain(column[dates.isna()].iloc[0], 60)}')",
            option=option,
        )
    if pd.isna(start[0]):
        raise UsageError(f"'{name}' holds dates; write one as 2026-06-01", option=option)
    return dates, start[0]
