"""What rehearsals say: errors by question, for the leaderboard and for intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.model.automatic.bench import Bench, RehearsedEnsemble
from foretell.model.automatic.folds import Fold
from foretell.model.passports.calibration import Calibration, Rehearsed, calibrate, relative_error
from foretell.model.passports.measured_range import MeasuredRange, total_distance
from foretell.model.passports.questions import QuestionKind, mean_by_question, question_names

Array = NDArray[np.float64]

_LEAST_RANKED = 1e-3


@dataclass(frozen=True, eq=False)
class Answers:
    """The runs of one fold, and what was predicted for them.

    Attributes
    ----------
    point, rows
        The test point of the fold that each run belongs to, and its position among all runs.
    distance, ratio
        How far each run lies outside the training points of the fold. The ratio of a fold beyond
        the range is that of the columns that were cut.
    """

    fold: Fold
    point: NDArray[np.int64]
    rows: NDArray[np.int64]
    log_y: Array
    log_predictions: Array  # one column per member
    combined: Array
    distance: Array
    ratio: Array

    @property
    def questions(self) -> NDArray[np.str_]:
        """The name of the question that each run answers."""
        if self.fold.kind == QuestionKind.BEYOND:
            return question_names(self.ratio)
        return np.full(len(self.log_y), self.fold.kind.value)


def gather(bench: Bench, assembled: RehearsedEnsemble) -> list[Answers]:
    """Bring together the runs of each fold and all predictions of them."""
    numeric = np.array(bench.numeric, dtype=np.int64)
    regressor = assembled.regressor
    result = []
    for fold, table in zip(assembled.folds, assembled.answers, strict=True):
        of_run, rows, log_y = bench.runs(fold.test)
        measured = MeasuredRange.of(bench.points.x[np.ix_(fold.train, numeric)])
        x = bench.points.x[np.ix_(fold.test, numeric)]
        ratio = measured.ratio(x)
        if fold.kind == QuestionKind.BEYOND:
            ratio = ratio[:, np.isin(numeric, fold.columns)]
        votes = table[:, : len(regressor.members)]
        combined = regressor.vote.rehearsed(bench.renumbered(fold), votes)
        result.append(
            Answers(
                fold,
                of_run,
                rows,
                log_y,
                table[of_run],
                combined[of_run] + regressor.shift,
                total_distance(measured.distance(x))[of_run],
                ratio.max(axis=1, initial=1.0)[of_run],
            )
        )
    return result


def errors_by_question(answers: list[Answers], member: int | None) -> dict[str, float | None]:
    """Return the mean relative error on each kind of question; None where nothing was rehearsed.

    ``member``: the position of a member, or None for the ensemble.
    """
    kinds: list[NDArray[np.str_]] = []
    errors: list[Array] = []
    for a in answers:
        predicted = a.combined if member is None else a.log_predictions[:, member]
        errors.append(relative_error(predicted, a.log_y))
        kinds.append(a.questions)
    return mean_by_question(errors, kinds)


def rank(errors: Mapping[str, float | None]) -> float:
    """Return the mean log error over all questions, by which models are listed."""
    known = [e for e in errors.values() if e is not None]
    return float(np.mean(np.log(np.maximum(known, _LEAST_RANKED)))) if known else np.inf


def calibrate_member(
    bench: Bench,
    answers: list[Answers],
    member: int | None,
    names: Sequence[str],
) -> Calibration:
    """Learn from rehearsals how wide the intervals of a member, or of the ensemble, must be.

    ``names``: the column of the table behind each column of the matrix.
    """
    rehearsed = [
        Rehearsed(
            a.fold.kind,
            tuple(names[c] for c in a.fold.columns),
            a.fold.direction,
            a.log_y - (a.combined if member is None else a.log_predictions[:, member]),
            a.distance,
            a.ratio,
            a.fold.test[a.point],
        )
        for a in answers
    ]
    points = bench.points
    of_run, _, log_y = bench.runs(np.arange(len(points)))
    scatter = log_y - points.log_y[of_run]
    cuttable = [names[c] for c in bench.cuttable]
    return calibrate(rehearsed, scatter, float(np.ptp(log_y)), cuttable)
