"""The tasks that run in workers: score some hyperparameters on a split, or build a model."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

from foretell.executors import WorkerDied
from foretell.model.campaigns.validation.scores import Scores, score
from foretell.model.campaigns.validation.splits import thinned
from foretell.model.fitter import FittedModel, Fitter
from foretell.model.techniques import TECHNIQUES

Params = dict[str, Any]

_TRANSIENT = (MemoryError, OSError, WorkerDied)


@dataclass(frozen=True)
class Task:
    """Fit a batch of hyperparameters on a split's training rows and score them on its test rows.

    Members of a batch that give the same model share one fit. At most ``most_predictions`` of the
    predictions of test rows are kept, evenly spaced.
    """

    technique: str
    batch: tuple[Params, ...]
    split_key: str
    score_training: bool = False
    keep_models: bool = False
    most_predictions: int = 0


@dataclass(frozen=True)
class Outcome:
    """The result of one member of a batch: scores, or the reason why there are none.

    A failure is transient if the machine caused it and not the model: the same fit may succeed
    when it runs again.
    """

    seconds: float
    test: Scores | None = None
    train: Scores | None = None
    fitted: FittedModel | None = None
    predicted: list[float] | None = None
    reason: str | None = None
    is_transient: bool = False

    @classmethod
    def failed(cls, error: BaseException, seconds: float = 0.0) -> Outcome:
        """Return an outcome without a model, with the reason."""
        return cls(seconds, reason=reason_of(error), is_transient=isinstance(error, _TRANSIENT))


def run_task(fitter: Fitter, task: Task) -> list[Outcome]:
    """Run one task; a failure is a result with its reason, never an exception."""
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries warn of what the scores show anyway
            fitted = fitter.fit(task.technique, task.batch, task.split_key)
    except Exception as error:
        return [Outcome.failed(error, time.perf_counter() - started)] * len(task.batch)
    fit_s = (time.perf_counter() - started) / len(fitted)
    distinct = {id(model): model for model in fitted}
    outcomes = {key: _outcome(fitter, task, model, fit_s) for key, model in distinct.items()}
    return [outcomes[id(model)] for model in fitted]


def _outcome(fitter: Fitter, task: Task, model: FittedModel, fit_s: float) -> Outcome:
    started = time.perf_counter()
    split = fitter.splits[task.split_key]
    try:
        predicted = model.predict(fitter.x[split.test])
        test = score(fitter.y[split.test], predicted)
        train = None
        if task.score_training:
            train = score(fitter.y[split.train], model.predict(fitter.x[split.train]))
    except Exception as error:
        return Outcome.failed(error, fit_s)
    seconds = fit_s + time.perf_counter() - started
    kept = predicted[thinned(len(predicted), task.most_predictions)].tolist()
    fitted = None
    if task.keep_models:  # as its file will hold it, without the fitting library's own objects
        rebuild = TECHNIQUES.get(task.technique).regressor.from_state
        regressor = rebuild(model.regressor.to_state(), len(model.columns))
        fitted = replace(model, regressor=regressor)
    return Outcome(seconds, test, train, fitted, kept if task.most_predictions else None)


def reason_of(error: BaseException) -> str:
    """Say in one line why something failed."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
