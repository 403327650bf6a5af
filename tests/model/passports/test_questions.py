"""The names of questions, by where a row lies."""

from __future__ import annotations

import numpy as np
import pytest

from foretell.model.passports.questions import QUESTIONS, QuestionKind, question_names


@pytest.mark.parametrize(
    ("ratio", "name"),
    [
        (1.0, "inside"), (1.2, "1.5x"), (1.7, "1.5x"), (1.8, "2x"), (2.8, "2x"), (2.9, "4x"),
        (4.0, "4x"), (5.6, "4x"), (5.7, "further"), (8.0, "further"), (1e6, "further"),
    ],
)  # fmt: skip
def test_a_row_beyond_the_range_belongs_to_the_nearest_ratio_and_not_to_one_far_below(ratio, name):
    assert question_names(np.array([ratio])).tolist() == [name]


def test_an_unknown_level_comes_before_a_distance_and_that_before_a_gap():
    ratio = np.array([1.0, 1.0, 2.0, 2.0, 1.0])
    is_between = np.array([False, True, True, True, True])
    is_unknown = np.array([False, False, False, True, True])
    names = question_names(ratio, is_between=is_between, is_unknown=is_unknown)
    assert names.tolist() == ["inside", "between", "2x", "unknown level", "unknown level"]


def test_every_name_is_listed_once():
    assert len(set(QUESTIONS)) == len(QUESTIONS)
    assert {q.value for q in QuestionKind} - {"beyond"} <= set(QUESTIONS)
