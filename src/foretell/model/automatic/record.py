"""What automatic mode found out: its models with their passports, and the results they give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell._version import __version__
from foretell.files.directory import write_whole
from foretell.model import directory as layout
from foretell.model.automatic.bench import Bench, RehearsedEnsemble
from foretell.model.automatic.effects import columns_without_effect
from foretell.model.automatic.ensemble import NAME as ENSEMBLE
from foretell.model.automatic.explanation import (
    describe_cliffs,
    explained_share,
    find_plateaus,
)
from foretell.model.automatic.leakage import suspicious_columns
from foretell.model.automatic.left_out import grows_with_every_row
from foretell.model.automatic.members import LAWS, member_spec
from foretell.model.automatic.rehearsal import (
    Answers,
    calibrate_member,
    errors_by_question,
    rank,
)
from foretell.model.campaigns.schema import Campaign
from foretell.model.evidence import HeldOut, of_rehearsals
from foretell.model.fitter import FLOOR_SHARE, FittedModel
from foretell.model.passports.measured_range import training_levels, training_ranges
from foretell.model.passports.questions import QUESTIONS, QuestionKind
from foretell.model.results.schema import (
    AUTOMATIC,
    Explanation,
    LeaderboardEntry,
    Rehearsals,
    Results,
)
from foretell.model.results.shared import shared_results
from foretell.model.saved.export import formula_text
from foretell.model.saved.model import SavedModel
from foretell.model.saved.shares import column_shares
from foretell.model.table import Table
from foretell.model.techniques import TECHNIQUES, Regressor
from foretell.wording import percent


@dataclass
class AutomaticRecord:
    """Everything that one automatic fit found out.

    Attributes
    ----------
    fits
        The members and laws that were fitted, by name.
    answers
        What each of them predicted in rehearsals.
    seconds, reasons
        How long each fit took, and why the others failed.
    used
        The rows of the table that models were fitted on.
    n_lower_bounds
        Runs beside the table that were stopped at a time limit.
    """

    campaign: Campaign
    table: Table
    bench: Bench
    fits: dict[str, Regressor]
    assembled: RehearsedEnsemble
    answers: list[Answers]
    seconds: dict[str, float]
    reasons: dict[str, str]
    notes: list[str]
    used: NDArray[np.int64]
    n_lower_bounds: int
    is_cut: bool
    drop_missing: bool

    @cached_property
    def models(self) -> dict[str, SavedModel]:
        """The ensemble, then the members and laws that were fitted, as saved models."""
        ensemble = self.assembled.regressor
        members = {"members": [m.name for m in ensemble.members]}
        models = {ENSEMBLE: self._saved(ENSEMBLE, members, ensemble, None)}
        for name, regressor in self.fits.items():
            technique, params = member_spec(name).build()
            position = self.assembled.names.index(name)
            models[name] = self._saved(technique.name, params, regressor, position)
        return models

    def save_models(self, directory: Path) -> None:
        """Write every model, each file whole."""
        for name, model in self.models.items():
            write_whole(directory / layout.model_file(name), model.to_bytes())

    def _saved(
        self, technique: str, params: dict[str, Any], regressor: Regressor, member: int | None
    ) -> SavedModel:
        table = self.table
        rebuild = TECHNIQUES.get(technique).regressor.from_state
        rebuilt = rebuild(regressor.to_state(), table.x.shape[1])
        smallest = float(table.y.min())
        names = [feature.factors[0].column for feature in table.feature_map.features]
        errors = errors_by_question(self.answers, member)
        return SavedModel(
            technique=technique,
            hyperparameters=params,
            target=self.campaign.data.target,
            feature_map=table.feature_map,
            fitted=FittedModel(np.arange(len(names)), None, rebuilt, FLOOR_SHARE * smallest),
            rename={},
            ranges=training_ranges(table.feature_map, table.frame),
            n_rows=len(self.used),
            scores={"validation": {"mape": errors["inside"]}, "rehearsed": errors},
            writer=__version__,
            levels=training_levels(table.feature_map, table.frame),
            calibration=calibrate_member(self.bench, self.answers, member, names),
        )

    def held_out(self) -> list[HeldOut]:
        """Return what the ensemble predicted of runs held out in rehearsals."""
        return list(of_rehearsals(self.table, self.answers, self.used))

    def results(self, elapsed_s: float) -> Results:
        """Return the results."""
        seconds = {ENSEMBLE: sum(self.seconds.values()), **self.seconds}
        best = self.models[ENSEMBLE]
        return Results(
            kind=AUTOMATIC,
            best=ENSEMBLE,
            search_cut_by_time_limit=self.is_cut,
            notes=self._notes(),
            warnings=[],
            leaderboard=self._leaderboard(),
            rehearsals=Rehearsals(planned=len(self.bench.folds), done=len(self.assembled.folds)),
            explanation=self._explanation(),
            reaches=best.reaches,
            errors_by_column=best.errors,
            drop_missing=self.drop_missing,
            **shared_results(
                self.campaign,
                self.table,
                elapsed_s,
                seconds,
                n_used=len(self.used),
                n_lower_bounds=self.n_lower_bounds,
            ),
        )

    @cached_property
    def _without_effect(self) -> list[str]:
        """The columns that matter no more than chance; unknown if the time limit cut the fit."""
        if self.is_cut:
            return []
        return columns_without_effect(self.bench, self.table.feature_map)

    @cached_property
    def _shares(self) -> dict[str, float]:
        return column_shares(self.models[ENSEMBLE], self._without_effect)

    def _column_notes(self) -> Iterator[str]:
        """Point at columns that look like results or numbers of runs; the model uses them."""
        target = self.campaign.data.target
        suspicious = suspicious_columns(self.table)
        for name in suspicious.derived:
            share = percent(self._shares.get(name, 0.0))
            yield (
                f"Column '{name}' looks derived from the target: it gives {target} almost alone, "
                f"and differs from run to run as {target} does ({share} of what matters). If it is "
                "not known before a run, fit again and skip it."
            )
        for name in suspicious.near:
            share = percent(self._shares.get(name, 0.0))
            yield (
                f"Column '{name}' gives {target} up to a few percent ({share} of what matters). If "
                "it is known only after a run, as an energy or a bill is, fit again and skip it."
            )
        for name in self._without_effect:
            if grows_with_every_row(self.table.frame[name]):
                yield (
                    f"Column '{name}' grows with every row, as numbers and dates of runs do, and "
                    f"has no effect on {target}. If it is not a setting, fit again and skip it."
                )

    def _notes(self) -> list[str]:
        notes = [*self.notes, *self._column_notes()]
        done, planned = len(self.assembled.folds), len(self.bench.folds)
        if self.is_cut and done == planned:
            notes.append(
                "The time limit cut the preparation or left out models, and another run may differ."
            )
        elif self.is_cut:
            notes.append(
                f"The time limit cut the rehearsals after {done} of {planned}: weights and "
                "intervals rest on fewer, and another run may differ."
            )
        return notes

    def _leaderboard(self) -> list[LeaderboardEntry]:
        found = [
            LeaderboardEntry(
                technique=name,
                status="ok",
                file=layout.model_file(name),
                votes=name in self.bench.voters,
                hyperparameters=model.hyperparameters,
                errors=model.scores["rehearsed"],
                features=model.used_features,
                formula=formula_text(model),
            )
            for name, model in self.models.items()
        ]
        found[1:] = sorted(found[1:], key=lambda entry: rank(entry.errors))
        failed = [
            LeaderboardEntry(
                technique=name, status="failed", reason=reason, errors=dict.fromkeys(QUESTIONS)
            )
            for name, reason in self.reasons.items()
            if name not in self.models
        ]
        return found + failed

    def _explanation(self) -> Explanation:
        best = self.models[ENSEMBLE]
        bench = self.bench
        of_run, _, log_y = bench.runs(np.arange(len(bench.points)))
        laws = {
            name: explained_share(log_y, np.log(self.fits[name].predict(bench.points.x))[of_run])
            for name in LAWS
            if name in self.fits
        }
        law = max(laws, key=lambda name: laws[name], default=None)
        names = self.table.feature_map.names
        return Explanation(
            law=law,
            formula=None if law is None else formula_text(self.models[law]),
            law_explains=None if law is None else laws[law],
            explains=self._explains(),
            shares=self._shares,
            without_effect=self._without_effect,
            totals=[(names[a], names[b]) for a, b in bench.log_gp.totals],
            cliffs=describe_cliffs(bench, best),
            plateaus=find_plateaus(bench, best, names),
        )

    def _explains(self) -> float | None:
        """Return what the ensemble explains of runs held out at known values, if there are any."""
        found = [a for a in self.answers if a.fold.kind == QuestionKind.INSIDE]
        if not found:
            return None
        log_y, predicted = ([getattr(a, of) for a in found] for of in ("log_y", "combined"))
        return explained_share(np.concatenate(log_y), np.concatenate(predicted))
