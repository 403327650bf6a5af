"""What a fit leaves for reports: the runs, and predictions of those held out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import foretell


def read(output):
    """Return the runs, and the predictions with what was measured."""
    runs = pd.read_csv(output / "runs.csv")
    held_out = pd.read_csv(output / "rehearsals.csv", keep_default_na=False)
    measured = runs["time_s"].to_numpy()[held_out["run"] - 1]
    return runs, held_out.assign(error=np.abs(held_out["predicted"] / measured - 1))


def table(n_repeats=2):
    grid = [(n, s, z) for n in (1, 2, 4, 8) for s in (10, 20, 40, 80) for z in "ab"]
    frame = pd.DataFrame(grid * n_repeats, columns=["nodes", "size", "zone"])
    noise = np.random.default_rng(0).lognormal(0, 0.03, len(frame))
    return frame.assign(time_s=(5 + 3 * frame["size"] / frame["nodes"]) * noise)


def test_rehearsals_have_the_errors_that_the_leaderboard_tells(tmp_path):
    fit = foretell.fit_model(table(), target="time_s", output=tmp_path)
    runs, held_out = read(tmp_path)
    pd.testing.assert_frame_equal(runs, table())
    told = {q: e for q, e in fit.results["leaderboard"][0]["errors"].items() if e is not None}
    found = held_out.groupby("question")["error"].mean()
    assert set(found.index) == set(told)
    for question, error in told.items():
        assert found[question] == pytest.approx(error, rel=1e-5)
    beyond = held_out[held_out["ratio"] > 1]
    assert set(beyond["column"]) == {"nodes", "size"}
    assert set(beyond["direction"]) == {"above", "below"}
    assert set(held_out.loc[held_out["question"] == "unknown level", "column"]) == {"zone"}


@pytest.mark.parametrize(
    ("validation", "questions"),
    [
        ({"method": "KFold", "folds": 4}, {"inside"}),
        ({"method": "Extrapolation", "columns": {"size": 40}}, {"2x"}),
        ({"method": "Interpolation", "columns": {"size": 2}}, None),
    ],
    ids=["folds", "beyond", "between"],
)
def test_validation_has_the_error_that_the_leaderboard_tells(tmp_path, validation, questions):
    campaign = {
        "data": {"target": "time_s"},
        "features": {"inverse": ["nodes"], "product_max_degree": 2},
        "validation": validation,
        "search": {"splits": {"method": "KFold", "folds": 2}},
        "techniques": {"LRRidge": {}, "DecisionTree": {}},
    }
    fit = foretell.fit_model(campaign, table(), output=tmp_path)
    _, held_out = read(tmp_path)
    splits = fit.results["leaderboard"][0]["splits"]
    mapes = [s["validation"]["mape"] for s in splits]
    assert held_out["error"].mean() == pytest.approx(np.mean(mapes), rel=1e-3)
    assert questions is None or set(held_out["question"]) == questions


def test_level_that_training_rows_lack_is_an_unknown_one(tmp_path):
    frame = table()
    frame.loc[frame["size"] == 80, "zone"] = "c"
    campaign = {
        "data": {"target": "time_s"},
        "validation": {"method": "Extrapolation", "columns": {"size": 40}},
        "search": {"splits": {"method": "KFold", "folds": 2}},
        "techniques": {"DecisionTree": {}},
    }
    foretell.fit_model(campaign, frame, output=tmp_path)
    assert set(read(tmp_path)[1]["question"]) == {"unknown level"}


def test_samples_of_long_tables_are_bounded(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"n": random.uniform(1, 9, 9_000)})
    frame["time_s"] = 2 * frame["n"]
    campaign = {
        "data": {"target": "time_s"},
        "validation": {"method": "KFold", "folds": 3},
        "search": {"splits": {"method": "All"}},
        "techniques": {"LRRidge": {"alpha": 0.1}},
    }
    foretell.fit_model(campaign, frame, output=tmp_path)
    runs, held_out = read(tmp_path)
    assert len(runs) == 5_000
    assert len(held_out) == 3_000
    assert runs.merge(frame).shape == runs.shape
