"""How far off models are: as rehearsed, on runs measured later, and by trust class."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell import score_model
from foretell.errors import DatasetError, ModelError, UsageError
from foretell.model.drift import check_drift
from foretell.model.passports.calibration import Residuals, relative_error
from foretell.model.passports.questions import QUESTIONS, mean_by_question
from foretell.model.scoring import coverage_by_trust, since_of, trust_text
from foretell.predictor import Forecast
from foretell.wording import percent


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
    score = score_model(fitted.directory, path)
    assert score.source == "measured"
    found = dict(score.errors["Ensemble"])
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
    assert score.n_rows == counts
    assert score.drift is None


def test_a_frame_is_scored_like_its_file(fitted, measured):
    frame = pd.read_csv(measured[0])
    assert score_model(fitted.directory, frame) == score_model(fitted.directory, measured[0])


def test_a_question_that_no_run_asks_has_no_score(fitted):
    score = score_model(fitted.directory, runs())
    assert {q for q, e in score.errors["Ensemble"].items() if e is not None} == {"inside"}
    assert "beyond" not in str(score)


def test_rehearsed_errors_are_those_of_the_leaderboard(fitted):
    score = score_model(fitted.directory)
    assert score.source == "rehearsed"
    assert score.errors == {e.technique: e.errors for e in fitted.results.leaderboard}


def test_one_model_has_its_own_rehearsed_errors(fitted):
    score = score_model(fitted.directory / "LogGP.foretell")
    assert score.errors == {"LogGP": score_model(fitted.directory).errors["LogGP"]}


def test_directory_with_nothing_but_its_best_model_has_the_errors_of_that(fitted, tmp_path):
    shutil.copy(fitted.directory / "best.foretell", tmp_path)
    expected = score_model(fitted.directory).errors["Ensemble"]
    assert score_model(tmp_path).errors == {"Ensemble": expected}


def test_text_has_a_column_per_question_and_a_row_per_model(fitted, measured):
    board, along = str(score_model(fitted.directory)).split("\n\n")
    head, *rows = board.splitlines()
    assert head.split("  ")[0] == "relative error"
    assert "known values" in head and "between" in head and "2× beyond" in head
    assert [r.split()[0] for r in rows] == [e.technique for e in fitted.results.leaderboard]
    assert {tuple(r.split()[:2]) for r in along.splitlines()} >= {("nodes", "above")}
    text = str(score_model(fitted.directory, measured[0]))
    assert text.split("\n\n")[0].splitlines()[-1].split() == ["rows", "2", "1", "2", "1", "1", "1"]
    assert "1.5× beyond" in text and "4× beyond" in text


@pytest.mark.parametrize(
    ("place", "column", "direction"),
    [((16, 40), "nodes", "above"), ((4, 160), "size", "above"), ((4, 5), "size", "below")],
)
def test_passport_results_summary_report_and_score_give_the_same_error(
    fitted, tmp_path, place, column, direction
):
    """The row is two times outside the range of one column."""
    row = pd.DataFrame([place], columns=["nodes", "size"])
    told = float(fitted.forecast(row).expected_error[0])
    (found,) = [
        e
        for e in fitted.results.errors_by_column
        if (e.columns, e.direction, e.question) == ((column,), direction, "2x")
    ]
    assert found.error == pytest.approx(told)
    held_out = pd.read_csv(fitted.directory / "rehearsals.csv", keep_default_na=False)
    asked = (held_out["column"] == column) & (held_out["direction"] == direction)
    of = held_out[asked & (held_out["question"] == "2x")]
    measured_s = runs()["time_s"].to_numpy()[of["run"] - 1]
    off = np.abs(of["predicted"].to_numpy() / measured_s - 1)
    assert (told, len(of)) == (pytest.approx(off.mean(), rel=1e-4), found.n_runs)
    words = {"above": "more", "below": "less"}
    assert f"up to 2× {words[direction]} ({percent(told)} off)" in (
        fitted.directory / "results.txt"
    ).read_text(encoding="utf-8")
    foretell.write_report(fitted.directory, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (str(score_model(fitted.directory)), page):
        assert f"{percent(told)} ({found.n_runs})" in text


def test_a_table_without_the_target_is_refused(fitted):
    with pytest.raises(DatasetError, match="time_s"):
        score_model(fitted.directory, runs().drop(columns="time_s"))


@pytest.mark.parametrize("value", ["0", "-3", "long", "inf"])
def test_a_target_that_is_not_a_positive_number_is_refused_with_its_row(fitted, tmp_path, value):
    frame = runs().astype({"time_s": object})
    frame.loc[5, "time_s"] = value
    frame.to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(DatasetError, match=r"time_s.*row 6"):
        score_model(fitted.directory, tmp_path / "bad.csv", since=12)


def test_rows_that_are_not_asked_for_are_not_complained_about(fitted, tmp_path):
    frame = runs().astype(object)
    frame.loc[0, ["nodes", "time_s"]] = ["many", "-1"]
    frame.loc[1, "nodes"] = None
    frame.to_csv(tmp_path / "bad.csv", index=False)
    score_model(fitted.directory, tmp_path / "bad.csv", since=1)
    frame.loc[len(frame) - 1, "size"] = None
    frame.to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(DatasetError) as caught:
        score_model(fitted.directory, tmp_path / "bad.csv", since=1)
    assert f"'size' has 1 missing value (row {len(frame)})" in str(caught.value)
    assert "nodes" not in str(caught.value)


def test_runs_without_a_target_are_left_out_and_counted(fitted, tmp_path):
    frame = runs()
    frame.loc[[2, 5], "time_s"] = np.nan
    frame.to_csv(tmp_path / "failed.csv", index=False)
    score = score_model(fitted.directory, tmp_path / "failed.csv")
    assert score.n_unmeasured == 2
    assert sum(score.n_rows.values()) == len(frame) - 2
    assert "2 rows without a target" in str(score)
    with pytest.raises(DatasetError, match="no row with a measured 'time_s'"):
        score_model(fitted.directory, frame.assign(time_s=np.nan))


def test_rows_with_missing_values_are_left_out_and_counted(fitted):
    frame = runs()
    expected = score_model(fitted.directory, frame.drop(index=[2, 5]))
    frame.loc[[2, 5], "nodes"] = np.nan
    score = score_model(fitted.directory, frame)
    assert (score.n_incomplete, score.n_unmeasured) == (2, 0)
    assert score.errors == expected.errors
    assert "2 rows with missing or invalid values left out" in str(score)
    assert score.to_json()["n_incomplete"] == 2
    with pytest.raises(DatasetError, match=r"'nodes' has .* missing values"):
        score_model(fitted.directory, frame.assign(nodes=np.nan))


@pytest.mark.parametrize("is_file", [False, True])
def test_rows_that_were_in_the_fit_are_counted_and_told(fitted, tmp_path, is_file):
    model = fitted.directory / "best.foretell" if is_file else fitted.directory
    old, new = runs(), runs()
    score = score_model(model, old)
    assert score.seen.n_seen == len(old) and not score.seen.is_at_least
    assert f"{len(old)} of {len(old)} rows were in the fit" in str(score)
    new["time_s"] *= 1.01  # measured again: other runs of the same configurations
    mixed = pd.concat([new, old.head(5)])
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    score = score_model(model, tmp_path / "mixed.csv")
    assert f"5 of {len(mixed)} rows were in the fit" in str(score)
    assert score.to_json()["n_in_fit"] == 5
    score = score_model(model, new)
    assert score.seen.n_seen == 0 and "in the fit" not in str(score)


def test_a_model_far_from_its_runs_does_not_know_what_it_was_fitted_on(fitted, tmp_path):
    (tmp_path / "m.foretell").write_bytes((fitted.directory / "best.foretell").read_bytes())
    runs().to_csv(tmp_path / "runs.csv", index=False)  # the user's own file of that name
    score = score_model(tmp_path / "m.foretell", tmp_path / "runs.csv")
    assert score.seen is None and score.to_json()["n_in_fit"] is None
    assert "in the fit" not in str(score)


def fit_campaign(directory, validation):
    spec = {
        "data": {"target": "time_s"},
        "validation": validation,
        "search": {"splits": {"method": "KFold", "folds": 2}},
        "techniques": {"PowerLaw": {}},
    }
    return foretell.fit_model(spec, runs(), output=directory)


def test_a_campaign_has_errors_on_its_validation_rows(tmp_path):
    found = fit_campaign(tmp_path, {"method": "Extrapolation", "columns": {"size": 40}})
    score = score_model(tmp_path)
    assert score.source == "validation"
    assert score.errors == {"PowerLaw": found.results.leaderboard[0].errors}


def test_a_campaign_judged_on_its_training_rows_says_what_to_do(tmp_path):
    fit_campaign(tmp_path, {"method": "All"})
    with pytest.raises(ModelError, match="table of measured runs"):
        score_model(tmp_path)
    score = score_model(tmp_path, runs().assign(size=lambda f: 2 * f["size"]))
    assert score.n_rows["2x"] == 4
    assert score.n_rows["inside"] == 12


def test_runs_of_an_unknown_level_are_scored_apart(tmp_path):
    frame = pd.concat([runs().assign(machine=m) for m in ("a", "b")], ignore_index=True)
    foretell.fit_model(frame[::3], target="time_s", output=tmp_path / "out")
    score = score_model(tmp_path / "out", frame.assign(machine=["z"] * 4 + ["a"] * 28))
    assert score.n_rows["unknown level"] == 4
    assert score.errors["Ensemble"]["unknown level"] > 0
    assert {s.trust: s.n_runs for s in score.by_trust}["unknown level"] == 4


def test_a_model_that_predicts_negative_values_of_a_positive_target_is_wrong(tmp_path):
    frame = pd.DataFrame({"size": np.tile(np.arange(1.0, 11.0), 2)})
    spec = {
        "data": {"target": "change"},
        "score": "rmse",
        "techniques": {"LRRidge": {}},
        "validation": {"method": "HoldOut", "ratio": 0.3},
    }
    noise = np.random.default_rng(0).normal(0, 0.5, len(frame))
    foretell.fit_model(spec, frame.assign(change=frame["size"] - 5.5 + noise), output=tmp_path)
    new = pd.DataFrame({"size": [1.0, 2.0, 3.0], "change": [40.0, 50.0, 60.0]})
    assert (foretell.load_model(tmp_path).predict(new) < 0).all()
    score = score_model(tmp_path, new, since=3)
    assert score.drift.has_drifted
    json.dumps(score.to_json(), allow_nan=False)


# Coverage by trust class


def forecast(trust, *, lower=90.0, upper=110.0, expected=0.05):
    n = len(trust)
    return Forecast(
        value=np.full(n, 100.0),
        lower=np.full(n, lower),
        upper=np.full(n, upper),
        outside=[""] * n,
        expected_error=np.where(np.array(trust) == "far", np.nan, expected),
        trust=np.array(trust, dtype=object),
        along={},
    )


def test_coverage_is_the_share_of_runs_in_their_interval_by_class():
    trust = ["inside"] * 4 + ["far"] * 2 + ["near"]
    truth = np.array([100.0, 109, 90, 125, 200, 100, 50])
    found = {s.trust: s for s in coverage_by_trust(forecast(trust), truth)}
    assert list(found) == ["inside", "near", "far"]
    assert [(s.n_runs, s.n_held) for s in found.values()] == [(4, 3), (1, 0), (2, 1)]
    assert found["inside"].coverage == 0.75
    assert found["near"].error == pytest.approx(1.0)
    assert found["inside"].rehearsed_error == pytest.approx(0.05)
    assert found["far"].rehearsed_error is None


def test_model_without_intervals_has_errors_and_no_coverage():
    without = forecast(["inside"], lower=np.nan, upper=np.nan)
    (found,) = coverage_by_trust(without, np.array([80.0]))
    assert (found.error, found.n_held, found.coverage) == (pytest.approx(0.25), None, None)
    assert trust_text((found,)).splitlines()[1].split()[-1] == "–"


def test_coverage_is_in_the_text_and_in_the_plain_values(fitted, measured):
    score = score_model(fitted.directory, measured[0])
    values = score.to_json()
    assert values["interval"] == 0.9
    assert sum(of["n_runs"] for of in values["by_trust"].values()) == 8
    (table,) = [t.splitlines() for t in str(score).split("\n\n") if "90 % interval" in t]
    assert [line.split()[0] for line in table[1:]] == list(values["by_trust"])


# Which runs to take


@pytest.mark.parametrize("text", ["", "=", "date=", "=4", "-3", "2.5", "last"])
def test_words_that_name_no_runs_are_refused(text):
    with pytest.raises(UsageError, match="number of rows, or COLUMN=VALUE"):
        since_of(text)


def test_since_without_a_table_is_refused(fitted):
    with pytest.raises(UsageError, match="since: needs a table"):
        score_model(fitted.directory, since=3)


def test_only_the_runs_asked_for_are_scored(fitted):
    frame = runs().assign(day=np.arange(16))
    frame.loc[:9, "time_s"] *= 10
    score = score_model(fitted.directory, frame, since={"day": 10})
    assert sum(score.n_rows.values()) == score.drift.n_runs == 6
    assert score == score_model(fitted.directory, frame[10:], since={"day": 10})
    assert score.errors["Ensemble"]["inside"] < 0.1


# Names and means


def test_means_are_of_single_runs_and_of_nothing_there_is_none():
    means = mean_by_question(
        [np.array([0.1, 0.2]), np.array([0.6])],
        [np.array(["inside", "inside"]), np.array(["inside"])],
    )
    assert means == {**dict.fromkeys(QUESTIONS), "inside": pytest.approx(0.3)}
    assert mean_by_question([], []) == dict.fromkeys(QUESTIONS)


def test_relative_error_is_relative_to_what_was_measured_and_never_endless():
    predicted, truth = np.log([1.1, 0.5, 1e300]), np.log([1.0, 1.0, 1e-300])
    errors = relative_error(predicted, truth)
    assert errors[:2] == pytest.approx([0.1, 0.5])
    assert np.isfinite(errors[2])


def test_measured_and_rehearsed_errors_have_one_definition():
    """A model that is as wrong on new runs as in rehearsals is told to be so."""
    off = np.array([0.1, -0.2, 8.0])  # the last one is wild
    rehearsed = Residuals.of(-off).mean_error
    truth = 100 * np.exp(-off)
    told = forecast(["inside"] * 3, expected=rehearsed)
    (by_trust,) = coverage_by_trust(told, truth)
    assert by_trust.error == pytest.approx(by_trust.rehearsed_error)
    drift = check_drift(told, truth, np.arange(3), 3)
    assert drift.error == pytest.approx(drift.rehearsed_error)
