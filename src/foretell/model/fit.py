"""The one path through the model stage: a campaign and its data in, saved models out."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from foretell.dataset import Dataset, read_dataset
from foretell.errors import NothingUsableError, UsageError
from foretell.executors import Executor, open_executor, single_threaded
from foretell.files.directory import JOURNAL, LOG, claimed, logged
from foretell.files.journal import Journal
from foretell.model import directory as layout
from foretell.model.campaign import SFS, Campaign
from foretell.model.campaign.sources import load_campaign, naming, resolve_data_path
from foretell.model.closing import Closing, decide
from foretell.model.engine import Clock, Engine, Progress
from foretell.model.fingerprint import fingerprint
from foretell.model.learner import Learner
from foretell.model.outputs import Fit, write_outputs
from foretell.model.plan_splits import OuterSplit, SplitPlan, plan_splits
from foretell.model.results import Entry, Record
from foretell.model.search import GridSearch, Search, TPESearch, search_space
from foretell.model.study import Study
from foretell.model.table import Table, prepare_table
from foretell.model.techniques import TECHNIQUES

if TYPE_CHECKING:
    import pandas as pd

    from foretell.model.automatic_outputs import AutomaticFit

#: Grid points per batch when racing: small enough that a good one stops many others early.
_RACING_BATCH = 8

#: Every job is a process that is started at once; a slip of the finger must not halt the machine.
_MOST_JOBS = 1024


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
) -> AutomaticFit: ...


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
) -> Fit | AutomaticFit:
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


def _fit_table(
    table: Any, data: Any, target: str, options: RunOptions, seed: int | None
) -> AutomaticFit:
    from foretell.model.automatic import run_automatic  # which builds on this module

    if data is not None or isinstance(table, Campaign | Mapping):
        raise UsageError("a target belongs to a table of runs; a campaign names its own")
    return run_automatic(read_dataset(table), target, options, seed=seed)


@dataclass(frozen=True)
class RunOptions:
    """How to run a campaign; none of it changes the result, but for a time limit that cuts.

    ``n_jobs`` is by default one, or every CPU of a cluster; ``on`` is ``ray`` or the address of a
    cluster, and otherwise this machine; ``started`` is when the time of the limit began, by the
    monotonic clock.
    """

    output: Path | None = None
    n_jobs: int | None = None
    time_limit_s: float | None = None
    progress: Callable[[Progress], None] | None = None
    on: str | None = None
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.n_jobs is not None and self.n_jobs < 1:
            raise UsageError(f"the number of jobs must be at least 1, not {self.n_jobs}")
        if self.n_jobs is not None and self.n_jobs > _MOST_JOBS:
            raise UsageError(f"the number of jobs must be at most {_MOST_JOBS}, not {self.n_jobs}")
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise UsageError(f"the time limit must be positive, not {self.time_limit_s:g} s")

    def executor(self, state: object, log: logging.Logger) -> Executor:
        """Open what runs tasks on a shared state."""
        return open_executor(state, self.n_jobs, self.on, log)


def run_campaign(
    campaign: Campaign, dataset: Dataset, options: RunOptions, warnings: Sequence[str] = ()
) -> Fit:
    """Run a checked campaign on a table; ``warnings`` go into the results."""
    dataset, notices = _usable(campaign, dataset)
    job = _Job(campaign, dataset, options, [*warnings, *notices])
    if options.output is not None:
        return job.run(options.output)
    with tempfile.TemporaryDirectory(prefix="foretell-") as output:
        return job.run(Path(output))


def _usable(campaign: Campaign, dataset: Dataset) -> tuple[Dataset, list[str]]:
    """Leave out failed runs and what is known only after a run, unless the campaign names it."""
    data = campaign.data
    old = {new: name for name, new in data.rename.items()}
    named = [
        *data.use_columns, *data.skip_columns, *data.categorical, *data.skip_rows_above,
        *data.rename,
    ]  # fmt: skip
    return dataset.for_target(
        old.get(data.target, data.target), [old.get(name, name) for name in named]
    )


@dataclass
class _Job:
    """One run of a campaign."""

    campaign: Campaign
    dataset: Dataset
    options: RunOptions
    warnings: list[str]

    def run(self, output: Path) -> Fit:
        """Prepare, search, decide, judge, build, report: top to bottom."""
        table = prepare_table(self.campaign, self.dataset)
        plan = plan_splits(self.campaign, table)
        self._check_selection(table)
        spaces = {
            name: search_space(name, given, self.campaign.search.method)
            for name, given in self.campaign.techniques.items()
        }
        with ExitStack() as stack:
            stack.enter_context(claimed(output))
            prints = fingerprint(self.campaign, self.dataset.frame)
            journal = stack.enter_context(Journal(output / JOURNAL, prints))
            log = stack.enter_context(logged(output / LOG))
            log.info("%d rows of %s, seed %d", len(table.y), table.name, self.campaign.seed)
            stack.enter_context(single_threaded())
            learner = self._learner(table, plan)
            executor = stack.enter_context(self.options.executor(learner, log))
            clock = Clock(self.options.started, self.options.time_limit_s)
            engine = Engine(executor, journal, clock, log, report=self.options.progress)
            studies = self._studies(engine, plan.outer, spaces)
            was_cut = engine.search(studies, n_closing=len(plan.outer) + 1)
            record = self._record(table, plan, studies, was_cut)
            decide(engine, record, contest=self._study)
            Closing(engine, record, journal, output).run()
            fit = Fit(record, output, elapsed_s=clock.elapsed_s)
            write_outputs(fit, record)
            log.info("done in %.1f s, best %s", clock.elapsed_s, fit.results["best"])
        if fit.results["best"] is None:
            reasons = [f"{e.technique}: {e.reason}" for e in record.entries if e.reason]
            listed = f" {output / layout.RESULTS} lists every trial." if self.options.output else ""
            raise NothingUsableError(f"no technique gave a model. {reasons[0]}.{listed}")
        return fit

    def _check_selection(self, table: Table) -> None:
        options, n_features = self.campaign.feature_selection, table.x.shape[1]
        if options is not None and (options.max_features or 0) > n_features:
            raise UsageError(
                f"must be at most the number of features, {n_features}, not {options.max_features}",
                at=("feature_selection", "max_features"),
            )
        if isinstance(options, SFS) and options.folds > len(table.y):
            raise UsageError(
                f"{options.folds} folds of {len(table.y)} rows leave some fold empty; "
                f"use at most {len(table.y)} folds",
                at=("feature_selection", "folds"),
            )

    def _learner(self, table: Table, plan: SplitPlan) -> Learner:
        features = table.feature_map.features
        indicators = np.flatnonzero([f.is_indicator for f in features])
        return Learner(
            self.campaign,
            table.x,
            table.y,
            table.configuration,
            indicators,
            plan.splits,
            table.feature_map.groups,
        )

    def _studies(
        self, engine: Engine, outer: tuple[OuterSplit, ...], spaces: dict[str, list[dict[str, Any]]]
    ) -> list[Study]:
        return [
            self._study(engine, split, name, search, number)
            for split in outer
            for name, space in spaces.items()
            for number, search in enumerate(self._searches(name, space))
        ]

    def _searches(self, name: str, space: list[dict[str, Any]]) -> list[Search]:
        options = self.campaign.search
        if options.method == "grid":
            return [GridSearch(space, batch_size=_RACING_BATCH if options.racing else None)]
        technique = TECHNIQUES.get(name)
        return [
            TPESearch(technique, c, n_trials=options.evaluations, seed=self.campaign.seed)
            for c in space
        ]

    def _study(
        self, engine: Engine, split: OuterSplit, name: str, search: Search, number: int = 0
    ) -> Study:
        return Study(
            split,
            name,
            search,
            number=number,
            score_name=self.campaign.score,
            is_racing=self.campaign.search.racing,
            finished=engine.finished,
        )

    def _record(self, table: Table, plan: SplitPlan, studies: list[Study], was_cut: bool) -> Record:
        from foretell._version import __version__

        entries = [
            Entry(name, [t for s in studies if s.technique == name for t in s.trials])
            for name in self.campaign.techniques
        ]
        return Record(
            self.campaign, table, plan, entries, self.warnings, was_cut, version=__version__
        )
