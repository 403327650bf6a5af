"""Scoring and fitting models of co-runs, for users: a folder of measured co-runs in."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from foretell.corun.calibration import PAIR
from foretell.corun.machine import Machine
from foretell.corun.models.baselines import CoRunModel, Fluid
from foretell.corun.models.cases import Measurement, read_measurement
from foretell.corun.models.fitted import FittedCoRuns
from foretell.corun.models.gru.train import GruOptions, train_network
from foretell.corun.models.residual import Residual
from foretell.corun.models.validation import (
    BASELINES,
    MODELS,
    QUESTIONS,
    UNSEEN,
    Prediction,
    Predictions,
    calibrated,
    covered,
    improvement,
    mape,
    out_of_sample,
)
from foretell.errors import NothingUsableError
from foretell.files.directory import write_new
from foretell.wording import counted, percent, rough_percent

_LEAST_CASES = 3
_GRU = "GRU"
_SLOW_FOLDS, _SLOW_AT_ONCE = 3, 4  # programs that a model which takes long leaves out
_LEAST_GAIN = 0.002  # of the mean relative error: a smaller one is not worth a learned part


@dataclass(frozen=True, eq=False)
class CoRunScores:
    """How good each model is.

    Attributes
    ----------
    predictions
        Of each model, by question: made without the co-run or without one of its programs.
    """

    measurement: Measurement
    predictions: Mapping[str, Predictions]

    @cached_property
    def chosen(self) -> dict[str, str]:
        """The model to use by kind of co-run: the residual where it wins on unseen programs."""
        return {kind: self._chosen(question) for question, kind in UNSEEN.items()}

    def _chosen(self, question: str) -> str:
        fluid, learned = (self.predictions[m.name][question] for m in (Fluid, Residual))
        _, low, _ = improvement(learned, fluid)
        less = mape(fluid) - mape(learned)
        return Residual.name if low > 0 and less > _LEAST_GAIN else Fluid.name

    @property
    def used(self) -> Predictions:
        """The predictions of the models to use, by question."""
        return {q: self.predictions[self.chosen[kind]][q] for q, kind in QUESTIONS.items()}

    @property
    def answered(self) -> Predictions:
        """What a fitted model would have answered: the same, with the network where it joins."""
        theirs, weights = self.predictions.get(_GRU, {}), self.gru_weights
        return {
            q: _blended(own, theirs.get(q, []), weights.get(QUESTIONS[q], 0.0))
            for q, own in self.used.items()
        }

    @property
    def gru_weights(self) -> dict[str, float]:
        """The weight of the sequence-to-sequence model by kind, learned on unseen programs.

        It is that of logarithms of times, and more than zero only where it makes predictions
        better.
        """
        theirs = self.predictions.get(_GRU)
        if theirs is None:
            return {}
        return {kind: _weight(self.used[q], theirs[q]) for q, kind in UNSEEN.items()}

    @property
    def best_baselines(self) -> dict[str, str]:
        """The baseline with the least error, by question."""
        return {
            q: min((b.name for b in BASELINES), key=lambda name: mape(self.predictions[name][q]))
            for q in QUESTIONS
        }

    def errors(self) -> dict[str, dict[str, float]]:
        """Return the mean relative error of each model by question; NaN where there is none."""
        return {
            name: {question: mape(found[question]) for question in QUESTIONS}
            for name, found in self.predictions.items()
        }

    def gains(self) -> dict[str, tuple[float, float, float]]:
        """Return by how much what is used beats the best baseline, with 95 % intervals."""
        best = self.best_baselines
        return {
            q: improvement(ours, self.predictions[best[q]][q])
            for q, ours in self.used.items()
            if ours
        }

    def coverage(self) -> dict[str, float]:
        """Return what share of measured times 90 % intervals of what is used cover."""
        return {q: covered(self.used[q], kind) for q, kind in UNSEEN.items() if self.used[q]}

    def to_json(self) -> dict[str, Any]:
        """Return plain values; null where there is nothing to judge by."""
        errors = {
            name: {q: None if math.isnan(e) else e for q, e in own.items()}
            for name, own in self.errors().items()
        }
        return {
            "errors": errors,
            "chosen": self.chosen,
            "best_baselines": self.best_baselines,
            "gains": {q: list(g) for q, g in self.gains().items()},
            "coverage": self.coverage(),
            "noise": None if math.isnan(self.measurement.noise) else self.measurement.noise,
            "n_cases": len(self.measurement.cases),
            "n_left_out": self.measurement.n_left_out,
            "skipped": list(self.measurement.skipped),
        }

    def __str__(self) -> str:
        data = self.measurement
        n_runs = len({case.key for case in data.cases})
        lines = [
            f"{counted(n_runs, 'usable co-run')} of {counted(len(data.profiles), 'program')}, "
            f"{data.n_left_out} left out; repeats alone differ by {percent(data.noise)}",
            *(f"without '{name}', which was too short for a profile" for name in data.skipped),
            f"{'mean error of times':22}" + "".join(f"{q:>15}" for q in QUESTIONS),
        ]
        for name, own in self.errors().items():
            mark = self._mark(name)
            lines.append(f"{name:22}" + "".join(f"{percent(e):>15}" for e in own.values()) + mark)
        lines.append("error of what is used against the best baseline:")
        for question, (gain, low, high) in self.gains().items():
            lines.append(
                f"  {question:16}{_change(gain)} ({_change(high)} to {_change(low)}, 95 %) "
                f"against {self.best_baselines[question]}"
            )
        shares = ", ".join(f"{q} {rough_percent(s)}" for q, s in self.coverage().items())
        lines.append(f"90 % intervals cover: {shares}")
        return "\n".join(lines)

    def _mark(self, name: str) -> str:
        """Say for which kinds of co-runs a model is used."""
        there = [kind for question, kind in UNSEEN.items() if self.used[question]]
        own = [kind for kind in there if self.chosen[kind] == name]
        if not own:
            return ""
        return "  ← used" if own == there else f"  ← used for {', '.join(own)}"


def _weight(ours: Sequence[Prediction], theirs: Sequence[Prediction]) -> float:
    """Return the weight of their predictions with which both together are best."""
    if not ours:
        return 0.0
    errors = {w: mape(_blended(ours, theirs, w)) for w in (0.0, 0.25, 0.5, 0.75, 1.0)}
    best = min(errors, key=lambda w: errors[w])
    return best if errors[0.0] - errors[best] > _LEAST_GAIN else 0.0


def _blended(
    ours: Sequence[Prediction], theirs: Sequence[Prediction], weight: float
) -> list[Prediction]:
    """Return both together: theirs count by a weight, in logarithms of times."""
    if not weight:
        return list(ours)
    other = dict(_numbered(theirs))
    return [
        replace(p, predicted_s=p.predicted_s ** (1 - weight) * other[key].predicted_s ** weight)
        for key, p in _numbered(ours)
    ]


def _numbered(
    predictions: Sequence[Prediction],
) -> Iterator[tuple[tuple[str, str, int], Prediction]]:
    """Yield predictions with what tells them apart: the run, the program, and which of its jobs."""
    counts: Counter[tuple[str, str]] = Counter()
    for p in predictions:
        yield (p.key, p.program, counts[p.key, p.program]), p
        counts[p.key, p.program] += 1


def _change(gain: float) -> str:
    return f"{round(-100 * gain):+d} %"


def score_co_runs(
    folder: Path | str,
    *,
    machine: Machine | Path | str | None = None,
    gru: GruOptions | None = None,
    ablations: bool = False,
) -> CoRunScores:
    """Judge every model on measured co-runs, beside every baseline.

    Parameters
    ----------
    gru
        How the sequence-to-sequence model is trained, which takes minutes; None leaves it out.
    ablations
        Whether to judge what was tried and is never used, which takes minutes as well: convolutions
        in the place of the recurrent network, and automatic mode in the place of the elastic net.
    """
    data = _measured(folder, machine)
    found = {model.name: out_of_sample(model, data.cases) for model in MODELS}
    for name, make in _slow(gru, ablations).items():
        found[name] = out_of_sample(make, data.cases, n_folds=_SLOW_FOLDS, at_once=_SLOW_AT_ONCE)
    return CoRunScores(data, found)


def _slow(gru: GruOptions | None, ablations: bool) -> dict[str, Callable[[], CoRunModel]]:
    """Return the models that are asked for and take long to train."""
    found: dict[str, Callable[[], CoRunModel]] = {}
    if gru is not None:
        from foretell.corun.models.gru.model import GruModel

        found[GruModel.name] = lambda: GruModel(gru)
    if ablations:
        from foretell.corun.models.automatic import AutomaticResidual
        from foretell.corun.models.gru.convolutions import ConvolutionModel

        found[ConvolutionModel.name] = lambda: ConvolutionModel(gru)
        found[AutomaticResidual.name] = AutomaticResidual
    return found


def fit_co_runs(
    folder: Path | str,
    output: Path | str,
    *,
    machine: Machine | Path | str | None = None,
    gru: GruOptions | None = None,
    force: bool = False,
) -> tuple[FittedCoRuns, CoRunScores]:
    """Learn from measured co-runs, and write a model that predictions can use."""
    scores = score_co_runs(folder, machine=machine, gru=gru)
    data = scores.measurement
    pairs = [case for case in data.cases if case.kind == PAIR]
    residual = None
    kinds = frozenset(kind for kind, name in scores.chosen.items() if name == Residual.name)
    if kinds:
        residual = Residual()
        residual.fit(pairs)
    facts = next(iter(data.profiles.values())).facts
    n_runs = len({case.key for case in data.cases})
    source = f"{n_runs} measured co-runs of {len(data.profiles)} programs"
    fitted = FittedCoRuns(
        calibrated(scores.answered, source),
        residual,
        facts,
        kinds,
        None if gru is None else train_network(pairs, gru),
        scores.gru_weights,
    )
    write_new(Path(output), fitted.to_bytes(), force=force)
    return fitted, scores


def _measured(folder: Path | str, machine: Machine | Path | str | None) -> Measurement:
    data = read_measurement(folder, machine)
    if sum(case.kind == PAIR for case in data.cases) < _LEAST_CASES:
        raise NothingUsableError(
            f"{folder} has fewer than {_LEAST_CASES} usable pairs, and models are judged by pairs; "
            "measure more, on an idle machine"
        )
    return data
