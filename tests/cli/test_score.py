"""`foretell score` as a user types it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import foretell
from foretell.cli._main import cli


def run(*words):
    return CliRunner().invoke(cli, [str(w) for w in words], catch_exceptions=False)


def runs(factor=1):
    frame = pd.DataFrame(
        [(n, s * factor) for n in (1, 2, 4, 8) for s in (10, 20, 40, 80)],
        columns=["nodes", "size"],
    )
    return frame.assign(time_s=5 + 3 * frame["size"] / frame["nodes"])


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """An automatic model and one of a campaign, side by side."""
    folder = tmp_path_factory.mktemp("models")
    frame = runs()
    frame["time_s"] *= np.random.default_rng(0).lognormal(0, 0.02, len(frame))
    foretell.fit_model(frame, target="time_s", output=folder / "out")
    campaign = {
        "data": {"target": "time_s"},
        "search": {"splits": {"method": "KFold", "folds": 2}},
        "techniques": {"PowerLaw": {}},
    }
    foretell.fit_model(campaign, frame, output=folder / "campaign")
    return folder


@pytest.fixture
def folder(models, tmp_path, monkeypatch):
    for name in ("out", "campaign"):
        (tmp_path / name).symlink_to(models / name)
    runs(factor=2).to_csv(tmp_path / "measured.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_score_shows_errors_by_question_side_by_side(folder):
    result = run("score", "out")
    assert result.exit_code == 0
    head, *rows = result.stdout.split("\n\n")[0].splitlines()
    questions = ["known values", "between", "2× beyond"]
    places = [head.index(q) for q in questions]
    assert places == sorted(places)
    assert rows[0].startswith("Ensemble")
    assert all(r.count("%") == len(questions) for r in rows if r)


def test_score_in_json_is_what_the_leaderboard_says(folder):
    errors = json.loads(run("score", "out", "--json").stdout)["errors"]
    board = pd.read_csv("out/leaderboard.csv").set_index("technique")
    assert list(errors) == list(board.index)
    for name, own in errors.items():
        assert list(own) == ["inside", "between", "1.5x", "2x", "4x", "further", "unknown level"]
        for question, value in own.items():
            written = board.loc[name, f"error_{question}".replace(" ", "_")]
            assert np.isnan(written) if value is None else value == pytest.approx(written)


def test_score_on_measured_runs_is_by_place(folder):
    shown = run("score", "out", "measured.csv").stdout
    assert ["rows", "12", "4"] in [line.split() for line in shown.splitlines()]
    scores = json.loads(run("score", "out", "measured.csv", "--json").stdout)
    counts = {
        "inside": 12,
        "between": 0,
        "1.5x": 0,
        "2x": 4,
        "4x": 0,
        "further": 0,
        "unknown level": 0,
    }
    assert scores["n_rows"] == counts
    assert {t: of["n_runs"] for t, of in scores["by_trust"].items()} == {"inside": 12, "near": 4}
    errors = scores["errors"]["Ensemble"]
    assert errors["inside"] < 0.05
    assert errors["2x"] < 0.15
    assert errors["4x"] is None


def test_a_campaign_is_scored_on_its_validation_rows(folder):
    result = run("score", "campaign")
    assert result.exit_code == 0
    assert "PowerLaw" in result.stdout
    assert run("score", "campaign", "measured.csv").exit_code == 0


def test_since_says_whether_the_model_has_drifted(folder):
    days = [f"2026-06-{day:02}" for day in range(1, 17)]
    same = runs().assign(day=days)
    slower = same.assign(time_s=lambda f: f["time_s"] * np.where(f["day"] >= "2026-06-09", 2, 1))
    same.to_csv("same.csv", index=False)
    slower.to_csv("slower.csv", index=False)
    shown = run("score", "out", "same.csv", "--since", "day=2026-06-09").stdout
    assert "No drift: " in shown and "since day=2026-06-09" in shown
    shown = run("score", "out", "slower.csv", "--since", "day=2026-06-09").stdout
    assert "Drifted: " in shown and "Refit" in shown
    found = json.loads(run("score", "out", "slower.csv", "--since", 8, "--json").stdout)["drift"]
    assert found["has_drifted"] is True
    assert found["n_runs"] == 8
    assert found["ratio"] > found["limit"]
    assert 0.45 < found["error"] < 0.55


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], ["nowhere"]),
        (["empty"], ["no best.foretell"]),
        (["out", "nothing.csv"], ["nothing.csv"]),
        (["out", "untimed.csv"], ["time_s"]),
        (["out", "zero.csv"], ["time_s", "positive"]),
        (["out", "--since", "4"], ["--since", "table of measured runs"]),
        (["out", "measured.csv", "--since", "tuesday"], ["--since", "COLUMN=VALUE", "tuesday"]),
        (["out", "measured.csv", "--since", "99"], ["--since", "1 to 16", "99"]),
        (["out", "measured.csv", "--since", "day=4"], ["day", "measured.csv"]),
        (["out", "measured.csv", "--since", "nodes=x"], ["--since nodes=x", "numbers"]),
        (["out", "measured.csv", "--since", "nodes=99"], ["no row", "nodes=99", "8"]),
    ],
    ids=lambda value: value[-1],
)
def test_bad_input_is_refused_in_one_line(folder, arguments, words):
    runs().drop(columns="time_s").to_csv("untimed.csv", index=False)
    runs().assign(time_s=0.0).to_csv("zero.csv", index=False)
    (folder / "empty").mkdir()
    result = run("score", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert all(word in result.stderr for word in words), result.stderr
