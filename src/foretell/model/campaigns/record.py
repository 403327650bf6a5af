"""What a campaign found out: trials, winners and models of each technique, and their results."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from foretell.model.campaigns.schema import AllRows, Campaign
from foretell.model.campaigns.study import Trial
from foretell.model.campaigns.validation.scores import SCORE_NAMES, Scores
from foretell.model.campaigns.validation.splits import CampaignSplits
from foretell.model.directory import model_file
from foretell.model.evidence import HeldOut, Validation
from foretell.model.passports.questions import QUESTIONS, mean_by_question
from foretell.model.results.schema import (
    CAMPAIGN,
    Errors,
    LeaderboardEntry,
    Results,
    SplitResult,
    Spread,
    TrialResult,
)
from foretell.model.results.shared import shared_results
from foretell.model.saved.model import SavedModel
from foretell.model.saved.shares import column_shares
from foretell.model.table import Table


@dataclass(frozen=True)
class Judgement:
    """One technique's winner of one outer split, fitted on its training rows and judged."""

    outer: str
    trial: Trial
    train: Scores | None = None
    test: Scores | None = None
    predicted: list[float] | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for the journal."""
        return {
            "outer": self.outer,
            "technique": self.trial.technique,
            "params": self.trial.params,
            "train": self.train.to_json() if self.train else None,
            "test": self.test.to_json() if self.test else None,
            "predicted": self.predicted,
            "reason": self.reason,
        }


@dataclass
class Entry:
    """Everything about one technique.

    ``reason`` says why there is no model, and is None when there is one.
    """

    technique: str
    trials: list[Trial]
    params: dict[str, Any] | None = None
    judgements: list[Judgement] = field(default_factory=list)
    model: SavedModel | None = None
    seconds: float = 0.0
    reason: str | None = None

    def selection_error(self, score_name: str) -> float:
        """Return the mean error of the winners on the selection splits: what ranks techniques."""
        if self.model is None or not self.judgements:
            return math.inf
        return float(np.mean([j.trial.error(score_name) for j in self.judgements]))


@dataclass
class Record:
    """Everything that one campaign found out.

    ``warnings`` are about the campaign file, ``notices`` about the table.
    """

    campaign: Campaign
    table: Table
    plan: CampaignSplits
    entries: list[Entry]
    warnings: list[str]
    notices: list[str]
    was_cut: bool
    drop_missing: bool

    @property
    def models(self) -> dict[str, SavedModel]:
        """The models by technique, the best first."""
        return {e.technique: e.model for e in self.ranked() if e.model is not None}

    def entry(self, technique: str) -> Entry:
        """Find the entry of a technique."""
        return next(e for e in self.entries if e.technique == technique)

    def ranked(self) -> list[Entry]:
        """List the techniques, best first; those without a model last, in campaign order."""
        return sorted(self.entries, key=lambda e: e.selection_error(self.campaign.score))

    def held_out(self) -> list[HeldOut]:
        """Return what the winners of the best technique predicted of validation rows."""
        return list(self._validation.predicted_by(self.ranked()[0]))

    @cached_property
    def _validation(self) -> Validation:
        return Validation(self.table, self.plan)

    def results(self, elapsed_s: float) -> Results:
        """Return the results."""
        seconds = {e.technique: e.seconds for e in self.entries}
        best = next(iter(self.models.values()), None)
        return Results(
            kind=CAMPAIGN,
            best=next(iter(self.models), None),
            search_cut_by_time_limit=self.was_cut,
            notes=self.notes(),
            warnings=self.warnings,
            leaderboard=[self._entry(e) for e in self.ranked()],
            trials=[self._trial(t) for e in self.entries for t in e.trials],
            reaches={} if best is None else best.reaches,
            errors_by_column=[] if best is None else best.errors,
            drop_missing=self.drop_missing,
            **shared_results(
                self.campaign, self.table, elapsed_s, seconds, n_used=len(self.table.y)
            ),
        )

    def notes(self) -> list[str]:
        """Say what a reader must know to judge the figures."""
        notes = list(self.notices)
        if self.was_cut:
            n_done = sum(len(e.trials) for e in self.entries)
            notes.append(f"The time limit cut the search after {n_done} trials.")
        if self.plan.repeats_straddle:
            notes.append(
                "Some splits have runs of one configuration on both sides, so errors there "
                "are those of configurations measured before, not of new ones."
            )
        if self.campaign.search.splits.method == "All":
            notes.append("Hyperparameters were chosen by training error (selection = All).")
        if self._judges_on_training_rows:
            notes.append("Validation errors are training errors (validation = All).")
        failed = sum(t.reason is not None for e in self.entries for t in e.trials)
        if failed:
            notes.append(f"{failed} trials failed; results.json gives each reason.")
        return notes

    @property
    def _judges_on_training_rows(self) -> bool:
        return isinstance(self.campaign.validation, AllRows)

    def _entry(self, entry: Entry) -> LeaderboardEntry:
        judged = [j for j in entry.judgements if j.test is not None and j.train is not None]
        return LeaderboardEntry(
            technique=entry.technique,
            reason=entry.reason,
            hyperparameters=entry.params,
            errors=self._errors(entry),
            n_trials=len(entry.trials),
            selection_error=_finite(entry.selection_error(self.campaign.score)),
            validation=spread([j.test for j in judged if j.test]),
            training=spread([j.train for j in judged if j.train]),
            splits=[self._split(j) for j in entry.judgements],
            **_model_fields(entry),
        )

    def _errors(self, entry: Entry) -> Errors:
        """Return the mean errors on validation rows by question; none on training rows."""
        if self._judges_on_training_rows:
            return dict.fromkeys(QUESTIONS)
        held_out = list(self._validation.predicted_by(entry))
        errors = [h.errors(self.table.y) for h in held_out]
        known = [np.isfinite(e) for e in errors]
        return mean_by_question(
            [e[k] for e, k in zip(errors, known, strict=True)],
            [h.question[k] for h, k in zip(held_out, known, strict=True)],
        )

    def _split(self, judgement: Judgement) -> SplitResult:
        run, _, split = judgement.outer.partition(".")
        return SplitResult(
            run=int(run),
            split=int(split),
            hyperparameters=judgement.trial.params,
            selection_error=_finite(judgement.trial.error(self.campaign.score)),
            training=judgement.train.to_json() if judgement.train else None,
            validation=judgement.test.to_json() if judgement.test else None,
            reason=judgement.reason,
        )

    def _trial(self, trial: Trial) -> TrialResult:
        is_stopped = trial.estimate is not None
        return TrialResult(
            split=trial.outer,
            technique=trial.technique,
            hyperparameters=trial.params,
            status="failed" if trial.reason else "stopped" if is_stopped else "ok",
            error=_finite(trial.error(self.campaign.score)),
            folds=[s.to_json() for s in trial.folds],
            reason=trial.reason,
        )


def _model_fields(entry: Entry) -> dict[str, Any]:
    """Describe the model of a technique, if it gave one."""
    model = entry.model
    if model is None:
        return {"status": "failed" if entry.trials else "untried"}
    coefficients, intercept = model.coefficients() or (None, None)
    return {
        "status": "ok",
        "file": model_file(entry.technique),
        "all_rows": model.scores.get("training"),
        "features": model.used_features,
        "formula": model.formula,
        "coefficients": coefficients,
        "intercept": intercept,
        "importances": model.importances(),
        "shares": column_shares(model),
        "notes": list(model.fitted.regressor.notes()),
    }


def spread(scores: list[Scores]) -> dict[str, Spread]:
    """Return mean and standard deviation of each score over the splits and runs."""
    found: dict[str, Spread] = {}
    for name in SCORE_NAMES:
        values = np.array([getattr(s, name) for s in scores], dtype=float)
        values = values[np.isfinite(values)]
        found[name] = Spread(
            mean=float(values.mean()) if len(values) else None,
            spread=float(values.std(ddof=1)) if len(values) > 1 else None,
        )
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
