"""The questions a model is asked, by where a configuration lies, and their names in tables."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class QuestionKind(StrEnum):
    """Where a configuration lies relative to those measured.

    A model may be right on one of these and wrong on another, so each is rehearsed by itself.
    """

    INSIDE = "inside"  # a new combination of measured values; "known values" in tables
    BETWEEN = "between"  # a value of a column between the measured ones
    BEYOND = "beyond"  # a value outside the measured range, above or below
    UNKNOWN = "unknown level"  # a level of a category that was never measured


#: Beyond the range, errors are grouped by the nearest of these ratios. Rows too far out for the
#: last one are a group of their own.
_RATIOS = (1.5, 2.0, 4.0)
_NEXT_RATIOS = (2.0, 4.0, 8.0)
_RATIO_ENDS = np.sqrt(np.multiply(_RATIOS, _NEXT_RATIOS))
BEYOND_QUESTIONS = tuple(f"{ratio:g}x" for ratio in _RATIOS)
FURTHER = "further"
#: The names of all questions, in the order of tables.
QUESTIONS: tuple[str, ...] = (
    QuestionKind.INSIDE.value,
    QuestionKind.BETWEEN.value,
    *BEYOND_QUESTIONS,
    FURTHER,
    QuestionKind.UNKNOWN.value,
)


def question_names(
    ratio: NDArray[Any], *, is_between: ArrayLike = False, is_unknown: ArrayLike = False
) -> NDArray[np.str_]:
    """Name the question of each row.

    ``ratio``: the factor by which a row leaves the measured range; 1 inside.

    >>> question_names(np.array([1.0, 1.4, 2.0, 8.0])).tolist()
    ['inside', '1.5x', '2x', 'further']
    """
    inside = np.where(is_between, QuestionKind.BETWEEN.value, QuestionKind.INSIDE.value)
    beyond = np.array([*BEYOND_QUESTIONS, FURTHER])[np.searchsorted(_RATIO_ENDS, ratio)]
    names = np.where(ratio > 1, beyond, inside)
    return np.where(is_unknown, QuestionKind.UNKNOWN.value, names)


def mean_by_question(
    errors: Sequence[NDArray[Any]], kinds: Sequence[NDArray[np.str_]]
) -> dict[str, float | None]:
    """Average errors by the name of their question."""
    every = np.concatenate([np.zeros(0), *errors])
    kind = np.concatenate([np.zeros(0, dtype="<U16"), *kinds])
    return {
        name: float(every[kind == name].mean()) if (kind == name).any() else None
        for name in QUESTIONS
    }


def questions_within(ratio: float) -> tuple[str, ...]:
    """Return the questions beyond the range that configurations up to this ratio can answer.

    >>> questions_within(2.0), questions_within(1.0)
    (('1.5x', '2x'), ())
    """
    n_reached = int(np.searchsorted(_RATIO_ENDS[:-1], ratio)) + 1
    return BEYOND_QUESTIONS[:n_reached] if ratio > 1 else ()
