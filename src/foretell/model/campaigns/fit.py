"""Running a campaign from start to end: a campaign and its table in, saved models out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from foretell.dataset import Dataset
from foretell.errors import NothingUsableError, UsageError, listing
from foretell.model import directory as layout
from foretell.model.campaigns.closing import Closing, decide, most_closing_fits
from foretell.model.campaigns.engine import Engine
from foretell.model.campaigns.record import Entry, Record
from foretell.model.campaigns.schema import SFS, Campaign
from foretell.model.campaigns.search.searches import GridSearch, Search, TPESearch
from foretell.model.campaigns.search.space import search_space
from foretell.model.campaigns.study import Study
from foretell.model.campaigns.validation.splits import (
    OuterSplit,
    split_campaign,
)
from foretell.model.fingerprint import fingerprint
from foretell.model.fitter import Fitter
from foretell.model.results.fit import Fit, write_fit
from foretell.model.run_options import Clock, RunOptions
from foretell.model.table import Table, prepare_table, without_missing
from foretell.model.techniques import TECHNIQUES
from foretell.outcomes import OUTCOMES

#: Grid points per batch when racing: small enough that a good one stops many others early.
_RACING_BATCH = 8


def run_campaign(
    campaign: Campaign,
    dataset: Dataset,
    options: RunOptions,
    warnings: Sequence[str] = (),
    *,
    drop_missing: bool = False,
) -> Fit:
    """Run a checked campaign on a table; ``warnings`` go into the results."""
    dataset, notices = _usable(campaign, dataset)
    if drop_missing:
        dataset, dropped = without_missing(campaign, dataset)
        notices += dropped
    run = _CampaignRun(campaign, dataset, options, [*warnings], notices, drop_missing)
    return run.run()


def _usable(campaign: Campaign, dataset: Dataset) -> tuple[Dataset, list[str]]:
    """Leave out failed runs, and what was measured of runs unless the campaign names it.

    In a table of others, which columns are known before a run is for the campaign to say; one that
    probably is not gets a note.
    """
    data = campaign.data
    old = {new: name for name, new in data.rename.items()}
    named = [
        *data.use_columns, *data.skip_columns, *data.categorical, *data.skip_rows_above,
        *data.rename,
    ]  # fmt: skip
    target = old.get(data.target, data.target)
    found, notices = dataset.for_target(target, [old.get(name, name) for name in named])
    outcomes = [n for n in found.columns if n in OUTCOMES and n not in {target, *named}]
    if outcomes and not data.use_columns:
        notices.append(
            f"The model predicts from {listing(outcomes)}, which are known only after a run. To "
            "predict new runs, list them in skip_columns."
        )
    return found, notices


@dataclass
class _CampaignRun:
    """One campaign on its table, with how to run it."""

    campaign: Campaign
    dataset: Dataset
    options: RunOptions
    warnings: list[str]
    notices: list[str]
    drop_missing: bool

    def run(self) -> Fit:
        """Prepare, search, decide, judge, build and write, in this order."""
        table = prepare_table(self.campaign, self.dataset)
        plan = split_campaign(self.campaign, table)
        self._check_selection(table)
        spaces = {
            name: search_space(name, given, self.campaign.search.method)
            for name, given in self.campaign.techniques.items()
        }
        prints = fingerprint(self.campaign, self.dataset.frame)
        with self.options.opened(prints) as (output, journal, log):
            log.info("%d rows of %s, seed %d", len(table.y), table.name, self.campaign.seed)
            clock = Clock(self.options.started, self.options.time_limit_s)
            fitter = Fitter(self.campaign, table.x, table.y, table.configuration, plan.splits,
                            table.feature_map)  # fmt: skip
            with self.options.executor(fitter, log) as executor:
                engine = Engine(executor, journal, clock, log, report=self.options.progress)
                study = partial(self._study, fitter)
                studies = [
                    study(engine, split, name, search, number)
                    for split in plan.outer
                    for name, space in spaces.items()
                    for number, search in enumerate(self._searches(name, space))
                ]
                n_closing = most_closing_fits(plan)
                was_cut = engine.search(studies, n_closing=n_closing)
                entries = [
                    Entry(name, [t for s in studies if s.technique == name for t in s.trials])
                    for name in self.campaign.techniques
                ]
                record = Record(
                    self.campaign, table, plan, entries, self.warnings, self.notices, was_cut,
                    self.drop_missing,
                )  # fmt: skip
                decide(engine, record, contest=study, n_closing=n_closing)
                Closing(engine, record, journal, output).run()
            fit = write_fit(record, output, clock.elapsed_s)
            log.info("done in %.1f s, best %s", clock.elapsed_s, fit.results.best)
        if fit.results.best is None:
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
        self,
        fitter: Fitter,
        engine: Engine,
        split: OuterSplit,
        name: str,
        search: Search,
        number: int = 0,
    ) -> Study:
        return Study(
            split,
            name,
            search,
            number=number,
            score_name=self.campaign.score,
            is_racing=self.campaign.search.racing,
            finished=engine.finished,
            groups=fitter.groups,
        )
