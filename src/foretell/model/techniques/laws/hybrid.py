"""Hybrid: a law, and a model of what the law leaves over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from foretell.model.techniques._base import (
    Array,
    Hyperparameter,
    LogTechnique,
    Params,
    Regressor,
    State,
    Technique,
    TrainingRows,
    complete,
)
from foretell.model.techniques._state import (
    join_states,
    part_of,
    read_array,
    read_word,
    regressor_class,
)
from foretell.model.techniques._values import one_of
from foretell.model.techniques.points.merging import merge
from foretell.model.techniques.points.robust import log_band
from foretell.model.techniques.processes._process import MOST_KEPT, Points, fit_process
from foretell.model.techniques.processes.log_gp import LogGPRegressor

_LAWS = ("ScalingLaw", "PowerLaw")
_RESTS = {"process": "LogGP", "trees": "LightTrees", "boosting": "XGBoost"}
_STEPS, _FEW_STEPS = 40, 8
#: Fewer trees than usual alone: they only correct. Boosting is for tables of many rows.
_SETTINGS: dict[str, dict[str, Any]] = {
    "ScalingLaw": {"terms": "many"},
    "LightTrees": {"n_estimators": 40},
    "XGBoost": {"n_estimators": 300, "max_depth": 6, "learning_rate": 0.1, "gamma": 0.0},
}
_LEAST_FACTOR = 1e-3  # of the law: boosted trees do not know that times are positive


@dataclass(frozen=True, eq=False)
class HybridRegressor(Regressor):
    """The law times the rest, which stays outside the data what it was at the border."""

    law_name: str
    law: Regressor
    rest_name: str
    rest: Regressor
    low: Array
    high: Array

    def predict(self, x: Array) -> Array:
        """Return one prediction per row of ``x``."""
        factor = np.maximum(self.rest.predict(np.clip(x, self.low, self.high)), _LEAST_FACTOR)
        return self.law.predict(x) * factor

    def start(self) -> HybridRegressor | None:
        """Return itself where its process may serve again."""
        return self if self.rest.start() is not None else None

    def importances(self) -> Array | None:
        """Return the shares of the columns in the law."""
        return self.law.importances()

    def to_state(self) -> State:
        """Return the states of both."""
        both = join_states({"law": self.law.to_state(), "rest": self.rest.to_state()})
        names = {"law_name": self.law_name, "rest_name": self.rest_name}
        return State({**both.values, **names}, {**both.arrays, "low": self.low, "high": self.high})

    @classmethod
    def from_state(cls, state: State, n_features: int) -> HybridRegressor:
        """Rebuild, or raise ValueError."""
        law_name = read_word(state, "law_name", _LAWS)
        rest_name = read_word(state, "rest_name", tuple(_RESTS))
        law = regressor_class(law_name).from_state(part_of(state, "law"), n_features)
        rest = regressor_class(_RESTS[rest_name]).from_state(part_of(state, "rest"), n_features)
        low = read_array(state, "low", shape=(n_features,))
        high = read_array(state, "high", shape=(n_features,))
        return cls(law_name, law, rest_name, rest, low, high)


class HybridTechnique(LogTechnique):
    """Fit a law to the medians of repeats, and a process or trees to the ratio to it."""

    name = "Hybrid"
    regressor = HybridRegressor
    hyperparameters = (
        Hyperparameter(
            "law", "ScalingLaw", one_of({name.lower(): name for name in _LAWS}), grid=_LAWS
        ),
        Hyperparameter("rest", "process", one_of(tuple(_RESTS)), grid=tuple(_RESTS)),
    )

    def fit(self, prepared: TrainingRows, params: Params, seed: int) -> HybridRegressor:
        """Fit the law, then the rest."""

        def fit(technique: Technique, rows: TrainingRows, settings: Params) -> Regressor:
            return technique.fit(technique.prepare(rows), settings, seed)

        return _hybrid(prepared, params, seed, None, fit)

    def refit(
        self, rows: TrainingRows, params: Params, seed: int, start: Regressor | None
    ) -> HybridRegressor:
        """Fit both again quickly, the process from the parameters it had."""

        def refit(technique: Technique, rows: TrainingRows, settings: Params) -> Regressor:
            return technique.refit(rows, settings, seed, None)

        return _hybrid(rows, params, seed, start, refit)


def _hybrid(
    rows: TrainingRows,
    params: Params,
    seed: int,
    start: Regressor | None,
    fit: Callable[[Technique, TrainingRows, Params], Regressor],
) -> HybridRegressor:
    from foretell.model.techniques import TECHNIQUES  # it holds this module's technique, too

    def fitted(name: str, rows: TrainingRows) -> Regressor:
        technique = TECHNIQUES.get(name)()
        return fit(technique, rows, complete(technique, _SETTINGS.get(name, {})))

    points = merge(rows)[0]
    rows = points.as_rows()
    law = fitted(params["law"], rows)
    log_ratio = points.log_y - np.log(law.predict(points.x))
    if params["rest"] == "process":
        rest: Regressor = _process(replace(points, log_y=log_ratio), seed, start)
    else:
        rest = fitted(_RESTS[params["rest"]], replace(rows, y=np.exp(log_ratio)))
    low, high = points.x.min(axis=0), points.x.max(axis=0)
    return HybridRegressor(params["law"], law, params["rest"], rest, low, high)


def _process(points: Points, seed: int, start: Regressor | None) -> LogGPRegressor:
    points = points.sample(MOST_KEPT, seed)
    process, steps = None, _STEPS
    if isinstance(start, HybridRegressor) and isinstance(start.rest, LogGPRegressor):
        process, steps = start.rest.process, _FEW_STEPS
    fitted = fit_process(points, "residual", start=process, most_steps=steps, seed=seed)
    return LogGPRegressor(fitted.process, 0.0, points.noise or 0.0, *log_band(points.log_y))
