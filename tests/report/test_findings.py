"""What a report rests on: whole directories, older ones, single files, and damaged ones."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

import foretell
from foretell.errors import DatasetError, ModelError


@pytest.fixture
def own(automatic, tmp_path):
    """A directory of our own to change."""
    shutil.copytree(automatic, tmp_path / "models")
    return tmp_path / "models"


def change(path, **values):
    results = json.loads(path.read_text())
    path.write_text(json.dumps({**results, **values}))


def test_directory_without_runs_is_reported_with_what_it_lacks(own, page):
    for name in ("runs.csv", "rehearsals.csv"):
        (own / name).unlink()
    found = page(own)
    assert "no runs.csv" in found.texts[""]
    assert "Fit into a new directory" in found.texts[""]
    assert "predicted" not in found.texts
    assert "No measured runs are shown" in found.texts["curves"]
    assert "error-by-distance" in found.html


def test_directory_without_runs_shows_those_of_a_table_that_is_given(own, page, runs):
    (own / "runs.csv").unlink()
    found = page(own, data=runs)
    assert "from the frame" in found.texts["curves"]
    assert "measured" in found.texts["curves"]


def test_model_file_alone_tells_what_it_can(automatic, page):
    found = page(automatic / "PowerLaw.foretell")
    assert list(found.texts)[1:] == ["data", "curves", "errors", "explanation", "impact", "again"]
    assert "off at known values" in found.texts[""]
    assert "time_s ≈" in found.texts["explanation"]


def test_model_without_intervals_says_why_and_has_no_bands(tmp_path, runs, page):
    campaign = {
        "data": {"target": "time_s"},
        "techniques": {"LRRidge": {}},
        "validation": {"method": "All"},
        "search": {"splits": {"method": "All"}},
    }
    foretell.fit_model(campaign, runs, output=tmp_path / "models")
    found = page(tmp_path / "models")
    assert "no intervals: no row was held out" in found.texts[""]
    assert "no intervals" in found.texts["curves"]
    assert "90 % interval" not in "".join(
        text for text in found.html.split("<svg")[1:] for text in text.split("</svg>")[:1]
    )


def test_directory_without_results_is_reported_as_its_model(own, page):
    (own / "results.json").unlink()
    found = page(own)
    assert "has no results.json" in found.texts[""]
    assert "leaderboard" not in found.texts


def test_campaign_in_which_everything_failed_says_why(tmp_path, runs, page):
    campaign = {
        "data": {"target": "time_s"},
        "techniques": {"Stepwise": {"p_to_add": 0.5}},
        "search": {"splits": {"method": "KFold", "folds": 2}},
    }
    with pytest.raises(foretell.NothingUsableError):
        foretell.fit_model(campaign, runs, output=tmp_path / "models")
    found = page(tmp_path / "models")
    assert "No technique gave a model of time_s" in found.texts[""]
    assert "Techniques without a model" in found.texts["failures"]
    assert found.texts["failures"].count("p_to_add=0.5") > 0


def test_errors_on_training_rows_are_called_so_and_negative_targets_are_drawn(tmp_path, page):
    frame = pd.DataFrame({"old": [1, 2, 3, 4, 5, 6] * 2, "t": [-4.0, -2, 0, 2, 4, 6.5] * 2})
    campaign = {
        "data": {"target": "t_s", "rename": {"old": "new", "t": "t_s"}},
        "score": "rmse",
        "validation": {"method": "All"},
        "search": {"splits": {"method": "KFold", "folds": 2}},
        "techniques": {"LRRidge": {}},
    }
    foretell.fit_model(campaign, frame, output=tmp_path / "models")
    found = page(tmp_path / "models", data=frame)
    assert "Validation errors are training errors" in found.texts[""]
    assert "noise is not known" in found.texts[""]
    assert "the model was fitted on" in found.texts["predicted"]
    assert "t_s against new" in found.texts["curves"]


def test_members_that_failed_are_listed_with_their_reasons(own, page):
    board = json.loads((own / "results.json").read_text())["leaderboard"]
    failed = {"technique": "LogGP", "status": "failed", "reason": "LinAlgError: <b>singular</b>"}
    change(own / "results.json", leaderboard=[*board, failed])
    found = page(own)
    assert "LinAlgError: <b>singular</b>" in found.texts["failures"]
    assert "LinAlgError" not in found.texts["leaderboard"]


def test_of_very_many_failed_trials_the_first_are_listed(campaign, tmp_path, page):
    shutil.copytree(campaign, tmp_path / "models")
    trial = {"split": "0.0", "technique": "SVR", "hyperparameters": {"C": 1}, "status": "failed"}
    change(
        tmp_path / "models" / "results.json",
        trials=[{**trial, "reason": "x", "error": None, "folds": []}] * 3_000,
    )
    text = page(tmp_path / "models").texts["failures"]
    assert "3,000 of 3,000 trials failed; the first 500 are listed" in text
    assert text.count("SVR") == 500


def test_runs_that_were_cut_by_a_time_limit_are_told_of(own, page):
    change(own / "results.json", notes=["The time limit cut the rehearsals after 3 of 20."])
    assert "The time limit cut the rehearsals" in page(own).texts[""]


def test_given_data_are_shown_and_leave_the_errors_alone(automatic, runs, tmp_path, page):
    later = runs[runs["nodes"] == 4].assign(nodes=16)
    later.to_csv(tmp_path / "later.csv", index=False)
    with_later, without = page(automatic, data=tmp_path / "later.csv"), page(automatic)
    assert "later.csv" in with_later.texts["curves"]
    assert with_later.texts["errors"] == without.texts["errors"]
    assert with_later.texts["data"] == without.texts["data"]


def test_damaged_results_are_refused(own, tmp_path):
    (own / "results.json").write_text("{")
    with pytest.raises(ModelError, match=r"results\.json is not JSON"):
        foretell.write_report(own, tmp_path / "report.html")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rehearsals.csv", "a,b\n1,2\n"),
        ("rehearsals.csv", "run,question,column,direction,ratio,predicted\n999,inside,,,1,2\n"),
        ("rehearsals.csv", "run,question,column,direction,ratio,predicted\n1.5,inside,,,1,2\n"),
        ("rehearsals.csv", "run,question,column,direction,ratio,predicted\n1,inside,,,1,x\n"),
        ("rehearsals.csv", "run,question,column,direction,ratio,predicted\n1,inside,,,1,inf\n"),
        ("rehearsals.csv", ""),
        ("runs.csv", "nodes,size_mib\n1,2\n"),
        ("runs.csv", "\0\0"),
    ],
)
def test_damaged_evidence_is_refused_with_a_way_on(own, name, content, tmp_path):
    (own / name).write_text(content)
    with pytest.raises(ModelError, match=rf"{name} is not as `foretell fit` left it.*Remove it"):
        foretell.write_report(own, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_question_that_is_not_known_is_left_out(own, tmp_path):
    header = "run,question,column,direction,ratio,predicted"
    (own / "rehearsals.csv").write_text(f"{header}\n1,<b>,,,1,9\n2,inside,,,1,9\n")
    report = foretell.write_report(own, tmp_path / "report.html")
    assert "<b>" not in report.path.read_text()


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "{0}", "[[1", "self"])
def test_first_column_is_reported_whatever_its_name(name, runs, tmp_path, page):
    frame = runs[["nodes", "time_s"]].rename(columns={"nodes": name})
    campaign = {
        "data": {"target": "time_s"},
        "techniques": {"LRRidge": {}},
        "search": {"splits": {"method": "KFold", "folds": 2}},
    }
    foretell.fit_model(campaign, frame, output=tmp_path / "models")
    assert name in page(tmp_path / "models").texts["data"]


def test_runs_that_were_used_are_those_that_the_report_counts(own, page):
    results = json.loads((own / "results.json").read_text())
    n_used = results["data"]["n_used"]
    change(own / "results.json", data={**results["data"], "n_rows": 159_510})
    found = page(own)
    assert f"learned from {n_used} of 159,510 runs" in found.texts[""]
    assert f"fitted on {n_used} of them" in found.texts["data"]


def test_command_to_make_it_again_names_the_columns_that_were_chosen(runs, tmp_path, page):
    source = tmp_path / "runs.csv"
    runs.assign(day=range(len(runs))).to_csv(source, index=False)
    chosen = {"skip": ["day"], "categorical": ["nodes"], "seed": 3}
    foretell.fit_model(source, target="time_s", output=tmp_path / "models", **chosen)
    words = page(tmp_path / "models").texts["again"]
    assert "--skip day --categorical nodes --seed 3" in words


@pytest.mark.parametrize("kind", ["table", "frame", "campaign"])
def test_command_to_make_it_again_leaves_out_the_same_rows(kind, runs, tmp_path, page):
    runs = runs.assign(nodes=runs["nodes"].where(runs.index != 5))
    source, output = tmp_path / "runs.csv", tmp_path / "models"
    runs.to_csv(source, index=False)
    campaign = {
        "data": {"target": "time_s"},
        "techniques": {"LRRidge": {}},
        "search": {"splits": {"method": "KFold", "folds": 2}},
    }
    if kind == "campaign":
        foretell.fit_model(campaign, source, output=output, drop_missing=True)
    else:
        table = source if kind == "table" else runs
        foretell.fit_model(table, target="time_s", output=output, drop_missing=True)
    expected = "drop_missing=True" if kind == "frame" else "--drop-missing"
    assert expected in page(output).texts["again"]


def test_data_without_the_target_are_refused(automatic, runs, tmp_path):
    with pytest.raises(DatasetError, match="no column 'time_s'"):
        foretell.write_report(automatic, tmp_path / "r.html", data=runs.drop(columns="time_s"))
    empty = runs.assign(time_s=float("nan"))
    with pytest.raises(DatasetError, match="no row with a measured 'time_s'"):
        foretell.write_report(automatic, tmp_path / "r.html", data=empty)


def test_directory_of_something_else_is_refused(tmp_path):
    (tmp_path / "other").mkdir()
    with pytest.raises(ModelError, match=r"holds no best\.foretell"):
        foretell.write_report(tmp_path / "other", tmp_path / "report.html")


def test_categories_that_look_like_numbers_are_found_again(tmp_path, page):
    frame = pd.DataFrame({"level": [1.0, 3.0, 6.0] * 4, "time_s": [1.0, 2, 4] * 4})
    campaign = {
        "data": {"target": "time_s", "categorical": ["level"]},
        "techniques": {"LRRidge": {}},
        "search": {"splits": {"method": "KFold", "folds": 2}},
    }
    foretell.fit_model(campaign, frame, output=tmp_path / "models")
    html = page(tmp_path / "models", at={"level": "3"}).html
    assert ">measured</text>" in html[html.index('id="curve-1"') : html.index('id="predicted"')]
