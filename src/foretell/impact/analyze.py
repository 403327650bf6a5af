"""Analyzing impact, the one path: runs or a model in, which settings matter and why out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset, as_numbers, read_dataset
from foretell.decide.impact.costs import check_costs, front_of
from foretell.decide.impact.question import ImpactQuestion, Outcome
from foretell.decide.impact.ranges import HIGH, NOISE, CellTable, SettingImpact
from foretell.decide.impact.runs import Runs, prepare_runs
from foretell.decide.impact.spread import spreads_of
from foretell.decide.impact.tunings import Tuning, measured_tunings
from foretell.errors import ForetellError, Option, UsageError, listing
from foretell.impact.modelled import (
    KnownModel,
    modelled_impact,
    modelled_shares,
    modelled_tunings,
)
from foretell.impact.result import Impact, OutcomeImpact
from foretell.impact.sources import ModelSource, read_model_source
from foretell.model.fit import fit_model
from foretell.model.results.fit import Fit
from foretell.model.saved.model import SavedModel
from foretell.sensitivity.anova import anova_of_runs
from foretell.sensitivity.shares import VarianceShares, pooled

#: If less of the configurations than this lie in contexts, a model says what they do not.
_LEAST_IN_CONTEXTS = 0.5


def analyze_impact(
    source: str | Path | pd.DataFrame | Dataset | SavedModel | Fit,
    target: str | None = None,
    **asked: Any,
) -> Impact:
    """Find out which settings matter, how much, and what tuning them reaches.

    Parameters
    ----------
    source
        A table of runs, as a file, a DataFrame or a Dataset; or a model: a directory of a fit, a
        model file, a SavedModel, a Fit.
    target
        The column that is judged; by default that of the model.
    asked
        The rest by name: ``quality``, ``by``, ``system``, ``hyper``, ``skip``, ``levels``,
        ``better``, ``baseline``, ``seed``, and for costs ``price_per_hour``, ``machines``,
        ``price_per_gb``, ``out_gb``. See ``docs/reference/python.md``.

    >>> import pandas as pd
    >>> runs = pd.DataFrame({"threads": [1, 1, 2, 2] * 2, "log": ["on"] * 4 + ["off"] * 4,
    ...                      "time_s": [9.0, 9.1, 5.0, 5.1, 9.1, 9.0, 5.1, 5.0]})
    >>> found = analyze_impact(runs, "time_s")
    >>> found.level("threads"), found.level("log")
    ('high', 'within noise')
    """
    model = read_model_source(source)
    if model is not None:
        return analyze_source(model, target, **asked)
    assert not isinstance(source, SavedModel | Fit)
    if target is None:
        raise UsageError("a table needs a target: the column to judge", option=Option("target"))
    question = ImpactQuestion.of(target, **asked)
    check_costs(question)
    dataset = read_dataset(source)
    question = question.informed(dataset.better)
    return _Analysis(question, prepare_runs(dataset, question), dataset.name).run()


def analyze_source(model: ModelSource, target: str | None = None, **asked: Any) -> Impact:
    """Find out what matters to a model, by its runs where they tell, else by its predictions."""
    question = ImpactQuestion.of(target or model.known.model.target, **asked)
    check_costs(question)
    model.check(question)
    runs = prepare_runs(model.dataset(question.seed), question)
    known = {question.target: model.known}
    return _Analysis(question, runs, model.name, known, not model.has_runs).run()


@dataclass
class _Analysis:
    """One analysis under way; models are fitted when first needed."""

    asked: ImpactQuestion
    runs: Runs
    name: str
    known: dict[str, KnownModel] = field(default_factory=dict)
    is_of_model: bool = False
    notes: list[str] = field(default_factory=list)
    _fitted: dict[tuple[str, int], KnownModel | None] = field(default_factory=dict)

    def run(self) -> Impact:
        runs, asked = self.runs, self.asked
        tables = [CellTable(runs, outcome, asked.seed) for outcome in asked.outcomes]
        found = tuple(self._outcome(table) for table in tables)
        front = [] if self.is_of_model else front_of(
            tables[0], tables[1] if len(tables) > 1 else None, asked.cost
        )  # fmt: skip
        tunings = self._tunings(tables, found)
        self._note_noise(tables[0], found[0])
        self._note_twins()
        self._note_shares(found)
        self._note_left_out(tables, found)
        self._note_gaps()
        columns = list(asked.by)
        return Impact(
            asked,
            self.name,
            len(runs.frame),
            len(tables[0].counts),
            runs.n_repeats,
            runs.settings,
            tuple(w.name for w in runs.workloads),
            found,
            tuple(tunings),
            tuple(front),
            tuple(spreads_of(runs, asked.target, columns)) if columns else (),
            (*runs.notes, *dict.fromkeys(self.notes)),
            self.is_of_model,
        )

    def _outcome(self, table: CellTable) -> OutcomeImpact:
        runs, outcome = self.runs, table.outcome
        shares, far = self._shares(table)
        by_workload: dict[str, dict[str, SettingImpact | None]] = {}
        for i, workload in enumerate(runs.workloads):
            by_workload[workload.name] = {
                name: self._impact(table, j, i) for j, name in enumerate(runs.settings)
            }
        if len(runs.workloads) == 1:
            impacts = by_workload[runs.workloads[0].name]
        else:
            impacts = {name: self._overall(table, j) for j, name in enumerate(runs.settings)}
        return OutcomeImpact(
            outcome.name,
            outcome.is_lower_better,
            (outcome.high, outcome.medium),
            impacts,
            by_workload if len(runs.workloads) > 1 else {},
            pooled(list(shares.values())) if shares else None,
            shares if len(runs.workloads) > 1 else {},
            None if self.is_of_model else table.noise_share,
            far,
        )

    def _impact(self, table: CellTable, setting: int, workload: int) -> SettingImpact | None:
        cells = table.cells_of(workload)
        rows = self.runs.workloads[workload].rows
        if setting not in self.runs.take(rows).varied():
            return None
        if self._is_measured(table, setting, cells):
            return table.impact(setting, cells)
        known = self._model(table.outcome, workload)
        if known is None:
            return table.impact(setting, cells)
        name = self.runs.settings[setting]
        return modelled_impact(known, self.runs, name, table.outcome, rows, self.asked.seed)

    def _overall(self, table: CellTable, setting: int) -> SettingImpact | None:
        """Return the impact of a setting over the contexts of all workloads."""
        if self._is_measured(table, setting, np.arange(len(table.counts))):
            return table.impact(setting)
        name = self.runs.settings[setting]
        rows = np.arange(len(self.runs.frame))
        known = None if self._has_gaps() else self._model(table.outcome, 0)
        if known is None:
            return table.impact(setting)
        return modelled_impact(known, self.runs, name, table.outcome, rows, self.asked.seed)

    def _is_measured(self, table: CellTable, setting: int, cells: NDArray[np.int64]) -> bool:
        """Whether runs themselves tell what a setting does: enough differ in it alone."""
        if self.is_of_model:
            return False
        if len(table.contexts(setting, cells).cells) < _LEAST_IN_CONTEXTS * len(cells):
            return False
        return table.can_tell(setting, cells)

    def _shares(self, table: CellTable) -> tuple[dict[str, VarianceShares], float | None]:
        """Return the shares in each workload: exact on a full grid, else by a model."""
        found: dict[str, VarianceShares] = {}
        fars = []
        for i, workload in enumerate(self.runs.workloads):
            part = self.runs.take(workload.rows)
            varied = part.varied()
            if not varied:
                continue
            values = part.frame[table.outcome.name].to_numpy(float)
            logs = np.log(values) if table.outcome.is_ratio else values
            names = [self.runs.settings[j] for j in varied]
            # Columns that are empty in some runs only make cells of their own.
            exact = None
            if not self.is_of_model and _same_elsewhere(part, varied):
                exact = anova_of_runs(names, part.codes[:, varied], logs)
            if exact is not None:
                found[workload.name] = exact
                continue
            modelled = self._modelled_shares(table.outcome, i)
            if modelled is not None:
                found[workload.name], far = modelled
                fars.append(far)
        return found, float(np.mean(fars)) if fars else None

    def _modelled_shares(
        self, outcome: Outcome, workload: int
    ) -> tuple[VarianceShares, float] | None:
        known = self._model(outcome, workload)
        if known is None:
            return None
        own = self.runs.workloads[workload]
        try:
            return modelled_shares(known, self.runs, own, outcome, self.asked.seed)
        except ForetellError as error:
            self.notes.append(f"No shares of {outcome.name} in {own.name}: {error}")
            return None

    def _has_gaps(self) -> bool:
        """Whether some setting is missing in some runs, as if only some workloads have it."""
        return bool(self.runs.frame[list(self.runs.settings)].isna().any(axis=None))

    def _model(self, outcome: Outcome, workload: int) -> KnownModel | None:
        """Return a model of a result: the given one, or one that is fitted to the runs."""
        if outcome.name in self.known:
            return self.known[outcome.name]
        if self.is_of_model:
            return None
        key = (outcome.name, workload if self._has_gaps() else 0)
        if key not in self._fitted:
            self._fitted[key] = self._fit(outcome, workload)
        return self._fitted[key]

    def _fit(self, outcome: Outcome, workload: int) -> KnownModel | None:
        runs, asked = self.runs, self.asked
        columns = [*runs.settings, *asked.by]
        rows = np.arange(len(runs.frame))
        if self._has_gaps():
            rows = runs.workloads[workload].rows
            part = runs.take(rows)
            columns = [runs.settings[j] for j in part.varied()]
        frame = runs.frame.iloc[rows][[*columns, outcome.name]]
        mixed = [name for name in columns if _is_mixed(frame[name])]
        try:
            fit = fit_model(
                frame, target=outcome.name, categorical=mixed, seed=asked.seed, drop_missing=True
            )
        except ForetellError as error:
            self.notes.append(f"No model of {outcome.name} could be fitted: {error}")
            return None
        return KnownModel.of(fit)

    def _tunings(self, tables: list[CellTable], found: tuple[OutcomeImpact, ...]) -> list[Tuning]:
        asked, runs = self.asked, self.runs
        if not (asked.system or asked.hyper):
            if asked.baseline:
                self.notes.append(
                    "A baseline is where tuning begins: to tell what it reaches, name settings of "
                    "the system, or of what runs on it."
                )
            return []
        table, quality = tables[0], tables[1] if len(tables) > 1 else None
        tunings: list[Tuning] = []
        for i, workload in enumerate(runs.workloads):
            high = _high_settings(found, workload.name)
            own = None
            if not self.is_of_model:
                own = measured_tunings(table, quality, asked, i, high)
            if own is None:
                own = self._modelled_tunings(tables, i, high)
            tunings += own or []
        return tunings

    def _modelled_tunings(
        self, tables: list[CellTable], workload: int, high: set[str]
    ) -> list[Tuning] | None:
        known = [self._model(table.outcome, workload) for table in tables]
        if known[0] is None:
            name = self.runs.workloads[workload].name
            self.notes.append(f"No run of {name} has all settings at their baseline.")
            return None
        quality = known[1] if len(known) > 1 else None
        return modelled_tunings(known[0], quality, self.runs, self.asked, workload, high)

    def _note_gaps(self) -> None:
        """Name settings that only some runs of a workload have, as in searches with conditions."""
        runs = self.runs
        partly = {
            name
            for workload in runs.workloads
            for name in runs.settings
            if 0 < runs.frame[name].iloc[workload.rows].isna().mean() < 1
        }
        if partly:
            self.notes.append(
                f"Nothing is said of {listing(sorted(partly))}: empty in some runs of a workload "
                "only. Name the column that decides this as one that tells workloads apart."
            )

    def _note_twins(self) -> None:
        """Name settings that always change together, so that runs cannot tell them apart."""
        runs = self.runs
        n_levels = [len(np.unique(runs.codes[:, j])) for j in range(len(runs.settings))]
        for j, k in combinations(range(len(runs.settings)), 2):
            if n_levels[j] != n_levels[k] or n_levels[j] < 2:
                continue
            pairs = runs.codes[:, j] * (runs.codes[:, k].max() + 1) + runs.codes[:, k]
            if len(np.unique(pairs)) == n_levels[j]:
                one, other = runs.settings[j], runs.settings[k]
                self.notes.append(
                    f"{one} and {other} change together in all runs, so that what one does cannot "
                    f"be told from the other, and figures of both are wrong. Skip one of them."
                )

    def _note_shares(self, found: tuple[OutcomeImpact, ...]) -> None:
        """Say that shares are of next to nothing where all settings are within noise."""
        for outcome in found:
            levels = {own.level for own in outcome.impacts.values() if own is not None}
            if outcome.shares is not None and outcome.shares.noise is None and levels == {NOISE}:
                self.notes.append(
                    f"All settings are within noise for {outcome.name}: shares divide what little "
                    "the model takes for their effect."
                )

    def _note_left_out(self, tables: list[CellTable], found: tuple[OutcomeImpact, ...]) -> None:
        """Say in how many contexts a result is nowhere positive, so that there is no range."""
        for table, outcome in zip(tables, found, strict=True):
            told = []
            for j, name in enumerate(self.runs.settings):
                own = outcome.impacts[name]
                if own is not None and own.n_left_out:
                    told.append(f"{own.n_left_out} of {own.n_left_out + own.n_contexts} of {name}")
                elif own is None and table.is_nowhere_positive(j):
                    told.append(f"all of {name}")
            if told:
                self.notes.append(
                    f"A range of {outcome.name} is relative to its largest value. Contexts without "
                    f"a positive one were left out: {listing(told)}."
                )

    def _note_noise(self, table: CellTable, found: OutcomeImpact) -> None:
        if self.is_of_model:
            self.notes.append("There are no runs beside the model: all figures are modelled.")
            return
        if len(table.noise):
            return
        self.notes.append(
            "No configuration was run twice, so noise is not known: an effect counts if it is "
            "the same in all contexts."
        )
        single = [n for n, own in found.impacts.items() if own and own.noise_from == "nothing"]
        if single:
            self.notes.append(
                f"Of {listing(single)} there is one context only: its level is that of the range "
                "as it is, which may be noise. Run some configurations twice."
            )


def _is_mixed(column: pd.Series[Any]) -> bool:
    """Whether some levels of a setting are numbers and others names, as 5, 10 and None are."""
    is_name = np.isnan(as_numbers(column.dropna()))
    return bool(is_name.any() and not is_name.all())


def _same_elsewhere(part: Runs, varied: list[int]) -> bool:
    """Whether all settings that do not count as varied have one level, and add no cells."""
    others = [j for j in range(part.codes.shape[1]) if j not in varied]
    return all(len(np.unique(part.codes[:, j])) == 1 for j in others)


def _high_settings(found: tuple[OutcomeImpact, ...], workload: str) -> set[str]:
    """Name the settings whose impact on the target or the quality is high in a workload."""
    high: set[str] = set()
    for outcome in found:
        impacts: Mapping[str, SettingImpact | None] = outcome.by_workload.get(
            workload, outcome.impacts
        )
        high |= {name for name, own in impacts.items() if own is not None and own.level == HIGH}
    return high
