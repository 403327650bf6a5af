"""Results as text: what is known is said, and names from files cannot disturb it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from foretell.model.automatic.record import AutomaticRecord
from foretell.model.passports.known_errors import KnownError
from foretell.model.passports.questions import BEYOND_QUESTIONS
from foretell.model.results.schema import Data, Explanation, Plateau
from foretell.model.results.text import (
    HEADINGS,
    align,
    column_rows,
    data_line,
    effect_lines,
    explanation_lines,
    trust_line,
)
from foretell.predictor import TRUST_FAR, TRUST_INSIDE, TRUST_NEAR


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


def known(*errors, column="nodes", direction="above"):
    """Return errors at 1.5, 2 and 4 times beyond the range of a column."""
    return [
        KnownError(question=q, columns=(column,), direction=direction, error=e, n_runs=9)
        for q, e in zip(BEYOND_QUESTIONS, errors, strict=False)
    ]


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ((0.05, 0.1, 0.2), "nodes up to 4× more (20.0 % off)."),
        ((0.05, 0.1, 0.5), "nodes up to 2× more (10.0 % off) but not 4× (50.0 %)."),
        ((0.3, 0.1, 0.1), "nodes not more (30.0 % off at 1.5×)."),
    ],
)
def test_trust_ends_where_errors_grow_too_large(errors, text):
    assert text in trust_line(known(*errors), {"nodes": (1.0, 4.0)}, {})


def test_trust_tells_columns_and_sides_apart():
    errors = known(0.1, 0.1) + known(0.2, direction="below") + known(0.9, column="level")
    text = trust_line(errors, {"nodes": (1.5, 2.0), "level": (1.0, 2.0)}, {})
    assert "nodes up to 2× more (10.0 % off), up to 1.5× less (20.0 % off); " in text
    assert "level not more (90.0 % off at 1.5×)" in text
    assert "not known" not in text
    assert "along cores are not known" in trust_line(errors, {"nodes": (1, 2), "cores": (1, 1)}, {})


def test_trust_ends_where_too_few_runs_were_held_out_further():
    errors = known(0.1, 0.1, 0.1)
    assert "nodes up to 2× more" in trust_line(errors, {"nodes": (1.0, 2.0)}, {})
    assert "not known: no column has enough values" in trust_line(errors, {"nodes": (1.0, 1.0)}, {})


def test_errors_that_no_column_is_known_of_are_told_over_all_columns():
    text = trust_line([], {"nodes": (1.0, 1.0)}, {"inside": 0.1, "1.5x": None, "2x": 0.026})
    assert text == "Outside the data, over all columns: up to 2× beyond (2.60 % off)."


def test_time_limit_is_the_reason_where_it_is():
    assert "time limit" in trust_line([], {}, {}, is_cut=True)


def test_errors_along_columns_are_a_table_with_their_numbers_of_runs():
    head, *rows = column_rows(known(0.1, 0.2) + known(0.3, column="size", direction="below"))
    assert head == ["along", "side", "1.5× beyond", "2× beyond"]
    assert rows == [
        ["nodes", "above", "10.0 % (9)", "20.0 % (9)"],
        ["size", "below", "30.0 % (9)", "–"],
    ]


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
        _column_notes=list,
    )
    (note,) = AutomaticRecord._notes(record)
    assert "time limit" in note and "another run may differ" in note
    assert ("after 3 of 16" in note) == (n_done == 3)
    assert "16 of 16" not in note
