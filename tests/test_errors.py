"""Errors: one line each, with options as the caller writes them, and safe to print."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foretell.errors import DatasetError, Option, nearest, suggest
from foretell.wording import printable, printable_lines

HOSTILE = "m5\x1b[2J\x07\r\n\x9b31m\u202e\u2028\u200b\x7f\0"


@given(st.text())
@example(HOSTILE)
@example("\ud800")
def test_printable_text_has_no_controls_and_keeps_what_can_be_seen(text):
    shown = printable(text)
    kinds = {unicodedata.category(c) for c in shown}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    seen = "".join(c for c in text if c.isprintable())
    remaining = iter(shown)
    assert all(c in remaining for c in seen)  # in this order


def test_escapes_tell_which_character_it_was():
    assert printable("a\x1b\u202e\nb") == r"a\x1b\u202e\nb"


def test_line_breaks_of_a_text_stay_and_those_of_a_name_do_not():
    assert printable_lines("one\ntwo\x1b") == "one\ntwo\\x1b"
    assert printable("one\ntwo") == r"one\ntwo"


def test_an_error_is_one_printable_line_in_every_wording():
    error = DatasetError(
        f"no column '{HOSTILE}'", option=Option("target", HOSTILE), remedy=("or ", Option("skip"))
    )
    for text in (str(error), error.worded(lambda option: f"--{option.name} {option.value}")):
        assert text.isprintable()
        assert r"m5\x1b[2J" in text
        assert text.endswith("or skip") or text.endswith("or --skip None")
    assert error.text.startswith("no column 'm5\x1b")  # as it was, for whoever words it again


def test_nearest_name_ignores_case_and_gives_up_on_strangers():
    assert nearest("M5.LARGE", ["c5", "m5.large"]) == "m5.large"
    assert nearest("zzz", ["c5", "m5.large"]) is None


@pytest.mark.parametrize(
    ("name", "known"),
    [("ignore_columns", ["use_columns", "skip_columns"]), ("codec", ["nodes", "time_s"])],
)
def test_names_that_are_no_typing_error_are_answered_with_all_that_are_known(name, known):
    assert suggest(name, known) == f"Known: {', '.join(known)}."


@pytest.mark.parametrize("typed", ["tmie_s", "time", "Time_S", "times", "itme_s", "tims"])
def test_typing_errors_are_answered_with_the_name_that_was_meant(typed):
    assert suggest(typed, ["nodes", "time_s"]) == "Did you mean 'time_s'?"
