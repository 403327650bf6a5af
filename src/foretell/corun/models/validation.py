"""How good models of co-runs are: every model beside every baseline, on programs it never saw."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from foretell.corun.calibration import (
    CONFIDENCE,
    PAIR,
    PINNED,
    RUNNING,
    SHIFTED,
    TRIPLE,
    Calibration,
)
from foretell.corun.models.baselines import (
    AdditiveCpu,
    CoRunModel,
    Fluid,
    Isolated,
    RooflineClasses,
)
from foretell.corun.models.cases import Case
from foretell.corun.models.gru.nearest import NearestTrace
from foretell.corun.models.residual import Residual

#: What is asked of models: pairs of programs that were seen, then of programs that were not.
SEEN = "pairs, seen"
QUESTIONS = {
    SEEN: PAIR,
    "pairs, unseen": PAIR,
    "triples": TRIPLE,
    "shifted": SHIFTED,
    "running": RUNNING,
    "pinned": PINNED,
}
#: What is asked of programs that were left out, which decides what is used.
UNSEEN = {question: kind for question, kind in QUESTIONS.items() if question != SEEN}
BASELINES: tuple[type[CoRunModel], ...] = (Isolated, AdditiveCpu, RooflineClasses)
MODELS: tuple[type[CoRunModel], ...] = (*BASELINES, Fluid, Residual, NearestTrace)
_FOLDS = 10
_RESAMPLES = 2000


@dataclass(frozen=True)
class Prediction:
    """One job of one case: predicted without it, and measured."""

    key: str
    program: str
    predicted_s: float
    measured_s: float

    @property
    def error(self) -> float:
        """The relative error."""
        return abs(self.predicted_s / self.measured_s - 1)

    @property
    def log_ratio(self) -> float:
        """The logarithm of the measured time over the predicted one."""
        return math.log(self.measured_s / self.predicted_s)


Predictions = dict[str, list[Prediction]]  # by question


def out_of_sample(
    make: Callable[[], CoRunModel],
    cases: Sequence[Case],
    *,
    n_folds: int = _FOLDS,
    at_once: int = 1,
) -> Predictions:
    """Predict every case by a model that learned from pairs without it.

    Pairs that were seen: in folds by pair, so both programs are known from other pairs. All
    others: by leaving out programs with all their runs, by default one after the other; a model
    that takes long to train leaves out several at once. The jobs of a program are predicted by the
    model that never saw it, so that each job of each case is predicted once.
    """
    found: Predictions = {question: [] for question in QUESTIONS}
    for train, test in _pair_folds(cases, n_folds):
        found[SEEN] += _predicted(_fitted(make, train), test)
    programs = sorted({name for case in cases for name in case.programs})
    order = [programs[k] for k in np.random.default_rng(1).permutation(len(programs))]
    for at in range(0, len(order), at_once):
        held = set(order[at : at + at_once])
        train = [c for c in cases if c.kind == PAIR and not held & set(c.programs)]
        model = _fitted(make, train)
        for question, kind in UNSEEN.items():
            own = [c for c in cases if c.kind == kind and held & set(c.programs)]
            found[question] += [p for p in _predicted(model, own) if p.program in held]
    return found


def _pair_folds(cases: Sequence[Case], n_folds: int) -> Iterator[tuple[list[Case], list[Case]]]:
    pairs = sorted((case for case in cases if case.kind == PAIR), key=lambda case: case.key)
    order = np.random.default_rng(0).permutation(len(pairs))
    for fold in range(n_folds):
        held = {int(k) for k in order[fold::n_folds]}
        test = [case for k, case in enumerate(pairs) if k in held]
        if test:
            yield [case for k, case in enumerate(pairs) if k not in held], test


def _fitted(make: Callable[[], CoRunModel], train: Sequence[Case]) -> CoRunModel:
    model = make()
    model.fit(train)
    return model


def _predicted(model: CoRunModel, test: Sequence[Case]) -> list[Prediction]:
    return [
        Prediction(case.key, name, predicted, measured)
        for case in test
        for name, predicted, measured in zip(
            case.programs, model.predict(case), case.walls_s, strict=True
        )
    ]


def mape(predictions: Sequence[Prediction]) -> float:
    """Return the mean relative error; NaN where there is nothing to judge by."""
    errors = [p.error for p in predictions]
    return math.fsum(errors) / len(errors) if errors else math.nan


def improvement(
    model: Sequence[Prediction], baseline: Sequence[Prediction]
) -> tuple[float, float, float]:
    """Return by how much of the baseline's error a model is better, with a 95 % interval.

    A paired bootstrap over co-runs: both are judged on the same ones.
    """
    ours, theirs = _by_key(model), _by_key(baseline)
    keys = sorted(ours)
    if not keys:
        return math.nan, math.nan, math.nan
    a = np.array([ours[key] for key in keys])
    b = np.array([theirs[key] for key in keys])
    draws = np.random.default_rng(0).integers(0, len(keys), (_RESAMPLES, len(keys)))
    gains = 1 - a[draws].mean(axis=1) / np.maximum(b[draws].mean(axis=1), 1e-12)
    low, high = np.quantile(gains, [0.025, 0.975])
    return float(1 - a.mean() / max(b.mean(), 1e-12)), float(low), float(high)


def _by_key(predictions: Sequence[Prediction]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for p in predictions:
        found.setdefault(p.key, []).append(p.error)
    return {key: math.fsum(errors) / len(errors) for key, errors in found.items()}


def calibrated(predictions: Predictions, source: str) -> Calibration:
    """Return the errors of out-of-sample predictions by kind of co-run, for intervals."""
    errors = {}
    for question, kind in UNSEEN.items():
        errors[kind] = tuple(sorted(round(p.log_ratio, 5) for p in predictions[question]))
    return Calibration({kind: e for kind, e in errors.items() if e}, source)


def covered(predictions: Sequence[Prediction], kind: str) -> float:
    """Return the share of measured times inside intervals that runs of their program did not shape.

    Not even by the times of its neighbors.
    """
    inside = []
    for program in sorted({p.program for p in predictions}):
        own = [p for p in predictions if p.program == program]
        keys = {p.key for p in own}
        others = tuple(p.log_ratio for p in predictions if p.key not in keys)
        if not others:
            continue
        low, high = Calibration({kind: others}, "").factors(kind, CONFIDENCE)
        inside += [low <= math.exp(p.log_ratio) <= high for p in own]
    return sum(inside) / len(inside) if inside else math.nan
