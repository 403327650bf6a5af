"""Expressions of parameters: the value Python would give, and nothing else Python could do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.spaces.expressions import Expression

NAMES = {"a": 3, "b": 2.5, "machine": "m4"}

numbers = st.sampled_from(["a", "b", "7", "0.5"])
arithmetic = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda t: f"-{t}"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda t: f"{t[0]}({t[1]}, {t[2]})"
        ),
    ),
    max_leaves=8,
)
conditions = st.tuples(
    arithmetic, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), arithmetic
).map(" ".join)
logic = st.recursive(
    conditions,
    lambda inner: st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
        lambda t: f"(not {t[0]} {t[1]} {t[2]})"
    ),
    max_leaves=4,
)


@given(st.one_of(arithmetic, logic))
def test_an_expression_has_the_value_that_python_gives_it(text):
    assert Expression(text).value(NAMES) == eval(text, {"min": min, "max": max}, dict(NAMES))


def test_a_name_is_compared_with_texts_and_lists():
    assert Expression("machine in ['m4', 'c4'] and machine != 'c4'").value(NAMES)
    assert Expression("1 < a <= 3").value(NAMES)
    assert not Expression("machine not in ('m4', 'r4')").value(NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "a.real", "(lambda: 1)()", "[x for x in [1]]", "a[0]", "open('x')",
        "{1: 2}", "f'{a}'", "(a := 1)", "print(a)", "min(a, key=b)", "a if b else a", "...",
        "b'x'", "1j", "a; b", "", "a +", "await a", "*a",
    ],
)  # fmt: skip
def test_all_that_is_not_arithmetic_is_refused(text):
    with pytest.raises(UsageError):
        Expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "(a * 1000000) ** 60",
        "a / 0",
        "machine < 3",
        "machine * 9",
        "'%9d' % a",
        "(0 - a) ** 0.5",
        "[1, 2]",
    ],
)
def test_what_has_no_value_or_too_large_a_one_is_told(text):
    with pytest.raises(UsageError, match=r"has no value for|too large"):
        Expression(text).value(NAMES)


def test_a_name_that_is_no_parameter_is_told_with_the_nearest_one():
    with pytest.raises(UsageError, match=r"uses 'machin'.* Did you mean 'machine'"):
        Expression("machin == 'm4'").check(NAMES)


def test_the_name_of_a_function_is_no_parameter():
    with pytest.raises(UsageError, match="uses 'round'"):
        Expression("round > 1").check(NAMES)


def test_deeply_nested_text_is_refused():
    with pytest.raises(UsageError):
        Expression("(" * 400 + "a" + ")" * 400).value(NAMES)
