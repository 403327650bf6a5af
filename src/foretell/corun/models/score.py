"""Scoring and fitting models of co-runs, for users: a folder of measured co-runs in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

    @property
    def chosen(self) -> str:
        """The model to use: the residual only if it wins on programs that it never saw."""
        fluid, learned = self.predictions[Fluid.name], self.predictions[Residual.name]
        question = "pairs, unseen"
        _, low, _ = improvement(learned[question], fluid[question])
        less = mape(fluid[question]) - mape(learned[question])
        return Residual.name if low > 0 and less > _LEAST_GAIN else Fluid.name

    @property
    def gru_weight(self) -> float:
        """The weight of the sequence-to-sequence model, learned on programs it never saw.

        It is that of logarithms of times, and more than zero only where it makes predictions
        better.
        """
        theirs, question = self.predictions.get(_GRU), "pairs, unseen"
        if theirs is None:
            return 0.0
        ours = {(p.key, p.held_out, k): p for k, p in _numbered(self.predictions[self.chosen])}
        both = [
            (ours[p.key, p.held_out, k], p)
            for k, p in _numbered(theirs)
            if (p.key, p.held_out, k) in ours
        ]
        errors = {
            w: sum(
                abs(a.predicted_s ** (1 - w) * b.predicted_s**w / a.measured_s - 1) for a, b in both
            )
            for w in (0.0, 0.25, 0.5, 0.75, 1.0)
        }
        best = min(errors, key=lambda w: errors[w])
        gain = (errors[0.0] - errors[best]) / len(both)
        return best if gain > _LEAST_GAIN and question in theirs else 0.0

    @property
    def best_baseline(self) -> str:
        """The baseline with the least error over all questions but the first."""
        return min((b.name for b in BASELINES), key=self._mean)

    def _mean(self, name: str) -> float:
        found = [mape(p) for q, p in list(self.predictions[name].items())[1:] if p]
        return math.fsum(found) / len(found)

    def errors(self) -> dict[str, dict[str, float]]:
        """Return the mean relative error of each model by question; NaN where there is none."""
        return {
            name: {question: mape(found[question]) for question in QUESTIONS}
            for name, found in self.predictions.items()
        }

    def gains(self) -> dict[str, tuple[float, float, float]]:
        """Return by how much the chosen model beats the best baseline, with 95 % intervals."""
        ours, theirs = self.predictions[self.chosen], self.predictions[self.best_baseline]
        return {q: improvement(ours[q], theirs[q]) for q in QUESTIONS if ours[q]}

    def coverage(self) -> dict[str, float]:
        """Return what share of measured times 90 % intervals of the chosen model cover."""
        found = self.predictions[self.chosen]
        return {q: covered(found[q], kind) for q, kind in list(QUESTIONS.items())[1:] if found[q]}

    def to_json(self) -> dict[str, Any]:
        """Return plain values; null where there is nothing to judge by."""
        errors = {
            name: {q: None if math.isnan(e) else e for q, e in own.items()}
            for name, own in self.errors().items()
        }
        return {
            "errors": errors,
            "chosen": self.chosen,
            "best_baseline": self.best_baseline,
            "gains": {q: list(g) for q, g in self.gains().items()},
            "coverage": self.coverage(),
            "noise": None if math.isnan(self.measurement.noise) else self.measurement.noise,
            "n_cases": len(self.measurement.cases),
            "n_left_out": self.measurement.n_left_out,
        }

    def __str__(self) -> str:
        data = self.measurement
        n_runs = len({case.key for case in data.cases})
        lines = [
            f"{counted(n_runs, 'usable co-run')} of {counted(len(data.profiles), 'program')}, "
            f"{data.n_left_out} left out; repeats alone differ by {percent(data.noise)}",
            f"{'mean error of times':22}" + "".join(f"{q:>15}" for q in QUESTIONS),
        ]
        for name, own in self.errors().items():
            mark = "  ← used" if name == self.chosen else ""
            lines.append(f"{name:22}" + "".join(f"{percent(e):>15}" for e in own.values()) + mark)
        lines.append(f"error of {self.chosen} against {self.best_baseline}, the best baseline:")
        for question, (gain, low, high) in self.gains().items():
            lines.append(
                f"  {question:16}{_change(gain)} ({_change(high)} to {_change(low)}, 95 %)"
            )
        shares = ", ".join(f"{q} {rough_percent(s)}" for q, s in self.coverage().items())
        lines.append(f"90 % intervals cover: {shares}")
        return "\n".join(lines)


def _numbered(predictions: Predictions) -> list[tuple[int, Prediction]]:
    """Number the jobs of each pair of a program that was held out."""
    counts: dict[tuple[str, str], int] = {}
    found = []
    for p in predictions["pairs, unseen"]:
        k = counts.get((p.key, p.held_out), 0)
        counts[p.key, p.held_out] = k + 1
        found.append((k, p))
    return found


def _change(gain: float) -> str:
    return f"{-100 * gain:+.0f} %"


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
    data, chosen = scores.measurement, scores.chosen
    residual = None
    if chosen == Residual.name:
        residual = Residual()
        residual.fit([case for case in data.cases if case.kind == "pair"])
    facts = next(iter(data.profiles.values())).facts
    n_runs = len({case.key for case in data.cases})
    source = f"{n_runs} measured co-runs of {len(data.profiles)} programs"
    pairs = [case for case in data.cases if case.kind == "pair"]
    fitted = FittedCoRuns(
        calibrated(scores.predictions[chosen], source),
        residual,
        facts,
        None if gru is None else train_network(pairs, gru),
        scores.gru_weight,
    )
    write_new(Path(output), fitted.to_bytes(), force=force)
    return fitted, scores


def _measured(folder: Path | str, machine: Machine | Path | str | None) -> Measurement:
    data = read_measurement(folder, machine)
    if sum(case.kind == "pair" for case in data.cases) < _LEAST_CASES:
        raise NothingUsableError(
            f"{folder} has fewer than {_LEAST_CASES} usable pairs, and models are judged by pairs; "
            "measure more, on an idle machine"
        )
    return data
