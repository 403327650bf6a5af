"""The errors that all texts give: by question, column and direction."""

from __future__ import annotations

import numpy as np
import pytest

from foretell.model.passports.known_errors import (
    Judged,
    error_beyond,
    error_of,
    known_errors,
)
from foretell.model.passports.questions import QuestionKind

NODES, SLOTS, SIZE = "nodes", "slots", "size"


def judged(columns, direction, ratio, *errors, kind=QuestionKind.BEYOND):
    return Judged(kind, columns, direction, np.full(len(errors), ratio), np.array(errors))


def expected(known, names, **ratios):
    """Return the error of one row, given the ratio by which it leaves columns; below 1: below."""
    ratio = np.array([[ratios.get(name, 1.0) for name in names]])
    return error_beyond(known, names, np.log(ratio), np.maximum(ratio, 1 / ratio))[0]


def test_an_error_is_the_mean_of_the_runs_of_that_column_side_and_distance():
    known = known_errors(
        [
            judged((NODES,), 1, 2.0, 0.1, 0.2),
            judged((NODES,), 1, 2.1, 0.6),
            judged((NODES,), 1, 4.0, 0.7),
            judged((NODES,), -1, 2.0, 0.05),
            judged((SIZE,), 1, 2.0, 0.9),
        ]
    )
    names = [NODES, SIZE]
    assert expected(known, names, nodes=2.0) == pytest.approx(0.3)
    assert expected(known, names, nodes=4.0) == pytest.approx(0.7)
    assert expected(known, names, nodes=0.5) == pytest.approx(0.05)
    assert expected(known, names, size=2.0) == pytest.approx(0.9)
    assert expected(known, names) == 0.0
    (found,) = [e for e in known if (e.columns, e.question) == ((NODES,), "2x") and e.error > 0.1]
    assert (found.direction, found.n_runs) == ("above", 3)


def test_a_distance_without_runs_has_the_error_of_the_next_one_further_out():
    known = known_errors([judged((NODES,), 1, 1.5, 0.1), judged((NODES,), 1, 4.0, 0.4)])
    assert expected(known, [NODES], nodes=2.0) == pytest.approx(0.4)
    near = known_errors([judged((NODES,), 1, 1.5, 0.1)])
    assert expected(near, [NODES], nodes=4.0) == pytest.approx(0.1)


def test_errors_along_independent_columns_add_up_and_those_of_linked_ones_do_not():
    known = known_errors(
        [
            judged((NODES, SLOTS), 1, 2.0, 0.3),
            judged((SIZE,), 1, 2.0, 0.4),
        ]
    )
    names = [NODES, SLOTS, SIZE]
    assert expected(known, names, nodes=2.0, slots=2.0) == pytest.approx(0.3)
    assert expected(known, names, nodes=2.0, slots=2.0, size=2.0) == pytest.approx(0.5)


def test_nothing_is_known_along_columns_that_were_not_cut():
    known = known_errors([judged((NODES,), 1, 2.0, 0.3)])
    assert np.isnan(expected(known, [NODES, SIZE], size=2.0))
    assert np.isnan(expected(known, [NODES, SIZE], nodes=0.5))


def test_questions_without_a_direction_have_their_own_errors():
    known = known_errors(
        [
            judged((), 0, 1.0, 0.1, 0.3, kind=QuestionKind.INSIDE),
            judged((NODES,), 0, 1.0, 0.4, kind=QuestionKind.BETWEEN),
            judged(("machine",), 0, 1.0, 0.8, kind=QuestionKind.UNKNOWN),
        ]
    )
    assert error_of(known, QuestionKind.INSIDE) == pytest.approx(0.2)
    assert error_of(known, QuestionKind.BETWEEN, NODES) == pytest.approx(0.4)
    assert error_of(known, QuestionKind.UNKNOWN, "machine") == pytest.approx(0.8)
    assert np.isnan(error_of(known, QuestionKind.BETWEEN, SIZE))
