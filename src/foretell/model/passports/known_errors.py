"""How far off a model was on runs held out, along each column: the figures that all texts give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pydantic
from numpy.typing import NDArray

from foretell.model.passports.questions import (
    BEYOND_QUESTIONS,
    FURTHER,
    QuestionKind,
    question_names,
)

Array = NDArray[np.float64]
Direction = Literal["", "below", "above"]

_DISTANCES = (*BEYOND_QUESTIONS, FURTHER)
DIRECTIONS: Mapping[int, Direction] = {-1: "below", 0: "", 1: "above"}


class KnownError(pydantic.BaseModel):
    """The mean relative error on runs held out that asked one question.

    Attributes
    ----------
    columns
        The column along which these runs leave the training rows, or several that always changed
        together; none for new combinations of known values.
    direction
        On which side of the range; empty inside it.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    question: str
    columns: tuple[str, ...]
    direction: Direction
    error: Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
    n_runs: Annotated[int, pydantic.Field(gt=0)]


@dataclass(frozen=True, eq=False)
class Judged:
    """Runs held out by one fold: the columns it cut, on which side, and how far off each was."""

    kind: QuestionKind
    columns: tuple[str, ...]
    direction: int
    ratio: Array
    error: Array

    @property
    def questions(self) -> NDArray[np.str_]:
        """The name of the question that each run asks."""
        if self.kind == QuestionKind.BEYOND:
            return question_names(self.ratio)
        return np.full(len(self.error), self.kind.value)


def known_errors(judged: Sequence[Judged]) -> list[KnownError]:
    """Average errors by column, direction and question."""
    found: dict[tuple[str, tuple[str, ...], Direction], list[Array]] = {}
    for kind in QuestionKind:
        of_kind = [fold for fold in judged if fold.kind == kind]
        for columns, folds in _changed_together(of_kind).items():
            for fold in folds:
                for question in np.unique(fold.questions):
                    key = (str(question), columns, DIRECTIONS[fold.direction])
                    found.setdefault(key, []).append(fold.error[fold.questions == question])
    return [
        KnownError(
            question=question,
            columns=columns,
            direction=direction,
            error=float(np.concatenate(errors).mean()),
            n_runs=sum(map(len, errors)),
        )
        for (question, columns, direction), errors in found.items()
    ]


def _changed_together(folds: Sequence[Judged]) -> dict[tuple[str, ...], list[Judged]]:
    """Group the columns that the same folds cut; folds that cut none are a group of their own."""
    cut_by: dict[str, tuple[int, ...]] = {}
    for i, fold in enumerate(folds):
        for name in fold.columns:
            cut_by[name] = (*cut_by.get(name, ()), i)
    groups: dict[tuple[int, ...], tuple[str, ...]] = {}
    for name, cuts in cut_by.items():
        groups[cuts] = (*groups.get(cuts, ()), name)
    uncut = [fold for fold in folds if not fold.columns]
    found = {columns: [folds[i] for i in cuts] for cuts, columns in groups.items()}
    return {(): uncut, **found} if uncut else found


def error_beyond(
    known: Sequence[KnownError], names: Sequence[str], distance: Array, ratio: Array
) -> Array:
    """Return the error to expect of rows that leave the range of some columns; 0 inside.

    Along one column it is what was found on that side at that distance. Errors along columns that
    do not change together add up like independent ones. Where nothing is known it is NaN.
    """
    by_group: dict[tuple[str, ...], Array] = {}
    if not distance.any():  # most rows, and many are asked for one at a time
        return np.zeros(len(ratio))
    for j, name in enumerate(names):
        own = [e for e in known if name in e.columns and e.direction]
        group = own[0].columns if own else (name,)
        error = np.zeros(len(ratio))
        questions = question_names(ratio[:, j])
        for way in (-1, 1):
            by_question = _by_question([e for e in own if e.direction == DIRECTIONS[way]])
            is_there = np.sign(distance[:, j]) == way
            error[is_there] = np.nan
            for question, found in by_question.items():
                error[is_there & (questions == question)] = found
        by_group[group] = np.maximum(by_group.get(group, 0.0), error)
    total = np.zeros(len(ratio))
    for error in by_group.values():
        total = np.hypot(total, error)
    return total


def _by_question(known: Iterable[KnownError]) -> dict[str, float]:
    """Return the error at each distance that has a name.

    A distance at which no run was held out has the error of the next one further out, which is
    rarely smaller, and otherwise that of the last one before it.
    """
    found = {e.question: e.error for e in known}
    errors: dict[str, float] = {}
    for i, question in enumerate(_DISTANCES):
        order = (*_DISTANCES[i:], *reversed(_DISTANCES[:i]))
        nearest = next((found[q] for q in order if q in found), None)
        if nearest is not None:
            errors[question] = nearest
    return errors


def error_of(known: Iterable[KnownError], question: QuestionKind, column: str = "") -> float:
    """Return the error of a question that has no direction; NaN if it is not known."""
    for found in known:
        if found.question == question.value and (column in found.columns or not column):
            return found.error
    return float("nan")
