"""Expressions of whole columns."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.spaces.columns import column_of
from foretell.spaces.expressions import Expression


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=30))
def test_an_expression_of_many_rows_is_that_of_each(rows):
    frame = pd.DataFrame(rows, columns=["a", "b"])
    text = "not (a * b + 2 <= a < 4 or b % 3 == 1) and max(a, b, 0) // 2 >= -min(a, b) / 3"
    one_by_one = [Expression(text).value({"a": a, "b": b}) for a, b in rows]
    assert column_of(Expression(text), frame).tolist() == [float(v) for v in one_by_one]
    as_texts = frame.astype(str)
    found = column_of(Expression("a == '1' or b in ['2', '3']"), as_texts)
    assert found.tolist() == [float(a == 1 or b in (2, 3)) for a, b in rows]


@pytest.mark.parametrize(
    ("text", "told"),
    [(f"{'10**60*' * 6}a", "has no value"), ("1 / (a - 1)", "has no value"), ("'x'", "is a text")],
)  # fmt: skip
def test_an_expression_without_a_number_is_refused(text, told):
    with pytest.raises(UsageError, match=told):
        column_of(Expression(text), pd.DataFrame({"a": [1.0, 2.0]}))


@pytest.mark.parametrize("text", ["[1, 2]", "'5'", "(a, 3)"])
def test_lists_and_texts_are_no_columns(text):
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    with pytest.raises(UsageError):
        column_of(Expression(text), frame)


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=8))
def test_what_numpy_cannot_do_at_once_is_computed_row_by_row(values):
    frame = pd.DataFrame({"a": values})
    for text in ("a ** 2", "round(a / 4)", "a in [1, 2, -3]", "+a", "a != 0 and 12 / a > 2"):
        found = column_of(Expression(text), frame).tolist()
        assert found == [float(eval(text, {"round": round}, {"a": a})) for a in values]
