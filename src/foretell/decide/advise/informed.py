"""Plans that know the runs that were made: they do not contradict or gamble away results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import Dataset
from foretell.decide.advise.error_field import Array, log_sizes
from foretell.decide.advise.past_runs import PastRuns
from foretell.decide.plan.assess import Figures
from foretell.decide.plan.choose import Chooser
from foretell.decide.plan.plan import Planner
from foretell.decide.question.objective import PlanRequest
from foretell.predictor import Forecast, Outlook, Predictor, Quantiles
from foretell.spaces.rows import places_in

_ENDS = (0.05, 0.95)
#: With this probability, a configuration never run must be better than those that were.
SURE = 0.8


def informed_planner(
    predictors: Sequence[Predictor],
    past: PastRuns,
    asked: PlanRequest,
    candidates: pd.DataFrame | Dataset | Path | str | None = None,
) -> Planner:
    """Check a question as for a plan, and answer it with what is known of past runs."""
    informed = [InformedPredictor(predictor, past) for predictor in predictors]
    planner = Planner.of(informed, asked, candidates, past.broken)
    if not all(predictor.has_intervals for predictor in predictors):
        return planner
    chooser = InformedChooser(**vars(planner.chooser), measured=past.measured)
    return replace(planner, chooser=chooser)


@dataclass(frozen=True)
class InformedChooser(Chooser):
    """Prefers configurations that were measured to those that are only predicted to be better."""

    measured: pd.DataFrame

    def scores(self, figures: Figures) -> Array:
        """Compare what was measured with the pessimistic end of what was not."""
        predicted = super().scores(figures)
        is_measured = np.zeros(len(figures), dtype=bool)
        is_measured[rows_in(figures.frame, self.measured)[0]] = True
        if not is_measured.any():
            return predicted
        return np.where(is_measured, predicted, figures.at(self.minimize, SURE))


@dataclass(frozen=True)
class InformedPredictor:
    """Predictions of a model, corrected at the configurations that were measured.

    There the mean of the runs counts as much as their number and their noise say, and the
    prediction as much as its interval says. No smooth model follows a cliff between two runs.
    """

    model: Predictor
    past: PastRuns

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
        """Predict; at measured configurations mostly what was measured."""
        value = self.model.predict(frame).copy()
        rows, centers, _ = self._measured(frame)
        value[rows] = centers
        return value

    def outlook(self, frame: pd.DataFrame, probabilities: Sequence[float]) -> Outlook:
        """Predict with quantiles."""
        from scipy.stats import norm

        found = self.model.outlook(frame, probabilities)
        rows, centers, deviations = self._measured(frame)
        value, quantiles = found.value.copy(), found.quantiles.values.copy()
        value[rows] = centers
        z = norm.ppf(np.asarray(probabilities, dtype=np.float64))
        quantiles[rows] = centers[:, None] * np.exp(np.outer(deviations, z))
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

    def _measured(self, frame: pd.DataFrame) -> tuple[NDArray[np.int64], Array, Array]:
        """Return the rows that were measured, what to expect there, and the deviation in logs."""
        rows, places = rows_in(frame, self.past.measured)
        if not len(rows):
            return rows, np.zeros(0), np.zeros(0)
        found = self.model.outlook(frame.iloc[rows], _ENDS)
        lower, upper = (found.quantiles.at(p) for p in _ENDS)
        # The interval of a model includes the noise of runs, which may be less than is assumed.
        noise = np.minimum(self.past.noise[self.target], log_sizes(lower, upper, 0.0))
        model = log_sizes(lower, upper, noise) ** 2
        runs = noise**2 / self.past.n_runs[places]
        weight = model / (model + runs)
        centers = np.log(found.value) * (1 - weight)
        centers += self.past.log_means[self.target][places] * weight
        return rows, np.exp(centers), np.sqrt(weight * runs + noise**2)


def rows_in(
    frame: pd.DataFrame, others: pd.DataFrame
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows that equal a row of another table, and the positions of those."""
    is_known = np.ones(len(frame), dtype=bool)
    for name in others.columns:  # comparing whole rows of a large table is slow
        is_known &= frame[name].isin(others[name].unique().tolist()).to_numpy()
    rows = np.flatnonzero(is_known)
    places = places_in(frame.iloc[rows], others)
    return rows[places >= 0], places[places >= 0]
