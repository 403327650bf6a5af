"""Names and numbers as a reader sees them."""

from __future__ import annotations

import math
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.wording import number, plain, short


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_any_name_becomes_one_line_that_xml_can_hold(name):
    text = plain(name)
    assert len(text.splitlines()) <= 1
    assert (ElementTree.fromstring(f"<a>{escape(text)}</a>").text or "") == text


@given(st.text(), st.integers(5, 60))
def test_short_names_keep_their_ends_and_their_length(name, most):
    text = short(name, most)
    assert len(text) <= most
    assert text == plain(name) or text[0] == plain(name)[0]


def test_very_long_names_are_cut():
    assert len(plain("x" * 10_000_000)) == 2_000


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_numbers_are_near_what_they_stand_for(value):
    text = number(value)
    assert float(text) == pytest.approx(value, rel=1e-3, abs=1e-300)
    assert len(text) <= 12


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_is_no_number_is_a_dash(value):
    assert number(value) == "–"
