"""`foretell report` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import foretell
from foretell.cli._main import cli


def run(*words):
    return CliRunner().invoke(cli, [str(w) for w in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    frame = pd.DataFrame({"nodes": [1, 2, 4, 8] * 4, "zone": ["a", "b"] * 8})
    frame["time_s"] = 5 + 90 / frame["nodes"] + (frame.index % 3) / 10
    campaign = {
        "data": {"target": "time_s"},
        "search": {"splits": {"method": "KFold", "folds": 2}},
        "techniques": {"PowerLaw": {}},
    }
    output = tmp_path_factory.mktemp("report") / "models"
    foretell.fit_model(campaign, frame, output=output)
    return output


@pytest.fixture
def folder(models, tmp_path, monkeypatch):
    (tmp_path / "models").symlink_to(models)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_report_says_which_file_it_wrote(folder):
    result = run("report", "models")
    assert result.exit_code == 0
    assert result.stdout.startswith("report.html   ")
    assert result.stdout.rstrip().endswith(" kB")
    assert Path("report.html").read_text().startswith("<!doctype html>")


def test_json_tells_what_is_in_it(folder):
    result = run("report", "models", "-o", "mine.html", "--json")
    told = json.loads(result.stdout)
    assert told["file"] == "mine.html"
    assert told["bytes"] == Path("mine.html").stat().st_size
    assert "Scaling curves" in told["sections"]
    assert told["missing"] == []


def test_what_is_missing_goes_to_standard_error(folder, models):
    own = folder / "own"
    own.mkdir()
    (own / "best.foretell").write_bytes((models / "best.foretell").read_bytes())
    result = run("report", "own")
    assert result.exit_code == 0
    assert "note: own has no results.json" in result.stderr


def test_format_names_the_file(folder):
    assert run("report", "models", "--format", "md").stdout.startswith("report.md ")
    assert Path("report-pictures/curve-1.svg").exists()
    assert run("report", "models", "-o", "report.pdf").exit_code == 0
    assert Path("report.pdf").read_bytes().startswith(b"%PDF")


def test_settings_are_where_the_curves_stay(folder):
    assert run("report", "models", "--at", "nodes=8", "--at", "zone=b").exit_code == 0
    assert "stay at nodes = 8, zone = b" in Path("report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing"], "there is no model missing"),
        (["empty"], "holds no best.foretell"),
        (["table.csv"], "is not a foretell model"),
        (["models", "--at", "node=3"], "Did you mean 'nodes'"),
        (["models", "--at", "zone=c"], "'zone' was never 'c'"),
        (["models", "--at", "nodes"], "--at: must be COLUMN=VALUE"),
        (["models", "--data", "nothing.csv"], "there is no file nothing.csv"),
        (["models", "--data", "table.csv"], "no column 'nodes'"),
        (["models", "--format", "docx"], "docx"),
        (["models", "-o", "table.csv"], "not .csv"),
        (["models", "-o", "there.html"], "there.html exists already"),
        (["models", "-o", "models"], "is a directory"),
        (["models", "-o", "no/where.html"], "there is no directory no"),
    ],
)
def test_bad_input_is_refused_with_a_way_on(folder, words, message):
    Path("table.csv").write_text("a,b\n1,2\n")
    Path("there.html").touch()
    Path("empty").mkdir()
    result = run("report", *words)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert Path("table.csv").read_text() == "a,b\n1,2\n"
    assert Path("there.html").read_text() == ""
    assert not Path("report.html").exists()


def test_fit_tells_of_the_report(folder):
    table = pd.DataFrame({"n": [1, 2, 3, 4] * 2, "time_s": [2.0, 4, 6, 8] * 2})
    table.to_csv("runs.csv", index=False)
    result = run("fit", "runs.csv", "--target", "time_s", "-o", "new", "-q", "-j", "1")
    assert result.stdout.rstrip().endswith("look: foretell report new")


def test_a_file_of_an_unknown_kind_is_refused(folder):
    result = run("report", "models", "-o", "report.docx")
    assert result.exit_code == 2
    assert "not .docx" in result.stderr
    assert not Path("report.docx").exists()
