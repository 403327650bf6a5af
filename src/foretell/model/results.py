"""What a campaign came to, as plain values: everything that is reported is derived from here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foretell.model.campaigns import Campaign
from foretell.model.campaigns.study import Trial
from foretell.model.campaigns.validation import Scores
from foretell.model.campaigns.validation.outer_splits import CampaignSplits
from foretell.model.campaigns.validation.scores import SCORE_NAMES
from foretell.model.fingerprint import versions
from foretell.model.saved.model import SavedModel
from foretell.model.table import Table

FORMAT = 1


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
    file: str | None = None
    seconds: float = 0.0
    reason: str | None = None

    @property
    def status(self) -> str:
        """Whether there is a model: ``ok``, ``failed``, or ``untried`` for want of time."""
        if self.model is not None:
            return "ok"
        return "failed" if self.trials else "untried"

    def selection_error(self, score_name: str) -> float:
        """Return the mean error of the winners on the selection splits: what ranks techniques."""
        if self.model is None or not self.judgements:
            return math.inf
        return float(np.mean([j.trial.error(score_name) for j in self.judgements]))


@dataclass
class Record:
    """Everything about one campaign."""

    campaign: Campaign
    table: Table
    plan: CampaignSplits
    entries: list[Entry]
    warnings: list[str]
    was_cut: bool
    version: str

    def entry(self, technique: str) -> Entry:
        """Find the entry of a technique."""
        return next(e for e in self.entries if e.technique == technique)

    def ranked(self) -> list[Entry]:
        """List the techniques, best first; those without a model last, in campaign order."""
        return sorted(self.entries, key=lambda e: e.selection_error(self.campaign.score))

    def to_json(self, elapsed_s: float) -> dict[str, Any]:
        """Return everything; what depends on the clock stands under ``times`` alone."""
        ranked = self.ranked()
        return {
            "format": FORMAT,
            "foretell": self.version,
            "versions": versions(),
            "best": ranked[0].technique if ranked[0].model is not None else None,
            "data": describe_table(self.table, self.campaign.data.target)
            | {"n_features": self.table.x.shape[1]},
            "search_cut_by_time_limit": self.was_cut,
            "notes": self.notes(),
            "warnings": self.warnings,
            "leaderboard": [self._entry(e) for e in ranked],
            "trials": [self._trial(t) for e in self.entries for t in e.trials],
            "campaign": self.campaign.model_dump(mode="json", exclude_none=True),
            "times": {
                "total_s": round(elapsed_s, 3),
                "fit_s": {e.technique: round(e.seconds, 3) for e in self.entries},
            },
        }

    def notes(self) -> list[str]:
        """Say what a reader must know to judge the figures."""
        notes = []
        if self.was_cut:
            n_done = sum(len(e.trials) for e in self.entries)
            notes.append(f"The time limit cut the search after {n_done} trials.")
        if self.plan.repeats_straddle:
            notes.append(
                "Repeats of one configuration stand on both sides of some split, so errors there "
                "are those of configurations measured before, not of new ones."
            )
        if self.campaign.search.splits.method == "All":
            notes.append("Hyperparameters were chosen by training error (selection = All).")
        if self.campaign.validation.method == "All":
            notes.append("Validation errors are training errors (validation = All).")
        failed = sum(t.reason is not None for e in self.entries for t in e.trials)
        if failed:
            notes.append(f"{failed} trials failed; results.json gives each reason.")
        return notes

    def _entry(self, entry: Entry) -> dict[str, Any]:
        judged = [j for j in entry.judgements if j.test is not None and j.train is not None]
        error = entry.selection_error(self.campaign.score)
        described: dict[str, Any] = {
            "technique": entry.technique,
            "status": entry.status,
            "reason": entry.reason,
            "hyperparameters": entry.params,
            "n_trials": len(entry.trials),
            "selection_error": error if math.isfinite(error) else None,
            "validation": spread([j.test for j in judged if j.test]),
            "training": spread([j.train for j in judged if j.train]),
            "splits": [self._judgement(j) for j in entry.judgements],
        }
        if entry.model is not None:
            described |= {
                "all_rows": entry.model.scores.get("training"),
                "features": entry.model.used_features,
                **_linear(entry.model),
                "importances": entry.model.importances(),
                "notes": entry.model.fitted.regressor.notes(),
                "file": entry.file,
            }
        return described

    def _judgement(self, judgement: Judgement) -> dict[str, Any]:
        run, _, split = judgement.outer.partition(".")
        return {
            "run": int(run),
            "split": int(split),
            "hyperparameters": judgement.trial.params,
            "selection_error": judgement.trial.error(self.campaign.score),
            "training": judgement.train.to_json() if judgement.train else None,
            "validation": judgement.test.to_json() if judgement.test else None,
            "reason": judgement.reason,
        }

    def _trial(self, trial: Trial) -> dict[str, Any]:
        error = trial.error(self.campaign.score)
        is_stopped = trial.estimate is not None
        status = "failed" if trial.reason else "stopped" if is_stopped else "ok"
        return {
            "split": trial.outer,
            "technique": trial.technique,
            "hyperparameters": trial.params,
            "status": status,
            "error": error if math.isfinite(error) else None,
            "folds": [s.to_json() for s in trial.folds],
            "reason": trial.reason,
        }


def describe_table(table: Table, target: str) -> dict[str, Any]:
    """Return what the results say of the runs."""
    return {
        "name": table.name,
        "target": target,
        "n_rows": len(table.y),
        "columns": [c.name for c in table.feature_map.columns],
        "n_configurations": table.n_configurations,
        "noise": repeat_noise(table),
    }


def _linear(model: SavedModel) -> dict[str, Any]:
    coefficients, intercept = model.coefficients() or (None, None)
    return {
        "formula": model.formula,
        "coefficients": coefficients,
        "intercept": intercept,
    }


def spread(scores: list[Scores]) -> dict[str, dict[str, float | None]]:
    """Return mean and standard deviation of each score over the splits and runs."""
    result: dict[str, dict[str, float | None]] = {}
    for name in SCORE_NAMES:
        values = np.array([getattr(s, name) for s in scores])
        values = values[np.isfinite(values)]
        if len(values):
            deviation = float(values.std(ddof=1)) if len(values) > 1 else None
            result[name] = {"mean": float(values.mean()), "spread": deviation}
        else:
            result[name] = {"mean": None, "spread": None}
    return result


def repeat_noise(table: Table) -> float | None:
    """Estimate the relative noise of a run: the median over repeated configurations."""
    counts = np.bincount(table.configuration)
    repeated = counts > 1
    if not repeated.any() or not (table.y > 0).all():
        return None
    logs = np.log(table.y)
    means = np.bincount(table.configuration, logs) / counts
    squares = np.bincount(table.configuration, (logs - means[table.configuration]) ** 2)
    deviations = np.sqrt(squares[repeated] / (counts[repeated] - 1))
    return float(np.median(deviations))
