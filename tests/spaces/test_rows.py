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
