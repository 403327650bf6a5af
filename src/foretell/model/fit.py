"""Fitting, the one entry point: a campaign, or a table and its targets, in; saved models out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from foretell.dataset import Dataset, read_dataset
from foretell.errors import Option, StorageError, UsageError, listing
from foretell.model.automatic.fit import run_automatic
from foretell.model.campaigns.fit import run_campaign
from foretell.model.campaigns.schema import Campaign
from foretell.model.campaigns.sources import load_campaign, naming, resolve_data_path
from foretell.model.directory import BEST
from foretell.model.results.fit import Fit
from foretell.model.run_options import Progress, RunOptions
from foretell.model.table import EVERY_COLUMN, ColumnChoice

if TYPE_CHECKING:
    import pandas as pd


#: Endings that decide what a file is. Other files are tables if a target is given.
_TABLES, _CAMPAIGNS = {".csv", ".tsv", ".parquet", ".pq"}, {".toml", ".ini"}
_LEAST_LIMIT_S = 1e-3


@overload
def fit_model(
    source: str | Path | Mapping[str, Any] | Campaign | pd.DataFrame | Dataset,
    data: str | Path | pd.DataFrame | Dataset | None = None,
    *,
    target: str | None = None,
    use: Sequence[str] = (),
    skip: Sequence[str] = (),
    categorical: Sequence[str] = (),
    drop_missing: bool = False,
    racing: bool = False,
    output: str | Path | None = None,
    n_jobs: int | None = None,
    seed: int | None = None,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    on: str | None = None,
) -> Fit: ...


@overload
def fit_model(
    source: str | Path | pd.DataFrame | Dataset,
    *,
    target: list[str] | tuple[str, ...],
    use: Sequence[str] = (),
    skip: Sequence[str] = (),
    categorical: Sequence[str] = (),
    drop_missing: bool = False,
    output: str | Path | None = None,
    n_jobs: int | None = None,
    seed: int | None = None,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    on: str | None = None,
) -> dict[str, Fit]: ...


def fit_model(  # noqa: PLR0913 - all but the first two by name
    source: str | Path | Mapping[str, Any] | Campaign | pd.DataFrame | Dataset,
    data: str | Path | pd.DataFrame | Dataset | None = None,
    *,
    target: str | list[str] | tuple[str, ...] | None = None,
    use: Sequence[str] = (),
    skip: Sequence[str] = (),
    categorical: Sequence[str] = (),
    drop_missing: bool = False,
    racing: bool = False,
    output: str | Path | None = None,
    n_jobs: int | None = None,
    seed: int | None = None,
    time_limit_s: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    on: str | None = None,
) -> Fit | dict[str, Fit]:
    """Fit a table of runs automatically, or run a campaign.

    Parameters
    ----------
    source
        A table of runs (a file or a DataFrame), with a target; or a campaign: a TOML file, an
        aMLLibrary ``.ini`` file, a dict of the same shape, or a Campaign.
    data
        The table of runs of a campaign; by default the one the campaign names.
    target
        The column of a table to predict. With a list, one model per target is fitted, and a dict
        of fits is returned; no target is an input of another target's model.
    use, skip, categorical
        The columns of a table to predict from; those to leave out; numeric columns whose values
        are names. By default all columns are used.
    drop_missing
        Leave out rows with a missing value in a column that is used, instead of refusing them.
    racing
        Stop trials of a campaign as soon as they are clearly worse than the best.
    output
        Directory for the results; with several targets, each has a subdirectory. The same call
        on the same directory continues where it stopped. By default nothing is written.
    n_jobs
        Worker processes; by default one, or every CPU of a cluster. The result does not depend on
        it.
    time_limit_s
        End after about this many seconds; the result says when the limit cut the search.
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
    columns = ColumnChoice(tuple(use), tuple(skip), tuple(categorical), drop_missing)
    options = RunOptions(Path(output) if output else None, n_jobs, time_limit_s, progress, on)
    return FitRequest(source, data, target, columns, seed, racing).run(options)


@dataclass(frozen=True)
class FitRequest:
    """What to fit: a campaign, or a table with one target or several."""

    source: Any
    data: Any = None
    target: str | Sequence[str] | None = None
    columns: ColumnChoice = EVERY_COLUMN
    seed: int | None = None
    racing: bool = False

    def run(
        self, options: RunOptions, warn: Callable[[str], None] = lambda _: None
    ) -> Fit | dict[str, Fit]:
        """Fit; ``warn`` is called with each warning about a campaign as soon as it is read."""
        if not self.is_table:
            return self._run_campaign(options, warn)
        for name in ("data", "racing"):
            if getattr(self, name) not in (None, False):
                raise UsageError(
                    "a table of runs takes no such option, only a campaign does; leave it out",
                    option=Option(name),
                )
        dataset = read_dataset(self.source)
        if self.target is None:
            raise UsageError(
                f"{dataset.name} is a table of runs, with the columns {listing(dataset.columns)}; "
                "which of them to predict is missing.",
                remedy=("Name it with ", Option("target", "...")),
            )
        if not isinstance(self.target, str):
            return self._fit_targets(dataset, self.target, options)
        return run_automatic(dataset, self.target, options, seed=self.seed, columns=self.columns)

    @property
    def is_table(self) -> bool:
        """Whether the source is a table of runs, and not a campaign."""
        if isinstance(self.source, Mapping | Campaign):
            return False
        if not isinstance(self.source, str | Path):
            return True
        suffix = Path(self.source).suffix.lower()
        if suffix in _TABLES | _CAMPAIGNS:
            return suffix in _TABLES
        return self.target is not None

    def _run_campaign(self, options: RunOptions, warn: Callable[[str], None]) -> Fit:
        columns = self.columns
        given = {"target": self.target, "use": columns.use, "skip": columns.skip,
                 "categorical": columns.categorical}  # fmt: skip
        for name, value in given.items():
            if value:
                file = f"{self.source} is" if isinstance(self.source, str | Path) else "this is"
                raise UsageError(
                    f"{file} a campaign, which names its columns in its own [data] section; only a "
                    "table of runs takes this option",
                    option=Option(name),
                )
        campaign, frame, warnings = load_campaign(self.source)
        for warning in warnings:
            warn(warning)
        if self.racing:
            search = campaign.search.model_copy(update={"racing": True})
            campaign = campaign.model_copy(update={"search": search})
        with naming(self.source):
            data = self.data if self.data is not None else frame
            if data is None:
                own = Path(self.source) if isinstance(self.source, str | Path) else None
                data = resolve_data_path(campaign, own)
            return run_campaign(
                campaign.with_seed(self.seed),
                read_dataset(data),
                options,
                warnings,
                drop_missing=self.columns.drop_missing,
            )

    def _fit_targets(
        self, dataset: Dataset, targets: Sequence[str], options: RunOptions
    ) -> dict[str, Fit]:
        """Fit one model per target; the other targets are never inputs."""
        _check_targets(dataset, targets, self.columns, options.output)
        fits = {}
        for i, target in enumerate(targets):
            columns = self.columns.without([t for t in targets if t != target])
            share = _share_of(options, target, n_left=len(targets) - i)
            fits[target] = run_automatic(dataset, target, share, seed=self.seed, columns=columns)
        return fits


def _check_targets(
    dataset: Dataset, targets: Sequence[str], columns: ColumnChoice, output: Path | None
) -> None:
    option = Option("target")
    if not targets or len(set(targets)) < len(targets):
        raise UsageError(f"expected different columns, not {listing(targets)}", option=option)
    dataset.require(targets)
    used = [t for t in targets if t in columns.use]
    if used:
        raise UsageError(
            f"'{used[0]}' is a target, and a model must not see it; leave it out",
            option=Option("use", used[0]),
        )
    if output is None:
        return
    for target in targets:
        if target in {".", ".."} or "/" in target or "\\" in target or "\0" in target:
            raise UsageError(
                f"'{target}' cannot be the name of a directory; rename the column", option=option
            )
    if (output / BEST).exists():
        raise StorageError(
            f"{output} holds the fit of one target; several need another directory",
            option=Option("output"),
        )


def _share_of(options: RunOptions, target: str, n_left: int) -> RunOptions:
    """Give a target its subdirectory, a clock of its own, and an equal share of the time left."""
    now = time.monotonic()
    limit_s = options.time_limit_s
    if limit_s is not None:
        limit_s = max((options.started + limit_s - now) / n_left, _LEAST_LIMIT_S)
    output = None if options.output is None else options.output / target
    return replace(options, output=output, time_limit_s=limit_s, started=now)
