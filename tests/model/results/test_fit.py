"""What fitting returns and leaves behind, the same for automatic mode and campaigns."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import foretell
from foretell.model.results.schema import read_results
from foretell.predictor import Predictor, n_training_rows

CAMPAIGN = {
    "data": {"target": "time_s"},
    "features": {"inverse": ["nodes"]},
    "validation": {"method": "Extrapolation", "columns": {"size": 40}},
    "search": {"splits": {"method": "KFold", "folds": 2}},
    "techniques": {"LRRidge": {}, "Dummy": {}},
}


def runs():
    frame = pd.DataFrame(
        [(n, s) for n in (1, 2, 4, 8) for s in (10, 20, 40, 80)] * 2, columns=["nodes", "size"]
    )
    noise = np.random.default_rng(0).lognormal(0, 0.02, len(frame))
    return frame.assign(time_s=(5 + 3 * frame["size"] / frame["nodes"]) * noise)


@pytest.fixture(scope="module")
def automatic(tmp_path_factory):
    output = tmp_path_factory.mktemp("automatic") / "out"
    return foretell.fit_model(runs(), target="time_s", output=output)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    output = tmp_path_factory.mktemp("campaign") / "out"
    return foretell.fit_model(CAMPAIGN, runs(), output=output)


@pytest.fixture(params=["automatic", "campaign"])
def fitted(request):
    return request.getfixturevalue(request.param)


def test_both_are_one_class_that_knows_its_kind(automatic, campaign):
    assert type(automatic) is type(campaign) is foretell.Fit is foretell.AutomaticFit
    assert (automatic.kind, campaign.kind) == ("automatic", "campaign")


def test_results_file_holds_the_results(fitted):
    path = fitted.directory / "results.json"
    assert read_results(path) == fitted.results
    assert fitted.results.kind == fitted.kind


def test_both_files_have_the_same_keys(automatic, campaign):
    first, second = (
        json.loads((f.directory / "results.json").read_text()) for f in (automatic, campaign)
    )
    assert list(first) == list(second)
    assert list(first["leaderboard"][0]) == list(second["leaderboard"][0])
    assert list(first["data"]) == list(second["data"])


def test_models_are_those_of_the_leaderboard_and_the_best_is_in_front(fitted):
    entries = fitted.results.models
    assert set(fitted.models) == {e.technique for e in entries}
    assert fitted.results.best == entries[0].technique
    saved = foretell.load_model(fitted.directory / "best.foretell")
    new = pd.DataFrame({"nodes": [3], "size": [30]})
    assert saved.predict(new) == fitted.predict(new) == fitted.forecast(new).value
    for entry in entries:
        assert (fitted.directory / entry.file).is_file()


def test_errors_of_a_campaign_are_by_where_its_validation_rows_lie(campaign):
    held_out = pd.read_csv(campaign.directory / "rehearsals.csv", keep_default_na=False)
    for entry in campaign.results.models:
        asked = {q for q, error in entry.errors.items() if error is not None}
        assert asked == set(held_out["question"]) == {"2x"}
    best = campaign.results.models[0]
    # One split, so the mean over its rows is the score on it.
    assert best.errors["2x"] == pytest.approx(best.validation["mape"].mean, rel=1e-6)


def test_errors_on_training_rows_are_not_given_as_errors_on_runs_held_out():
    spec = {**CAMPAIGN, "validation": {"method": "All"}}
    entry = foretell.fit_model(spec, runs()).results.leaderboard[0]
    assert set(entry.errors.values()) == {None}
    assert entry.validation["mape"].mean > 0


def test_rows_that_were_fitted_are_counted(monkeypatch):
    monkeypatch.setattr("foretell.model.automatic.fit._MOST_ROWS", 20)
    fitted = foretell.fit_model(runs(), target="time_s")
    assert (fitted.results.data.n_rows, fitted.results.data.n_used) == (32, 20)
    assert fitted.best.n_rows == 20


def test_leaderboard_has_a_row_per_technique(fitted):
    board = fitted.leaderboard
    assert board["technique"].tolist() == [e.technique for e in fitted.results.leaderboard]
    assert "error_inside" in board.columns
    written = pd.read_csv(fitted.directory / "leaderboard.csv")
    assert written.columns.tolist() == board.columns.tolist()


def test_a_fit_can_be_planned_with_like_its_best_model(automatic):
    asked = {"vary": {"nodes": [1, 2, 4, 8]}, "fix": {"size": 40}}
    expected = foretell.make_plan(automatic.best, asked).to_json()
    assert foretell.make_plan(automatic, asked).to_json() == expected
    assert foretell.make_plan([automatic], asked).to_json() == expected
    options = {"budget": "10m"}
    advice = foretell.advise(automatic, asked, data=runs(), options=options)
    expected = foretell.advise(automatic.best, asked, data=runs(), options=options)
    assert advice.to_json() == expected.to_json()


def test_a_fit_of_several_targets_can_be_planned_with_as_it_is():
    frame = runs()
    frame["memory_bytes"] = 1e6 * frame["size"] / frame["nodes"]
    fits = foretell.fit_model(frame, target=["time_s", "memory_bytes"])
    asked = {"vary": {"nodes": [1, 2, 4, 8]}, "fix": {"size": 40}, "max_memory": "30MB"}
    plan = foretell.make_plan(fits, asked)
    expected = foretell.make_plan([fits["time_s"].best, fits["memory_bytes"].best], asked)
    assert plan.to_json() == expected.to_json()
    assert set(plan.chosen.estimates) >= {"time", "memory"}
    foretell.advise(fits, asked, data=frame, options={"budget": "10m"})


def test_a_fit_keeps_the_contract_of_predictors(fitted):
    assert isinstance(fitted, Predictor)
    assert (fitted.target, fitted.columns) == ("time_s", ["nodes", "size"])
    assert fitted.ranges == {"nodes": (1, 8), "size": (10, 80)}
    assert fitted.categories == {}
    assert fitted.has_intervals is fitted.best.has_intervals
    assert n_training_rows(fitted) == n_training_rows(fitted.best) == fitted.best.n_rows
    row = pd.DataFrame({"nodes": [16], "size": [40]})
    assert fitted.outlook(row, [0.5]).value == fitted.predict(row)
    assert "nodes" in fitted.outside(row)[0]
