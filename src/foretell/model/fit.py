"""Fitting, the one way in: a campaign, or a table and a target; saved models out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from foretell.dataset import Dataset, read_dataset
from foretell.errors import UsageError
from foretell.model.automatic.fit import run_automatic
from foretell.model.campaigns import Campaign
from foretell.model.campaigns.fit import run_campaign
from foretell.model.campaigns.sources import load_campaign, naming, resolve_data_path
from foretell.model.results.fit import Fit
from foretell.model.run_options import Progress, RunOptions

if TYPE_CHECKING:
    import pandas as pd


@overload
def fit_model(
    campaign: str | Path | Mapping[str, Any] | Campaign,
    data: str | Path | pd.DataFrame | Dataset | None = None,
    *,
    output: str | Path | None = None,
    n_jobs: int | None = None,
    seed: int | None = None,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    on: str | None = None,
) -> Fit: ...


@overload
def fit_model(
    campaign: str | Path | pd.DataFrame | Dataset,
    *,
    target: str,
    output: str | Path | None = None,
    n_jobs: int | None = None,
    seed: int | None = None,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    on: str | None = None,
) -> Fit: ...


def fit_model(  # noqa: PLR0913 - all but the first by name
    campaign: str | Path | Mapping[str, Any] | Campaign | pd.DataFrame | Dataset,
    data: str | Path | pd.DataFrame | Dataset | None = None,
    *,
    target: str | None = None,
    output: str | Path | None = None,
    n_jobs: int | None = None,
    seed: int | None = None,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    on: str | None = None,
) -> Fit:
    """Fit a table of runs automatically, or run a campaign.

    Parameters
    ----------
    campaign
        A campaign file (TOML, or an aMLLibrary ``.ini``), a dict of the same shape, or a Campaign;
        with a target, a table of runs: a file or a DataFrame.
    data
        The table of runs of a campaign; by default the one the campaign names.
    target
        The column of a table to predict; everything else is chosen automatically.
    output
        Directory for the results. The same call on the same directory continues where it stopped.
        By default nothing is kept but what is returned.
    n_jobs
        Worker processes; by default one, or every CPU of a cluster. The result does not depend on
        it.
    time_limit_s
        Stop searching so as to end at about this time; the result says when it cut the search.
    progress
        Called with a Progress as trials end.
    on
        Where to run: by default this machine; ``"ray"`` is a Ray cluster, found as Ray does or
        started here; anything else is the address of one. The result does not depend on it.

    >>> import pandas as pd
    >>> runs = pd.DataFrame({"nodes": [1, 2, 4, 8] * 3, "time_s": [80, 42, 23, 14] * 3})
    >>> campaign = {"data": {"target": "time_s"}, "features": {"inverse": ["nodes"]},
    ...             "search": {"splits": {"method": "KFold", "folds": 3}},
    ...             "techniques": {"LRRidge": {"alpha": 0.001}}}
    >>> fit = fit_model(campaign, runs)
    >>> fit.predict(pd.DataFrame({"nodes": [4]})).round().tolist()
    [23.0]
    >>> model = fit_model(runs, target="time_s")
    >>> bool(50 < model.predict(pd.DataFrame({"nodes": [1.5]}))[0] < 60)
    True
    """
    options = RunOptions(Path(output) if output else None, n_jobs, time_limit_s, progress, on)
    if target is not None:
        return _fit_table(campaign, data, target, options, seed)
    if not isinstance(campaign, str | Path | Mapping | Campaign):
        raise UsageError("a table alone is no campaign; say which column to predict: target=...")
    spec, frame, warnings = load_campaign(campaign)
    with naming(campaign):
        if data is None:
            file = Path(campaign) if isinstance(campaign, str | Path) else None
            data = frame if frame is not None else resolve_data_path(spec, file)
        return run_campaign(spec.with_seed(seed), read_dataset(data), options, warnings)


def _fit_table(table: Any, data: Any, target: str, options: RunOptions, seed: int | None) -> Fit:
    if data is not None or isinstance(table, Campaign | Mapping):
        raise UsageError("a target belongs to a table of runs; a campaign names its own")
    return run_automatic(read_dataset(table), target, options, seed=seed)
