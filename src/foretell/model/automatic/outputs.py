"""What automatic mode leaves behind: models with passports, a leaderboard, an explanation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foretell.files.directory import write_whole
from foretell.model import directory as layout
from foretell.model.automatic.bench import Assembled, Bench
from foretell.model.automatic.explanation import column_shares, explained_share, find_plateaus
from foretell.model.automatic.members import LAWS, member_technique
from foretell.model.automatic.rehearsal import (
    QUESTIONS,
    Answers,
    calibrate_member,
    errors_by_question,
    rank,
)
from foretell.model.automatic.summary import automatic_leaderboard, automatic_summary
from foretell.model.campaigns import Campaign
from foretell.model.evidence import evidence_files, of_rehearsals
from foretell.model.fingerprint import versions
from foretell.model.fitter import FLOOR_SHARE, FittedModel
from foretell.model.passports.calibration import Calibration
from foretell.model.passports.measured_range import training_levels, training_ranges
from foretell.model.results import FORMAT, describe_table
from foretell.model.run_options import Clock
from foretell.model.saved.export import formula_text
from foretell.model.saved.model import SavedModel
from foretell.model.table import Table
from foretell.model.techniques import TECHNIQUES, Regressor

if TYPE_CHECKING:
    import pandas as pd

    from foretell.predictor import Forecast

ENSEMBLE = "Ensemble"


@dataclass
class Report:
    """Everything about one automatic fit."""

    campaign: Campaign
    table: Table
    bench: Bench
    fits: dict[str, Regressor]
    assembled: Assembled
    answers: list[Answers]
    seconds: dict[str, float]
    reasons: dict[str, str]
    notes: list[str]
    used: NDArray[np.int64]  # rows of the table
    is_cut: bool

    @cached_property
    def models(self) -> dict[str, SavedModel]:
        """The ensemble and everyone who was fitted, as saved models."""
        models = {ENSEMBLE: self._saved(ENSEMBLE, self.assembled.regressor, None)}
        for name, regressor in self.fits.items():
            models[name] = self._saved(name, regressor, self.assembled.names.index(name))
        return models

    def _saved(self, name: str, regressor: Regressor, member: int | None) -> SavedModel:
        technique, params = (
            (TECHNIQUES.get(ENSEMBLE)(), {"members": [m.name for m in regressor.members]})  # type: ignore[attr-defined]
            if member is None
            else member_technique(name)
        )
        table = self.table
        rebuilt = technique.regressor.from_state(regressor.to_state(), table.x.shape[1])
        smallest = float(table.y.min())
        columns = np.arange(table.x.shape[1])
        errors = self.errors(member)
        return SavedModel(
            technique=technique.name,
            hyperparameters=params,
            target=self.campaign.data.target,
            feature_map=table.feature_map,
            fitted=FittedModel(columns, None, rebuilt, FLOOR_SHARE * smallest),
            rename={},
            ranges=training_ranges(table.feature_map, table.frame),
            n_rows=len(table.y),
            scores={"validation": {"mape": errors["inside"]}, "rehearsed": errors},
            writer=_version(),
            levels=training_levels(table.feature_map, table.frame),
            calibration=self.calibration(member),
        )

    def errors(self, member: int | None) -> dict[str, float | None]:
        """Return the errors of a member, or of the ensemble, by question."""
        return errors_by_question(self.answers, member)

    def calibration(self, member: int | None) -> Calibration:
        """Return what is known of the errors of a member, or of the ensemble."""
        names = self.table.feature_map.names
        return calibrate_member(self.bench, self.answers, member, names)

    def evidence(self) -> dict[str, str]:
        """Return the runs, and what the ensemble predicted of those held out, as files."""
        held_out = list(of_rehearsals(self.table, self.bench, self.answers, self.used))
        return evidence_files(self.table, self.campaign.data.target, held_out)

    def to_json(self, clock: Clock) -> dict[str, Any]:
        """Return everything; what depends on the clock stands under ``times`` alone."""
        total = sum(self.seconds.values())
        return {
            "format": FORMAT,
            "foretell": _version(),
            "versions": versions(),
            "mode": "automatic",
            "best": ENSEMBLE,
            "data": describe_table(self.table, self.campaign.data.target),
            "search_cut_by_time_limit": self.is_cut,
            "rehearsals": {"planned": len(self.bench.folds), "done": len(self.assembled.folds)},
            "notes": self._notes(),
            "warnings": [],
            "leaderboard": self._leaderboard(),
            "explanation": self._explanation(),
            "reaches": self.calibration(None).reaches,
            "seed": self.campaign.seed,
            "times": {
                "total_s": round(clock.elapsed_s, 3),
                "fit_s": {ENSEMBLE: round(total, 3)}
                | {name: round(s, 3) for name, s in self.seconds.items()},
            },
        }

    def _notes(self) -> list[str]:
        notes = list(self.notes)
        if self.is_cut:
            done, planned = len(self.assembled.folds), len(self.bench.folds)
            notes.append(
                f"The time limit cut the rehearsals after {done} of {planned}: weights and "
                "intervals rest on fewer, and another run may differ."
            )
        return notes

    def _leaderboard(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        for name, model in self.models.items():
            entries.append(
                {
                    "technique": name,
                    "status": "ok",
                    "reason": None,
                    "votes": name in self.bench.voters,
                    "errors": model.scores["rehearsed"],
                    "formula": formula_text(model),
                    "file": f"{name}.foretell",
                }
            )
        entries[1:] = sorted(entries[1:], key=lambda entry: rank(entry["errors"]))
        failed = [
            {"technique": name, "status": "failed", "reason": reason, "votes": False,
             "errors": dict.fromkeys(QUESTIONS), "formula": None, "file": None}
            for name, reason in self.reasons.items()
            if name not in self.models
        ]  # fmt: skip
        return entries + failed

    def _explanation(self) -> dict[str, Any]:
        best = self.models[ENSEMBLE]
        bench = self.bench
        of_run, log_y = bench.runs(np.arange(len(bench.points)))
        laws = {
            name: explained_share(log_y, np.log(self.fits[name].predict(bench.points.x))[of_run])
            for name in LAWS
            if name in self.fits
        }
        law = max(laws, key=lambda name: laws[name], default=None)
        names = self.table.feature_map.names
        plateaus = find_plateaus(self.bench, best, names)
        return {
            "law": law,
            "formula": None if law is None else formula_text(self.models[law]),
            "law_explains": None if law is None else laws[law],
            "shares": column_shares(best),
            "totals": [[names[a], names[b]] for a, b in self.bench.log_gp.totals],
            "plateaus": [asdict(p) for p in plateaus],
        }


def _version() -> str:
    from foretell._version import __version__

    return __version__


class AutomaticFit:
    """A finished automatic fit: the ensemble, its members, and everything rehearsed on the way.

    Attributes
    ----------
    results
        What ``results.json`` holds.
    """

    def __init__(self, models: dict[str, SavedModel], results: dict[str, Any], directory: Path):
        self.models = models
        self.results = results
        self.directory = directory

    @property
    def best(self) -> SavedModel:
        """The ensemble."""
        return self.models[self.results["best"]]

    def predict(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Predict with the ensemble."""
        return self.best.predict(frame)

    def forecast(self, frame: pd.DataFrame, interval: float = 0.9) -> Forecast:
        """Predict with intervals and passports."""
        return self.best.forecast(frame, interval)

    @cached_property
    def leaderboard(self) -> pd.DataFrame:
        """One row per model: errors inside, between levels, and beyond the range."""
        return automatic_leaderboard(self.results)

    def __repr__(self) -> str:
        return automatic_summary(self.results)


def write_automatic(report: Report, output: Path, clock: Clock) -> AutomaticFit:
    """Write models and results, each file whole, and return them."""
    files = {f"{name}.foretell": model.to_bytes() for name, model in report.models.items()}
    files[layout.BEST] = files[f"{ENSEMBLE}.foretell"]
    for name, content in files.items():
        write_whole(output / name, content)
    results = report.to_json(clock)
    fit = AutomaticFit(report.models, results, output)
    texts = {
        layout.LEADERBOARD: fit.leaderboard.to_csv(index=False),
        layout.SUMMARY: automatic_summary(results),
        **report.evidence(),
        layout.RESULTS: json.dumps(results, indent=1, allow_nan=False) + "\n",
    }
    for name, text in texts.items():
        write_whole(output / name, text.encode())
    return fit
