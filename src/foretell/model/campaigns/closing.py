"""After the search: choose hyperparameters, judge the winners, and build the models to keep."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from foretell._version import __version__
from foretell.errors import ModelError
from foretell.files.directory import write_whole
from foretell.files.journal import Journal
from foretell.model.campaigns.engine import Engine
from foretell.model.campaigns.intervals import (
    campaign_calibration,
    n_kept,
    selection_evidence,
)
from foretell.model.campaigns.record import Entry, Judgement, Record, spread
from foretell.model.campaigns.schema import AllRows
from foretell.model.campaigns.search.searches import GridSearch, Search
from foretell.model.campaigns.study import Study, Trial
from foretell.model.campaigns.validation.scores import Scores
from foretell.model.campaigns.validation.splits import ALL, CampaignSplits, OuterSplit
from foretell.model.campaigns.work import Outcome, Task
from foretell.model.directory import model_file
from foretell.model.fitter import FittedModel
from foretell.model.passports.calibration import Calibration
from foretell.model.passports.measured_range import training_levels, training_ranges
from foretell.model.saved.model import SavedModel, load_model

Contest = Callable[[Engine, OuterSplit, str, Search], Study]


def most_closing_fits(plan: CampaignSplits) -> int:
    """Return at most how many fits of each technique follow a search."""
    return len(plan.outer) + len(plan.final.selection_keys) + 1


def decide(engine: Engine, record: Record, *, contest: Contest, n_closing: int) -> None:
    """Choose each technique's hyperparameters by selection error alone.

    Every outer split has a winner. When winners differ, they are compared once more on selection
    splits of all rows.
    """
    studies = []
    for entry in record.entries:
        winners = [_winner(record, entry, split) for split in record.plan.outer]
        found = [t for t in winners if t is not None]
        if len(found) < len(winners):
            late = "the time limit left no time for it"
            other = late if record.was_cut else "no trial was complete"
            entry.reason = next((t.reason for t in entry.trials if t.reason), other)
            continue
        entry.judgements = [Judgement(t.outer, t) for t in found]
        distinct = list({json.dumps(t.params, sort_keys=True): t.params for t in found}.values())
        entry.params = distinct[0]
        if len(distinct) > 1:
            search = GridSearch(distinct)
            studies.append(contest(engine, record.plan.final, entry.technique, search))
    if studies:
        record.was_cut |= engine.search(studies, n_closing=n_closing, is_optional=True)
    for study in studies:
        record.entry(study.technique).trials += study.trials
        best = study.best
        if best is not None:
            record.entry(study.technique).params = best.params


def _winner(record: Record, entry: Entry, split: OuterSplit) -> Trial | None:
    complete = [t for t in entry.trials if t.outer == split.key and t.is_complete]
    return min(complete, key=lambda t: t.error(record.campaign.score), default=None)


@dataclass
class Closing:
    """The last fits: each winner on its training rows, each technique on all rows.

    Where validation rows are too few for intervals, the final hyperparameters are also fitted on
    the training rows of selection splits, and predict the rows held out there.
    """

    engine: Engine
    record: Record
    journal: Journal
    output: Path
    _built: dict[str, Outcome] = field(default_factory=dict)
    _training_models: dict[str, FittedModel] = field(default_factory=dict)
    _known: dict[str, SavedModel] = field(default_factory=dict)
    _held_out: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    @cached_property
    def _selection_keys(self) -> tuple[str, ...]:
        return selection_evidence(self.record.table, self.record.plan)

    def run(self) -> None:
        """Run what the journal does not hold yet, then write the model files."""
        usable = [e for e in self.record.entries if e.params is not None]
        for entry in usable:
            entry.judgements = [self._recalled(j) for j in entry.judgements]
            for r in self._records("held_out"):  # training models are calibrated on every call
                if (r["technique"], r["params"]) == (entry.technique, entry.params):
                    self._held_out[entry.technique, r["split"]] = r["predicted"]
            if (model := self._recalled_model(entry)) is not None:
                self._known[entry.technique] = model
        tasks = [task for entry in usable for task in self._tasks(entry)]
        for task, outcome in self.engine.run(tasks):
            self._enter(self.record.entry(task.technique), task, outcome)
        for entry in usable:
            self._finish(entry)
        for entry in self.record.entries:
            if entry.model is None:  # an earlier, shorter run may have left one
                for name in (entry.technique, f"{entry.technique}-training"):
                    (self.output / model_file(name)).unlink(missing_ok=True)

    def _tasks(self, entry: Entry) -> Iterator[Task]:
        """Yield the fit on all rows, the longest, first."""
        assert entry.params is not None
        if entry.technique not in self._known:
            yield Task(entry.technique, (entry.params,), ALL, score_training=True, keep_models=True)
            for key in self._selection_keys:
                if (entry.technique, key) not in self._held_out:
                    most = n_kept(len(self._selection_keys))
                    yield Task(entry.technique, (entry.params,), key, most_predictions=most)
        first = self.record.plan.outer[0].key
        for judgement in entry.judgements:
            keep = self.record.campaign.save_training_models and judgement.outer == first
            if keep or (judgement.test is None and judgement.reason is None):
                yield Task(
                    entry.technique,
                    (judgement.trial.params,),
                    judgement.outer,
                    score_training=True,
                    keep_models=keep,
                    most_predictions=self.record.plan.n_predictions,
                )

    def _enter(self, entry: Entry, task: Task, outcome: Outcome) -> None:
        if task.split_key == ALL:
            self._built[entry.technique] = outcome
            entry.seconds = outcome.seconds
            return
        if task.split_key in self._selection_keys:
            if outcome.predicted is not None:  # else the fold says nothing about its errors
                self._held_out[entry.technique, task.split_key] = outcome.predicted
                of = {"technique": entry.technique, "params": entry.params, "split": task.split_key}
                self._journal("held_out", **of, predicted=outcome.predicted)
            return
        position = [j.outer for j in entry.judgements].index(task.split_key)
        before = entry.judgements[position]
        judged = replace(
            before,
            train=outcome.train,
            test=outcome.test,
            predicted=outcome.predicted,
            reason=outcome.reason,
        )
        entry.judgements[position] = judged
        if outcome.fitted is not None:
            self._training_models[entry.technique] = outcome.fitted
        is_known = before.test is not None or before.reason is not None  # only the model was wanted
        if not (is_known or outcome.is_transient):
            self._journal("judgement", judgement=judged.to_json())

    def _journal(self, kind: str, **values: Any) -> None:
        self.journal.append([{"kind": kind, **values}])

    def _calibration(self, entry: Entry) -> tuple[Calibration | None, str | None]:
        plan = self.record.plan
        held_out = [
            (plan.splits[j.outer], plan.n_predictions, j.predicted)
            for j in entry.judgements
            if j.predicted is not None
        ]
        held_out += [
            (plan.splits[key], n_kept(len(self._selection_keys)), predicted)
            for key in self._selection_keys
            if (predicted := self._held_out.get((entry.technique, key))) is not None
        ]
        return campaign_calibration(self.record.table, self.record.campaign.data.target, held_out)

    def _finish(self, entry: Entry) -> None:
        failed = [j.reason for j in entry.judgements if j.reason]
        built = self._built.get(entry.technique)
        if built is not None and built.reason:
            failed.append(built.reason)
        if failed:
            entry.reason = failed[0]
            return
        try:
            if entry.technique in self._training_models:
                fitted, judged = self._training_models[entry.technique], entry.judgements[0]
                trained = self._model(
                    entry, judged.trial.params, fitted, judged.outer, judged.train
                )
                trained.save(self.output / model_file(f"{entry.technique}-training"))
            model = self._known.get(entry.technique) or self._save(entry, built)
        except ModelError as error:  # it is too large
            entry.reason = str(error)
            return
        entry.model = model

    def _save(self, entry: Entry, built: Outcome | None) -> SavedModel:
        assert built is not None and built.fitted is not None and entry.params is not None
        model = self._model(entry, entry.params, built.fitted, ALL, built.train)
        content = model.to_bytes()
        write_whole(self.output / model_file(entry.technique), content)
        self._journal("model", **self._origin(entry), sha256=_digest(content))
        return model

    def _origin(self, entry: Entry) -> dict[str, Any]:
        """Say what a model file comes from; it also holds the validation errors of the winners."""
        winners = [j.trial.params for j in entry.judgements]
        return {"technique": entry.technique, "params": entry.params, "winners": winners}

    def _model(
        self,
        entry: Entry,
        params: dict[str, Any],
        fitted: FittedModel,
        split_key: str,
        train: Scores | None,
    ) -> SavedModel:
        table = self.record.table
        rows = self.record.plan.splits[split_key].train
        scores = {}
        if not isinstance(self.record.campaign.validation, AllRows):  # else it is training error
            validation = spread([j.test for j in entry.judgements if j.test])
            scores["validation"] = {name: v.mean for name, v in validation.items()}
        if train is not None:
            scores["training"] = train.to_json()
        calibration, why_not = self._calibration(entry)
        return SavedModel(
            technique=entry.technique,
            hyperparameters=params,
            target=self.record.campaign.data.target,
            feature_map=table.feature_map,
            fitted=fitted,
            rename=self.record.campaign.data.rename,
            ranges=training_ranges(table.feature_map, table.frame.iloc[rows]),
            levels=training_levels(table.feature_map, table.frame.iloc[rows]),
            calibration=calibration,
            no_intervals=why_not,
            n_rows=len(rows),
            scores=scores,
            writer=__version__,
        )

    def _recalled(self, judgement: Judgement) -> Judgement:
        """Take a judgement from the journal, if these hyperparameters were judged before."""
        trial = judgement.trial
        wanted = {"outer": judgement.outer, "technique": trial.technique, "params": trial.params}
        for known in (r["judgement"] for r in self._records("judgement")):
            if all(known[name] == value for name, value in wanted.items()):
                return replace(
                    judgement,
                    train=Scores.from_json(known["train"]) if known["train"] else None,
                    test=Scores.from_json(known["test"]) if known["test"] else None,
                    predicted=known["predicted"],
                    reason=known["reason"],
                )
        return judgement

    def _recalled_model(self, entry: Entry) -> SavedModel | None:
        """Load the model built before, if its file is still the one that was written then."""
        path = self.output / model_file(entry.technique)
        known = [
            r["sha256"] for r in self._records("model")
            if all(r[name] == value for name, value in self._origin(entry).items())
        ]  # fmt: skip
        try:
            return load_model(path) if known and _digest(path.read_bytes()) in known else None
        except (OSError, ModelError):
            return None  # to be built again

    def _records(self, kind: str) -> list[dict[str, Any]]:
        return [r for r in self.journal.records if r["kind"] == kind]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
