"""Results as text: what is known is said, and names from files cannot disturb it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from foretell.model.automatic.record import AutomaticRecord
from foretell.model.results.schema import Data, Explanation, Plateau
from foretell.model.results.text import (
    HEADINGS,
    align,
    data_line,
    effect_lines,
    explanation_lines,
    trust_line,
)
from foretell.predictor import TRUST_FAR, TRUST_INSIDE, TRUST_NEAR

QUESTIONS = ("1.5x", "2x", "4x")


def explanation(**values):
    known = {"law": None, "formula": None, "law_explains": None, "shares": {}, "totals": []}
    return Explanation(**{**known, "cliffs": [], "plateaus": [], **values})


def test_no_question_of_a_table_is_called_like_a_class_of_trust():
    """Rows between known values are *inside* by trust, and another column of a leaderboard."""
    assert not {HEADINGS["inside"], HEADINGS["between"]} & {TRUST_INSIDE, TRUST_NEAR, TRUST_FAR}


def test_plateaus_and_products_are_told_one_per_line():
    found = explanation(
        totals=[("nodes", "cores")],
        plateaus=[Plateau(column="nodes", value=8.0), Plateau(column="gb", value=0.25)],
    )
    product, first, second = effect_lines(found)
    assert "nodes × cores" in product
    assert first == "nodes stops mattering beyond about 8."
    assert second == "gb stops mattering beyond about 0.25."


def test_one_column_is_written_in_the_singular():
    data = Data(
        name="runs.csv", target="time_s", n_rows=4, n_used=4, columns=["nodes"], n_features=1,
        n_configurations=1, noise=None,
    )  # fmt: skip
    line = data_line(SimpleNamespace(data=data, is_automatic=False))
    assert line == "4 runs, 1 column (nodes), 1 feature; 1 configuration, 4 repeats each"


def test_names_cannot_break_lines_or_move_the_cursor():
    name = "a\nb\x1b[31m"
    found = explanation(
        formula=f"t ≈ 2·{name}", law_explains=0.5, shares={name: 1.0}, totals=[(name, name)]
    )
    lines = list(explanation_lines(found))
    assert len(lines) == 3
    assert all(line.isprintable() or "\ufffd" in line for line in lines)
    assert not any("\x1b" in line or "\n" in line for line in lines)


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ((0.05, 0.1, 0.2), ["Trust it to about 4×", "20.0 % off", "not further"]),
        ((0.05, 0.1, 0.5), ["Trust it to about 2×", "10.0 % off", "not to 4×", "50.0 %"]),
        ((0.3, 0.1, 0.1), ["Do not trust it outside", "30.0 % off at 1.5×"]),
        ((None, None, None), ["not known", "enough values"]),
    ],
)
def test_trust_ends_where_errors_grow_too_large(errors, words):
    text = trust_line(dict(zip(QUESTIONS, errors, strict=True)), {})
    assert all(word in text for word in words), text


def test_trust_names_the_columns_that_were_rehearsed():
    errors = dict.fromkeys(QUESTIONS, 0.1)
    text = trust_line(errors, {"nodes": (1.0, 4.0), "size": (2.0, 1.0), "cores": (1.0, 1.0)})
    assert "nodes to 4× above" in text
    assert "size to 2× below" in text
    assert "cores" not in text


def test_trust_ends_where_no_column_was_rehearsed_further():
    errors = dict.fromkeys(QUESTIONS, 0.1)
    assert "Trust it to about 2×" in trust_line(errors, {"nodes": (1.0, 2.0)})
    assert "not known" in trust_line(errors, {"nodes": (1.0, 1.0)})


def test_time_limit_is_the_reason_where_it_is():
    assert "time limit" in trust_line({}, {}, is_cut=True)


def test_columns_are_aligned_and_marks_stand_to_the_left():
    text = align([["name", "value", ""], ["a", "1", "x"], ["long name", "100", ""]])
    assert text.splitlines() == [
        "name        value",
        "a               1   x",
        "long name     100",
    ]


@pytest.mark.parametrize("n_done", [3, 16])
def test_note_on_a_time_limit_says_what_it_cut(n_done):
    record = SimpleNamespace(
        notes=[],
        is_cut=True,
        assembled=SimpleNamespace(folds=[None] * n_done),
        bench=SimpleNamespace(folds=[None] * 16),
    )
    (note,) = AutomaticRecord._notes(record)
    assert "time limit" in note and "another run may differ" in note
    assert ("after 3 of 16" in note) == (n_done == 3)
    assert "16 of 16" not in note
