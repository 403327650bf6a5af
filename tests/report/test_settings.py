"""Where the other columns stay: as asked, else at a measured configuration near the middle."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.report.findings import read_findings
from foretell.report.settings import at_settings, choose_settings, parse_at


@pytest.fixture(scope="module")
def findings(automatic):
    return read_findings(automatic)


def test_default_is_a_configuration_that_was_measured(findings, runs):
    chosen = choose_settings(findings, {})
    same = runs[list(chosen)] == pd.Series(chosen)
    assert same.all(axis=1).any()
    assert chosen["nodes"] in {2, 4}
    assert chosen["size_mib"] in {20, 40}


def test_what_is_asked_for_stays_and_the_rest_was_measured_with_it(findings, runs):
    chosen = choose_settings(findings, {"nodes": "8", "machine": "M4"})
    assert (chosen["nodes"], chosen["machine"]) == (8.0, "m4")
    assert len(at_settings(runs, chosen, "size_mib")) == 8


def test_value_that_was_never_measured_is_allowed(findings):
    assert choose_settings(findings, {"nodes": "100"})["nodes"] == 100.0


def test_model_file_alone_has_a_middle_among_its_values(automatic):
    chosen = choose_settings(read_findings(automatic / "PowerLaw.foretell"), {})
    assert chosen == {"nodes": 2.0, "size_mib": 20.0, "machine": "c4"}


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ({"node": "4"}, "no column 'node'. Did you mean 'nodes'"),
        ({"nodes": "many"}, "'nodes' must be a finite number, not 'many'"),
        ({"nodes": "nan"}, "'nodes' must be a finite number"),
        ({"machine": "c5"}, "'machine' was never 'c5' in the data. Known: c4, m4"),
    ],
)
def test_settings_that_make_no_sense_are_refused(findings, at, message):
    with pytest.raises(UsageError, match=message):
        choose_settings(findings, at)


@pytest.mark.parametrize("word", ["nodes", "=4", "nodes=", " = "])
def test_words_that_are_no_setting_are_refused(word):
    with pytest.raises(UsageError, match="COLUMN=VALUE"):
        parse_at([word])


def test_column_named_twice_is_refused():
    with pytest.raises(UsageError, match="twice"):
        parse_at(["nodes=1", "nodes=2"])


names = st.text(min_size=1).map(str.strip).filter(lambda s: s and "=" not in s)
values = st.text(min_size=1).map(str.strip).filter(bool)


@given(st.dictionaries(names, values, max_size=4))
def test_settings_are_read_as_they_were_written(given_settings):
    words = [f"{name}={value}" for name, value in given_settings.items()]
    assert parse_at(words) == given_settings
