"""Errors in a report: by question and by value, as computed from the runs held out."""

import numpy as np
import pandas as pd
import pytest

from foretell.report.findings import read_findings
from foretell.report.sections.accuracy import _errors_of, ladder_section, predicted_section
from foretell.wording import percent


@pytest.fixture(scope="module")
def findings(automatic):
    return read_findings(automatic)


def table_of(section, name):
    (picture,) = [b for b in section.blocks if getattr(b, "name", "") == name]
    return picture.numbers


def test_errors_by_question_are_those_of_the_runs_held_out(findings):
    rows = table_of(predicted_section(findings), "predicted-against-measured").rows
    held_out = findings.held_out
    assert sum(int(row[1]) for row in rows) == len(held_out)
    inside = held_out[held_out["question"] == "inside"]
    errors = np.abs(inside["predicted"] / inside["measured"] - 1)
    assert rows[0][1:4] == (str(len(inside)), percent(errors.mean()), percent(errors.median()))


def test_the_ladder_has_a_rung_for_each_question_with_the_error_of_the_leaderboard(findings):
    rows = table_of(ladder_section(findings), "error-by-distance").rows
    best = findings.results.entry(findings.results.best).errors
    known = [error for error in best.values() if error is not None]
    assert sorted(row[1] for row in rows) == sorted(percent(error) for error in known)


def test_errors_of_few_values_are_grouped_by_value():
    runs = pd.DataFrame({"nodes": [1, 2, 4, 2]})
    held_out = pd.DataFrame({"row": [0, 1, 3, 2, 1], "error": [0.1, 0.2, 0.4, 0.5, 0.9]})
    found = _errors_of("nodes", held_out, runs, is_number=True)
    assert found.labels == ("1", "2", "4")
    assert found.n_runs.tolist() == [1, 3, 1]
    assert found.median.tolist() == [0.1, 0.4, 0.5]


def test_many_numbers_are_grouped_into_ranges_and_many_names_are_left_out():
    runs = pd.DataFrame({"size": np.arange(100.0), "name": [f"n{i}" for i in range(100)]})
    held_out = pd.DataFrame({"row": np.arange(100), "error": np.arange(100) / 100})
    found = _errors_of("size", held_out, runs, is_number=True)
    assert len(found.labels) == 5
    assert found.n_runs.sum() == 100
    assert (np.diff(found.median) > 0).all()
    assert _errors_of("name", held_out, runs, is_number=False) is None


def test_a_column_with_one_value_has_no_panel():
    held_out = pd.DataFrame({"row": [0, 1], "error": [0.1, 0.2]})
    assert _errors_of("a", held_out, pd.DataFrame({"a": [3, 3]}), is_number=True) is None
