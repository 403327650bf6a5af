"""Automatic mode, the one path: a table and a target in, an ensemble with passports out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset
from foretell.errors import DatasetError, NothingUsableError, UsageError
from foretell.executors import Executor
from foretell.files.journal import GroupedRecords, Journal
from foretell.model.automatic.bench import (
    Bench,
    FitTask,
    RehearsedEnsemble,
    answer,
    fit_member,
)
from foretell.model.automatic.cliffs import Cliff, find_cliffs
from foretell.model.automatic.left_out import left_out, nothing_shared
from foretell.model.automatic.lower_bounds import LowerBounds, expected_points, is_describable
from foretell.model.automatic.members import FEW_RUNS, LAWS, USUAL
from foretell.model.automatic.record import AutomaticRecord
from foretell.model.automatic.rehearsal import gather
from foretell.model.campaigns.schema import Campaign
from foretell.model.campaigns.sources import load_campaign
from foretell.model.campaigns.work import reason_of
from foretell.model.fingerprint import fingerprint
from foretell.model.results.fit import Fit, write_fit
from foretell.model.run_options import Clock, Progress, RunOptions
from foretell.model.table import (
    EVERY_COLUMN,
    ColumnChoice,
    Table,
    prepare_table,
    without_missing,
)
from foretell.model.techniques import Regressor, TrainingRows
from foretell.model.techniques.processes._process import Points
from foretell.wording import counted

Array = NDArray[np.float64]
Result = TypeVar("Result")

_FEWEST_ROWS = 3
#: Longer tables are sampled: more rows would add less accuracy than they cost time.
_MOST_ROWS = 50_000
#: Shares of a time limit after which merging repeats ends, no further member is fitted, no
#: rehearsal begins, and no member is fitted again with lower bounds. The rest is for explaining.
_MERGED_SHARE, _FITTED_SHARE, _REHEARSED_SHARE, _TAUGHT_SHARE = 0.3, 0.5, 0.8, 0.9


def automatic_campaign(target: str, columns: ColumnChoice, seed: int | None) -> Campaign:
    """Return the campaign that automatic mode stands for."""
    data = {
        "target": target,
        "use_columns": sorted(columns.use),
        "skip_columns": list(columns.skip),
        "categorical": list(columns.categorical),
    }
    spec, _, _ = load_campaign({"data": data, "techniques": {"Ensemble": {}}})
    return spec.with_seed(seed)


def run_automatic(
    dataset: Dataset,
    target: str,
    options: RunOptions,
    *,
    seed: int | None = None,
    columns: ColumnChoice = EVERY_COLUMN,
) -> Fit:
    """Fit the ensemble of automatic mode to a table."""
    dataset, timed_out = dataset.split_timed_out(target)
    dataset, notices = dataset.for_target(target, columns.named)
    dataset = replace(dataset, frame=dataset.frame[sorted(dataset.columns)])
    found = {} if columns.use else left_out(dataset, target)
    skipped = {name: note for name, note in found.items() if name not in columns.named}
    campaign = automatic_campaign(target, columns.without(list(skipped)), seed)
    if columns.drop_missing:
        dataset, dropped = _in_words_of_tables(lambda: without_missing(campaign, dataset))
        notices += dropped
    notes = [*notices, *skipped.values(), *nothing_shared(dataset, campaign.data)]
    return _AutomaticFit(
        campaign, dataset, timed_out, options, columns.drop_missing, notes=notes
    ).run()


@dataclass
class _AutomaticFit:
    campaign: Campaign
    dataset: Dataset
    timed_out: Dataset
    options: RunOptions
    drop_missing: bool
    seconds: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    used: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    is_cut: bool = False

    def run(self) -> Fit:
        """Prepare, merge repeats, fit, rehearse, weigh, report: top to bottom."""
        table = self._table()
        seed = self.campaign.seed
        known = [self.dataset.frame, self.timed_out.frame]
        prints = fingerprint(self.campaign, pd.concat([f for f in known if len(f)]))
        prints["campaign"] += " automatic"  # to tell it from a campaign with the same content
        with self.options.opened(prints) as (output, journal, log):
            log.info("%d rows of %s, seed %d", len(table.y), table.name, seed)
            bench = self._bench(table)
            cliffs = self._cliffs(table, bench)
            if cliffs:
                table = table.extended([cliff.feature(table.feature_map) for cliff in cliffs])
                bench = self._bench(table)
            with self.options.executor(bench, log) as executor:
                fits = self._fit(executor, bench)
                answers = self._rehearse(executor, bench, fits, journal)
            assembled = self._assemble(bench, fits, answers)
            bounds = self._bounds(table)
            beyond = _expected(bounds, bench, assembled.regressor)
            if beyond is not None:
                taught = replace(bench, beyond=beyond)
                with self.options.executor(taught, log) as executor:
                    again = self._fit_again(executor, taught, fits)
                if again is not None:
                    bench, fits = taught, again
                    assembled = self._assemble(bench, fits, answers)  # by the rehearsals above
            if bounds is not None:
                assembled = assembled.knowing(bounds.x)
            record = AutomaticRecord(
                self.campaign, table, bench, fits, assembled, gather(bench, assembled),
                self.seconds, self.reasons, self.notes, self.used, len(self.timed_out.frame),
                is_cut=self.is_cut, drop_missing=self.drop_missing,
            )  # fmt: skip
            record.save_models(output)
            fit = write_fit(record, output, self._clock.elapsed_s)
            log.info("done in %.1f s", self._clock.elapsed_s)
        return fit

    def _bench(self, table: Table) -> Bench:
        rows = self._rows(table)
        return Bench.of(rows, USUAL, self.campaign.seed, lambda: self._has_time(_MERGED_SHARE))

    def _cliffs(self, table: Table, bench: Bench) -> list[Cliff]:
        """Look for cliffs, if there are enough runs to tell them from chance, and the time."""
        if len(bench.merged.log_y) <= FEW_RUNS or not self._has_time(_MERGED_SHARE):
            return []
        beyond = _expected(self._bounds(table), bench, bench.log_gp)
        return find_cliffs(bench.points.joined(beyond), bench.log_gp, bench.seed)

    def _bounds(self, table: Table) -> LowerBounds | None:
        """Return what is known of runs that timed out; None if there are none."""
        if not len(self.timed_out.frame):
            return None
        return LowerBounds.of(self.timed_out, table, self.campaign.data.target)

    @cached_property
    def _clock(self) -> Clock:
        return Clock(self.options.started, self.options.time_limit_s)

    def _table(self) -> Table:
        table = _in_words_of_tables(lambda: prepare_table(self.campaign, self.dataset))
        if len(table.y) < _FEWEST_ROWS:
            raise DatasetError(
                f"{table.name} has {counted(len(table.y), 'row')} to learn from; a model needs "
                f"at least {_FEWEST_ROWS}. Measure more."
            )
        self._keep_describable(table)
        return table

    def _keep_describable(self, table: Table) -> None:
        """Keep the runs that timed out if their settings are such as some run had that did not."""
        is_known = is_describable(self.timed_out, table)
        if not is_known.all():
            self.notes.append(
                f"{counted(int((~is_known).sum()), 'run')} that timed out could not be used as a "
                "lower bound: a value is missing, or no run with such a value went well."
            )
            self.timed_out = self.timed_out.take(is_known)

    def _rows(self, table: Table) -> TrainingRows:
        """Take the rows in an order that depends on their content alone."""
        n_rows = len(table.y)
        self.used = np.lexsort([table.y, *table.x.T[::-1]])
        if n_rows > _MOST_ROWS:
            drawn = np.random.default_rng(self.campaign.seed).permutation(n_rows)[:_MOST_ROWS]
            self.used = self.used[np.sort(drawn)]
            self.notes.append(f"{_MOST_ROWS:,} of {n_rows:,} rows, drawn at random, were used.")
        groups = table.feature_map.groups
        return TrainingRows(table.x[self.used], table.y[self.used], np.ones(len(self.used)), groups)

    def _fit_again(
        self, executor: Executor, bench: Bench, fits: dict[str, Regressor]
    ) -> dict[str, Regressor] | None:
        """Fit all members with lower bounds; None if the time does not suffice for all."""
        reasons = dict(self.reasons)
        again = self._fit(executor, bench, _TAUGHT_SHARE)
        if set(again) == set(fits):
            return again
        self.reasons = reasons
        self.notes.append("The time limit left no time to learn from runs that timed out.")
        return None

    def _fit(
        self, executor: Executor, bench: Bench, share: float = _FITTED_SHARE
    ) -> dict[str, Regressor]:
        """Fit the voters on all points, and the laws, which explain.

        ``share``: of the time limit, after which no further member is fitted.
        """
        names = list(dict.fromkeys([*bench.voters, *LAWS]))
        done: dict[str, Regressor] = {}

        def wanted() -> Iterable[FitTask]:
            for i, name in enumerate(names):
                if i == 0 or self._has_time(share):
                    yield FitTask(name)
                else:
                    self.reasons[name] = "the time limit left no time for it"

        for task, result, *_ in executor.run(timed_fit, wanted()):
            if isinstance(result, Exception):
                self.reasons[task.member] = reason_of(result)
            else:
                done[task.member], self.seconds[task.member] = result
        fits = {name: done[name] for name in names if name in done}
        if not any(name in fits for name in bench.voters):
            first = next(iter(self.reasons.items()))
            raise NothingUsableError(f"no member gave a model. {first[0]}: {first[1]}.")
        return fits

    def _rehearse(
        self, executor: Executor, bench: Bench, fits: dict[str, Regressor], journal: Journal
    ) -> dict[int, dict[str, Array]]:
        """Answer the folds that the journal does not hold, as far as the time allows."""
        answers: dict[int, dict[str, Array]] = {}
        for r in journal.records:
            assert r["kind"] == "answer"
            if r["n_columns"] != bench.points.x.shape[1]:  # with another limit, no cliff was found
                continue
            answers.setdefault(r["fold"], {})[r["member"]] = np.array(r["log_y"])

        def wanted() -> Iterable[FitTask]:
            for task in bench.rehearsals(fits):
                assert task.fold is not None
                if task.member in answers.get(task.fold, {}) or task.member in self.reasons:
                    continue
                if not self._has_time(_REHEARSED_SHARE):
                    return
                yield task

        with GroupedRecords(journal) as records:
            for task, result, *_ in executor.run(answer, wanted()):
                assert task.fold is not None
                if isinstance(result, Exception):
                    self.reasons.setdefault(task.member, reason_of(result))
                    continue
                records.append(
                    {
                        "kind": "answer",
                        "fold": task.fold,
                        "member": task.member,
                        "n_columns": bench.points.x.shape[1],
                        "log_y": result.tolist(),
                    }
                )
                answers.setdefault(task.fold, {})[task.member] = result
                self._tell(sum(map(len, answers.values())), len(bench.folds) * len(fits))
        return answers

    def _tell(self, n_done: int, n_total: int) -> None:
        """Report progress, if somebody wants it."""
        if self.options.progress is not None:
            left_s = self._clock.elapsed_s / n_done * (n_total - n_done)
            self.options.progress(Progress(n_done, n_total, float("inf"), "mape", left_s))

    def _assemble(
        self, bench: Bench, fits: dict[str, Regressor], answers: dict[int, dict[str, Array]]
    ) -> RehearsedEnsemble:
        """Leave out members that failed in some fold, unless all did."""
        sound = {name: fit for name, fit in fits.items() if name not in self.reasons}
        if not any(name in sound for name in bench.voters):
            sound = fits
        kept = {
            fold: {name: values for name, values in by_name.items() if name in sound}
            for fold, by_name in answers.items()
        }
        for name in set(fits) - set(sound):
            del fits[name]
        return bench.assemble(sound, kept)

    def _has_time(self, share: float) -> bool:
        """Whether the time limit leaves time for the next step; if not, the result says so."""
        is_late = self._clock.is_past(share)
        self.is_cut |= is_late
        return not is_late


def _expected(bounds: LowerBounds | None, bench: Bench, model: Regressor) -> Points | None:
    """Return what runs that timed out teach a model; None if that is nothing."""
    if bounds is None:
        return None
    return expected_points(bounds, bench.merged, bench.log_gp, model, bench.seed)


def _in_words_of_tables(work: Callable[[], Result]) -> Result:
    """Leave the entries of a campaign out of errors: there is no campaign file to change."""
    try:
        return work()
    except (DatasetError, UsageError) as error:
        raise error.placed() from None


def timed_fit(bench: Bench, task: FitTask) -> tuple[Regressor, float]:
    """Fit a member on all points; also return how many seconds it took."""
    started = time.perf_counter()
    return fit_member(bench, task), time.perf_counter() - started
