"""Rows of tables: which of them are also in another one."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from foretell.spaces.rows import places_in, plain_rows, without

tables = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("xy")), min_size=1, max_size=8)


@given(tables, tables, st.sampled_from([int, float, object]))
def test_equal_rows_are_found_whatever_the_types_of_numbers(rows, others, kind):
    frame = pd.DataFrame(rows, columns=["n", "the kind"]).assign(more=1)
    other = pd.DataFrame(others, columns=["n", "the kind"]).astype({"n": kind})
    places = places_in(frame, other)
    for row, place in zip(rows, places, strict=True):
        assert (place == -1) == (row not in others)
        assert place == -1 or others[place] == row
    left = without(frame, other)
    assert list(zip(left["n"], left["the kind"], strict=True)) == [
        row for row in rows if row not in others
    ]


def test_rows_as_dicts_have_values_of_python():
    (row,) = plain_rows(pd.DataFrame({"n": [3], "x": [0.5], "kind": ["a"]}))
    assert row == {"n": 3, "x": 0.5, "kind": "a"}
    assert [type(v) for v in row.values()] == [int, float, str]


def test_fractions_that_differ_in_the_last_digits_are_equal():
    share = 0.1 + 0.2  # the neighbor of 0.3
    frame = pd.DataFrame({"share": [share, 0.3, 0.3001], "n": [1, 1, 1]})
    others = pd.DataFrame({"share": [0.5, 0.3], "n": [1, 1]})
    assert places_in(frame, others).tolist() == [1, 1, -1]
    both = pd.DataFrame({"share": [0.3, share], "n": [2, 1]})  # neighbors in one table, too
    assert places_in(frame, both).tolist() == [1, 1, -1]
    assert places_in(both, both).tolist() == [0, 1]


def test_whole_numbers_that_differ_are_never_equal():
    frame = pd.DataFrame({"n": [10**15, 10**15 + 1]})
    assert places_in(frame, frame.iloc[:1]).tolist() == [0, -1]


def test_empty_cells_equal_nothing_and_an_empty_table_has_no_row():
    frame = pd.DataFrame({"x": [float("nan"), 1.5], "kind": ["a", None]})
    assert places_in(frame, frame).tolist() == [-1, -1]
    assert places_in(frame, frame[:0]).tolist() == [-1, -1]
