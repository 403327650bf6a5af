"""What an Optuna trial costs: seconds per step by its parameters, learnt from those that ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial

from foretell.decide.tuning.epoch_law import EpochLaw, Features, Prior, Seen, frame_of
from foretell.decide.tuning.space import Space

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
#: Whole numbers beyond are drawn as any number: most of them are none in floating point.
_MOST_WHOLE = 2.0**53


def seconds_per_step(trial: FrozenTrial) -> float | None:
    """Return how long one step of a trial took, or the whole trial if it reported none."""
    if trial.duration is None:
        return None
    return max(trial.duration.total_seconds() / max(len(trial.intermediate_values), 1), 1e-9)


def space_of(distributions: Mapping[str, BaseDistribution]) -> Space | None:
    """Return the distributions of a study as a space; None if there are none."""
    found = {name: _values(d) for name, d in distributions.items()}
    return Space.model_validate({"hyperparameters": found}) if found else None


def _values(distribution: BaseDistribution) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return [plain(choice) for choice in distribution.choices]
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high = float(distribution.low), float(distribution.high)
    ends: dict[str, Any] = {"from": low, "to": high}
    if isinstance(distribution, FloatDistribution) or max(-low, high) > _MOST_WHOLE:
        ends["whole"] = False
    return ends | ({"spacing": "log"} if distribution.log else {})


def plain(value: Any) -> Any:
    """Return a parameter as a number, a name or a truth value; other objects by their name."""
    return value if isinstance(value, bool | int | float | str) else repr(value)


class LearntCosts:
    """A law of logarithms: what steps took, by parameters that the trials had."""

    def __init__(self, trials: Sequence[FrozenTrial]) -> None:
        timed = [(t, s) for t in trials if t.params and (s := seconds_per_step(t)) is not None]
        self._law: EpochLaw | None = None
        if len(timed) < 2:
            return
        frame = _frame([t.params for t, _ in timed])
        self._features = Features(frame)
        logs = np.log([s for _, s in timed])
        self._usual = float(np.median(logs))
        steps = np.array([max(len(t.intermediate_values), 1) for t, _ in timed], dtype=float)
        seen = Seen(self._features.matrix(frame), logs - self._usual, steps)
        self._law = EpochLaw.learn(Prior.of_nothing(), self._features.n, seen)

    def __call__(self, params: Sequence[Mapping[str, Any]]) -> Array:
        """Return the seconds of a step by parameters; missing ones count as the middle."""
        if self._law is None:
            return np.ones(len(params))
        matrix = self._features.matrix(_frame(params))
        logs = self._usual + self._law.mean[0] + matrix @ self._law.mean[1:]
        found: Array = np.exp(np.clip(logs, -40.0, 40.0))
        return found


def _frame(params: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    return frame_of([{name: plain(value) for name, value in p.items()} for p in params])


def ended_trials(study: optuna.Study) -> list[FrozenTrial]:
    """List the trials of a study that have ended by themselves or were pruned."""
    states = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    return study.get_trials(deepcopy=False, states=states)
