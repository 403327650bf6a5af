"""Errors by question: as rehearsed, or on runs measured later."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.errors import DatasetError, ModelError
from foretell.model.automatic.rehearsal import (
    QUESTIONS,
    mean_by_question,
    relative_error,
)
from foretell.model.scoring import rehearsed_errors, score_rows, scores_text


def runs():
    frame = pd.DataFrame(
        [(n, s) for n in (1, 2, 4, 8) for s in (10, 20, 40, 80)], columns=["nodes", "size"]
    )
    noise = np.random.default_rng(0).lognormal(0, 0.02, len(frame))
    return frame.assign(time_s=(5 + 3 * frame["size"] / frame["nodes"]) * noise)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    return foretell.fit_model(
        runs(), target="time_s", output=tmp_path_factory.mktemp("scored") / "out"
    )


@pytest.fixture
def measured(tmp_path, fitted):
    """Runs at known places, whose times are known factors of what is predicted for them."""
    places = pd.DataFrame(
        {
            "nodes": [4, 4, 3, 12, 4, 16, 4, 4],
            "size": [40, 20, 40, 40, 120, 40, 320, 2000],
        }
    )
    factor = np.array([1.1, 1.3, 1.5, 2.0, 4.0, 1.25, 1.6, 3.2])
    path = tmp_path / "measured.csv"
    places.assign(time_s=fitted.predict(places) * factor).to_csv(path, index=False)
    off = np.abs(1 / factor - 1)
    expected = {
        "inside": off[:2].mean(),
        "between": off[2],
        "1.5x": off[3:5].mean(),
        "2x": off[5],
        "4x": off[6],
        "further": off[7],
    }
    return path, expected


def test_measured_runs_are_scored_by_where_they_lie(fitted, measured):
    path, expected = measured
    scores = score_rows(fitted.directory, path)
    assert scores["source"] == "measured"
    found = scores["errors"]["Ensemble"]
    assert found.pop("unknown level") is None
    assert found == pytest.approx(expected)
    counts = {
        "inside": 2,
        "between": 1,
        "1.5x": 2,
        "2x": 1,
        "4x": 1,
        "further": 1,
        "unknown level": 0,
    }
    assert scores["n_rows"] == counts


def test_a_question_that_no_run_asks_has_no_score(fitted, tmp_path):
    runs().to_csv(tmp_path / "same.csv", index=False)
    scores = score_rows(fitted.directory, tmp_path / "same.csv")
    assert {q for q, e in scores["errors"]["Ensemble"].items() if e is not None} == {"inside"}
    assert "beyond" not in scores_text(scores)


def test_rehearsed_errors_are_those_of_the_leaderboard(fitted):
    scores = rehearsed_errors(fitted.directory)
    assert scores["source"] == "rehearsed"
    board = {e["technique"]: e["errors"] for e in fitted.results["leaderboard"]}
    assert scores["errors"] == board


def test_one_model_has_its_own_rehearsed_errors(fitted):
    scores = rehearsed_errors(fitted.directory / "LogGP.foretell")
    assert scores["errors"] == {"LogGP": rehearsed_errors(fitted.directory)["errors"]["LogGP"]}


def test_text_has_a_column_per_question_and_a_row_per_model(fitted, measured):
    head, *rows = scores_text(rehearsed_errors(fitted.directory)).splitlines()
    assert head.split("  ")[0] == "relative error"
    assert "inside" in head and "between" in head and "2× beyond" in head
    assert [r.split()[0] for r in rows] == [e["technique"] for e in fitted.results["leaderboard"]]
    text = scores_text(score_rows(fitted.directory, measured[0]))
    assert text.splitlines()[-1].split() == ["rows", "2", "1", "2", "1", "1", "1"]
    assert "1.5× beyond" in text and "4× beyond" in text


def test_a_table_without_the_target_is_refused(fitted, tmp_path):
    runs().drop(columns="time_s").to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(DatasetError, match="time_s"):
        score_rows(fitted.directory, tmp_path / "new.csv")


@pytest.mark.parametrize("value", ["0", "-3", "", "long"])
def test_a_target_that_is_no_positive_number_is_refused(fitted, tmp_path, value):
    frame = runs().astype({"time_s": object})
    frame.loc[5, "time_s"] = value
    frame.to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(DatasetError, match="time_s"):
        score_rows(fitted.directory, tmp_path / "bad.csv")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    techniques = {"PowerLaw": {}}
    directory = tmp_path_factory.mktemp("campaign") / "out"
    foretell.fit_model(
        {
            "data": {"target": "time_s"},
            "search": {"splits": {"method": "KFold", "folds": 2}},
            "techniques": techniques,
        },
        runs(),
        output=directory,
    )
    return directory


def test_a_campaign_was_not_rehearsed_and_says_what_to_do(campaign):
    with pytest.raises(ModelError, match=r"not rehearsed.*foretell score .* runs\.csv"):
        rehearsed_errors(campaign)


def test_a_model_of_a_campaign_is_scored_on_measured_runs(campaign, tmp_path):
    runs().assign(size=lambda f: 2 * f["size"]).to_csv(tmp_path / "more.csv", index=False)
    scores = score_rows(campaign, tmp_path / "more.csv")
    assert scores["n_rows"]["2x"] == 4
    assert scores["n_rows"]["inside"] == 12


def test_runs_of_an_unknown_level_are_scored_apart(tmp_path):
    frame = pd.concat([runs().assign(machine=m) for m in ("a", "b")], ignore_index=True)
    foretell.fit_model(frame[::3], target="time_s", output=tmp_path / "out")
    frame.assign(machine=["z"] * 4 + ["a"] * 28).to_csv(tmp_path / "more.csv", index=False)
    scores = score_rows(tmp_path / "out", tmp_path / "more.csv")
    assert scores["n_rows"]["unknown level"] == 4
    assert scores["errors"]["Ensemble"]["unknown level"] > 0


# Names and means


def test_means_are_of_single_runs_and_of_nothing_there_is_none():
    means = mean_by_question(
        [np.array([0.1, 0.2]), np.array([0.6])],
        [np.array(["inside", "inside"]), np.array(["inside"])],
        QUESTIONS,
    )
    assert means == {**dict.fromkeys(QUESTIONS), "inside": pytest.approx(0.3)}
    assert mean_by_question([], [], QUESTIONS) == dict.fromkeys(QUESTIONS)


def test_relative_error_is_relative_to_what_was_measured_and_never_endless():
    predicted, truth = np.log([1.1, 0.5, 1e300]), np.log([1.0, 1.0, 1e-300])
    errors = relative_error(predicted, truth)
    assert errors[:2] == pytest.approx([0.1, 0.5])
    assert np.isfinite(errors[2])
