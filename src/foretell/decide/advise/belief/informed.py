"""Predictions of a model mixed with what the runs nearby say, and plans that rest on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset
from foretell.decide.advise.belief.coordinates import Coordinates
from foretell.decide.advise.belief.error_field import Array, log_sizes
from foretell.decide.advise.belief.explanations import Process
from foretell.decide.advise.past_runs import PastRuns
from foretell.decide.plan.plan import Planner
from foretell.decide.question.objective import PlanRequest
from foretell.predictor import (
    TRUST_INSIDE,
    Forecast,
    Outlook,
    Predictor,
    Quantiles,
    n_training_rows,
)

_ENDS = (0.05, 0.95)
#: The most risk that a plan takes with what was never run, if no other risk is asked for.
_MOST_RISK = 0.05
#: With fewer measured configurations, what runs say counts outside the data, too. And a model of
#: fewer runs is less sure than it says: its errors were rehearsed on even fewer.
_FEW = 30


def inform(predictors: Sequence[Predictor], past: PastRuns, seed: int) -> list[InformedPredictor]:
    """Let models know the runs that were made."""
    coordinates = Coordinates.of(predictors)
    return [
        InformedPredictor(predictor, Process.of(coordinates, past, predictor.target, seed))
        for predictor in predictors
    ]


def informed_planner(
    informed: Sequence[InformedPredictor],
    past: PastRuns,
    asked: PlanRequest,
    candidates: pd.DataFrame | Dataset | Path | str | None = None,
) -> Planner:
    """Check a question as for a plan; the plan is cautious about what was never run."""
    planner = Planner.of(informed, asked, candidates, past.broken)
    question = planner.chooser.question
    if asked.risk is None:
        question = replace(question, risk=min(question.risk, _MOST_RISK))
    measured = planner.space.common(past.measured)
    chooser = replace(planner.chooser, question=question, measured=measured)
    return replace(planner, chooser=chooser if len(measured) else replace(chooser, measured=None))


@dataclass(frozen=True)
class InformedPredictor:
    """A model and a process through the runs; each counts as much as it is sure.

    A model of few runs is equally unsure of all configurations inside its data, follows no cliff
    between two runs, and cannot know how far off it is. So it counts little next to laws that were
    drawn without regard to the runs. With many runs it knows best what is outside the data, and
    counts alone there.
    """

    model: Predictor
    process: Process

    @property
    def target(self) -> str:
        """The name of what is predicted."""
        return self.model.target

    @property
    def columns(self) -> list[str]:
        """The columns a configuration needs."""
        return self.model.columns

    @property
    def ranges(self) -> Mapping[str, tuple[float, float]]:
        """The ranges of training."""
        return self.model.ranges

    @property
    def categories(self) -> Mapping[str, Sequence[str]]:
        """The levels of training."""
        return self.model.categories

    @property
    def has_intervals(self) -> bool:
        """Whether predictions have intervals."""
        return self.model.has_intervals

    def predict(self, frame: pd.DataFrame) -> Array:
        """Predict."""
        return self.outlook(frame, _ENDS).value

    def outlook(self, frame: pd.DataFrame, probabilities: Sequence[float]) -> Outlook:
        """Predict with quantiles."""
        from scipy.stats import norm

        found = self.model.outlook(frame, [*probabilities, *_ENDS])
        value, quantiles = found.value.copy(), found.quantiles.values[:, : len(probabilities)]
        rows, centers, deviations = self._mixed(frame, found)
        value[rows] = np.exp(centers)
        quantiles = quantiles.copy()
        z = norm.ppf(np.asarray(probabilities, dtype=np.float64))
        quantiles[rows] = np.exp(centers[:, None] + np.outer(deviations, z))
        return replace(found, value=value, quantiles=Quantiles(tuple(probabilities), quantiles))

    def forecast(self, frame: pd.DataFrame, interval: float = 0.9) -> Forecast:
        """Predict with passports."""
        tail = (1 - interval) / 2
        found = self.model.forecast(frame, interval)
        ends = self.outlook(frame, (tail, 1 - tail))
        lower, upper = (
            np.where(np.isnan(old), old, ends.quantiles.at(p))
            for old, p in ((found.lower, tail), (found.upper, 1 - tail))
        )
        return replace(found, value=ends.value, lower=lower, upper=upper)

    def outside(self, frame: pd.DataFrame) -> list[str]:
        """Say in which columns configurations leave the data."""
        return self.model.outside(frame)

    def _mixed(self, frame: pd.DataFrame, found: Outlook) -> tuple[NDArray[np.int64], Array, Array]:
        """Return rows about which the runs say something, and the mean and deviation of the log.

        They are those of a mixture of both opinions, with weights that fall with their variances.
        Where they disagree, it is wide.
        """
        lower, upper = (found.quantiles.at(p) for p in _ENDS)
        n_runs = self.process.n_runs
        is_mixed = (found.trust == TRUST_INSIDE) | (n_runs <= _FEW)
        is_mixed &= (lower > 0) & (upper > lower) & np.isfinite(upper)
        rows = np.flatnonzero(is_mixed & (n_runs > 0))
        if not len(rows):
            return rows, np.zeros(0), np.zeros(0)
        mean, deviation = self.process.at(frame.iloc[rows])
        other, other_deviation = np.log(found.value[rows]), log_sizes(lower, upper, 0.0)[rows]
        other_deviation = other_deviation * max(_FEW / n_training_rows(self.model), 1.0)
        weight = other_deviation**2 / (deviation**2 + other_deviation**2)
        variance = weight * deviation**2 + (1 - weight) * other_deviation**2
        variance += weight * (1 - weight) * (mean - other) ** 2
        return rows, weight * mean + (1 - weight) * other, np.sqrt(variance)
