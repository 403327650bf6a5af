"""After the search: choose hyperparameters, judge the winners, and build the models to keep."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from foretell.errors import ModelError
from foretell.files.directory import write_whole
from foretell.files.journal import Journal
from foretell.model.campaigns import AllRows
from foretell.model.campaigns.engine import Engine
from foretell.model.campaigns.intervals import (
    HeldOut,
    campaign_calibration,
    n_kept,
    selection_evidence,
)
from foretell.model.campaigns.record import Entry, Judgement, Record, spread
from foretell.model.campaigns.search import GridSearch, Search
from foretell.model.campaigns.study import Study, Trial, scores_from_json
from foretell.model.campaigns.validation import Scores
from foretell.model.campaigns.validation.outer_splits import ALL, CampaignSplits, OuterSplit
from foretell.model.campaigns.work import Outcome, Task
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
            entry.reason = _why_no_winner(entry, record.was_cut)
            continue
        entry.judgements = [Judgement(t.outer, t) for t in found]
        distinct = list({canonical(t.params): t.params for t in found}.values())
        entry.params = distinct[0]
        if len(distinct) > 1:
            search = GridSearch(distinct)
            studies.append(contest(engine, record.plan.final, entry.technique, search))
    if studies:
        record.was_cut |= engine.search(studies, n_closing=n_closing, is_optional=True)
    for study in studies:
        record.entry(study.technique).trials += study.trials
        best = study.best()
        if best is not None:
            record.entry(study.technique).params = best.params


def _winner(record: Record, entry: Entry, split: OuterSplit) -> Trial | None:
    complete = [t for t in entry.trials if t.outer == split.key and t.is_complete]
    return min(complete, key=lambda t: t.error(record.campaign.score), default=None)


def _why_no_winner(entry: Entry, was_cut: bool) -> str:
    reasons = [t.reason for t in entry.trials if t.reason]
    if reasons:
        return reasons[0]
    return "the time limit left no time for it" if was_cut else "no trial was complete"


def canonical(params: dict[str, Any]) -> str:
    """Write hyperparameters so that equal ones are equal texts."""
    return json.dumps(params, sort_keys=True)


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
            self._recall_held_out(entry)  # training models are calibrated on every call
            if (model := self._recalled_model(entry)) is not None:
                self._known[entry.technique] = model
        tasks = [task for entry in usable for task in self._tasks(entry)]
        for task, outcome in self.engine.run(tasks):
            self._enter(self.record.entry(task.technique), task, outcome)
        for entry in usable:
            self._finish(entry)
        for entry in self.record.entries:
            self._remove_stale(entry)

    def _tasks(self, entry: Entry) -> Iterator[Task]:
        """Yield the fit on all rows, the longest, first."""
        assert entry.params is not None
        if entry.technique not in self._known:
            yield Task(entry.technique, (entry.params,), ALL, score_training=True, keep_models=True)
            for key in self._selection_keys:
                if (entry.technique, key) not in self._held_out:
                    most = n_kept(len(self._selection_keys))
                    yield Task(entry.technique, (entry.params,), key, most_predictions=most)
        for judgement in entry.judgements:
            keep = self._keeps_training_model(judgement)
            if keep or (judgement.test is None and judgement.reason is None):
                yield Task(
                    entry.technique,
                    (judgement.trial.params,),
                    judgement.outer,
                    score_training=True,
                    keep_models=keep,
                    most_predictions=self.record.plan.n_predictions,
                )

    def _keeps_training_model(self, judgement: Judgement) -> bool:
        first = self.record.plan.outer[0].key
        return self.record.campaign.save_training_models and judgement.outer == first

    def _enter(self, entry: Entry, task: Task, outcome: Outcome) -> None:
        if task.split_key == ALL:
            self._built[entry.technique] = outcome
            entry.seconds = outcome.seconds
            return
        if task.split_key in self._selection_keys:
            self._enter_held_out(entry, task, outcome)
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
            self.journal.append([{"kind": "judgement", "judgement": judged.to_json()}])

    def _enter_held_out(self, entry: Entry, task: Task, outcome: Outcome) -> None:
        if outcome.predicted is None:
            return  # it failed on this fold, which then says nothing about its errors
        self._held_out[entry.technique, task.split_key] = outcome.predicted
        held_out = {"technique": entry.technique, "params": entry.params, "split": task.split_key}
        self.journal.append([{"kind": "held_out", **held_out, "predicted": outcome.predicted}])

    def _recall_held_out(self, entry: Entry) -> None:
        for r in self._records("held_out"):
            if (r["technique"], r["params"]) == (entry.technique, entry.params):
                self._held_out[entry.technique, r["split"]] = r["predicted"]

    def _calibration(self, entry: Entry) -> tuple[Calibration | None, str | None]:
        plan = self.record.plan
        held_out = [
            HeldOut(plan.splits[j.outer], plan.n_predictions, j.predicted)
            for j in entry.judgements
            if j.predicted is not None
        ]
        held_out += [
            HeldOut(plan.splits[key], n_kept(len(self._selection_keys)), predicted)
            for key in self._selection_keys
            if (predicted := self._held_out.get((entry.technique, key))) is not None
        ]
        return campaign_calibration(self.record.table, self.record.campaign.data.target, held_out)

    def _finish(self, entry: Entry) -> None:
        failed = [j.reason for j in entry.judgements if j.reason]
        built = self._built.get(entry.technique)
        if failed or (built is not None and built.reason):
            entry.reason = failed[0] if failed else built.reason if built else None
            return
        try:
            self._save_training_model(entry)
            model = self._known.get(entry.technique) or self._save(entry, built)
        except ModelError as error:  # it is too large
            entry.reason = str(error)
            return
        entry.model, entry.file = model, _file(entry)

    def _save_training_model(self, entry: Entry) -> None:
        if entry.technique in self._training_models:
            fitted, judged = self._training_models[entry.technique], entry.judgements[0]
            model = self._model(entry, judged.trial.params, fitted, judged.outer, judged.train)
            model.save(self.output / f"{entry.technique}-training.foretell")

    def _remove_stale(self, entry: Entry) -> None:
        """Remove a model that an earlier, shorter run wrote and this one does not have."""
        if entry.model is None:
            for name in (entry.technique, f"{entry.technique}-training"):
                (self.output / f"{name}.foretell").unlink(missing_ok=True)

    def _save(self, entry: Entry, built: Outcome | None) -> SavedModel:
        assert built is not None and built.fitted is not None and entry.params is not None
        model = self._model(entry, entry.params, built.fitted, ALL, built.train)
        content = model.to_bytes()
        write_whole(self.output / _file(entry), content)
        self.journal.append(
            [
                {
                    "kind": "model",
                    "technique": entry.technique,
                    "params": entry.params,
                    "winners": _winning_params(entry),
                    "sha256": _digest(content),
                }
            ]
        )
        return model

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
            writer=self.record.version,
        )

    def _recalled(self, judgement: Judgement) -> Judgement:
        """Take a judgement from the journal, if these hyperparameters were judged before."""
        trial = judgement.trial
        for r in self._records("judgement"):
            known = r["judgement"]
            if (known["outer"], known["technique"], known["params"]) == (
                judgement.outer,
                trial.technique,
                trial.params,
            ):
                return replace(
                    judgement,
                    train=scores_from_json(known["train"]) if known["train"] else None,
                    test=scores_from_json(known["test"]) if known["test"] else None,
                    predicted=known["predicted"],
                    reason=known["reason"],
                )
        return judgement

    def _recalled_model(self, entry: Entry) -> SavedModel | None:
        """Load the model built before, if its file is still the one that was written then."""
        path = self.output / _file(entry)
        for r in self._records("model"):
            # The file also holds the winners' validation errors.
            same = (r["technique"], r["params"], r["winners"]) == (
                entry.technique,
                entry.params,
                _winning_params(entry),
            )
            if same and (model := _loaded(path, r["sha256"])) is not None:
                return model
        return None

    def _records(self, kind: str) -> list[dict[str, Any]]:
        return [r for r in self.journal.records if r["kind"] == kind]


def _loaded(path: Path, digest: str) -> SavedModel | None:
    try:
        return load_model(path) if _digest(path.read_bytes()) == digest else None
    except (OSError, ModelError):
        return None  # to be built again


def _file(entry: Entry) -> str:
    return f"{entry.technique}.foretell"


def _winning_params(entry: Entry) -> list[dict[str, Any]]:
    return [j.trial.params for j in entry.judgements]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
