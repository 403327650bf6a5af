"""`foretell export` as a user types it."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import foretell
from foretell.cli import _main
from foretell.model.techniques import TECHNIQUES

LAWS = {
    "ScalingLaw": "foretell.model.techniques.laws.scaling_law:ScalingLawTechnique",
    "PowerLaw": "foretell.model.techniques.laws.power_law:PowerLawTechnique",
}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for name, place in LAWS.items():
        if name not in TECHNIQUES.names():
            monkeypatch.setitem(TECHNIQUES._table, name, place)
    monkeypatch.setitem(_main.VERBS, "export", "Write a model as JSON, Python or SQL.")


def run(*words):
    return CliRunner().invoke(_main.cli, [str(w) for w in words], catch_exceptions=False)


def fit(directory, *techniques):
    """Fit runs with a cliff, on which trees are best."""
    size = np.tile(np.arange(1.0, 21), 4)
    frame = pd.DataFrame({"size": size, "t": np.where(size % 4 < 2, 10.0, 50.0)})
    campaign = {
        "data": {"target": "t"},
        "search": {"splits": {"method": "KFold", "folds": 2}},
        "techniques": {name: {} for name in techniques},
    }
    return foretell.fit_model(campaign, frame, output=directory)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_formula_goes_to_stdout_and_to_nothing_else(folder):
    model = fit("out", "PowerLaw").best
    result = run("export", "out", "--as", "python")
    assert result.exit_code == 0, result.output
    space = {}
    exec(result.stdout, space)
    expected = model.predict(pd.DataFrame({"size": [7.0]}))[0]
    assert space["predict"]({"size": 7.0}) == pytest.approx(expected, rel=1e-9)
    assert json.loads(run("export", "out", "--as", "json").stdout)["target"] == "t"
    assert '"size"' in run("export", "out/PowerLaw.foretell", "--as", "sql").stdout


def test_file_is_written_and_kept_unless_forced(folder):
    fit("out", "LRRidge")
    result = run("export", "out", "--as", "sql", "-o", "model.sql")
    assert (result.exit_code, result.stdout) == (0, "model.sql written\n")
    assert (folder / "model.sql").read_text() == run("export", "out", "--as", "sql").stdout
    (folder / "model.sql").write_text("precious")
    assert run("export", "out", "--as", "sql", "-o", "model.sql").exit_code == 2
    assert (folder / "model.sql").read_text() == "precious"
    assert run("export", "out", "--as", "sql", "-o", "model.sql", "--force").exit_code == 0
    assert "precious" not in (folder / "model.sql").read_text()


def test_best_model_without_a_formula_points_to_those_beside_it_that_have_one(folder):
    assert fit("out", "DecisionTree", "PowerLaw", "ScalingLaw").best.technique == "DecisionTree"
    result = run("export", "out", "--as", "sql", "-o", "m.sql")
    assert result.exit_code == 2
    assert "fitted by DecisionTree and has no formula" in result.stderr
    assert "out/PowerLaw.foretell, out/ScalingLaw.foretell" in result.stderr
    assert "out/DecisionTree.foretell" not in result.stderr
    assert not (folder / "m.sql").exists()


def test_damaged_models_beside_the_best_are_passed_over(folder):
    fit("out", "DecisionTree", "PowerLaw")
    (folder / "out" / "Another.foretell").write_text("not a model")
    result = run("export", "out", "--as", "json")
    assert result.exit_code == 2
    assert "out/PowerLaw.foretell" in result.stderr
    assert "Another" not in result.stderr


def test_missing_model_and_unknown_form_are_refused_with_a_word_of_help(folder):
    result = run("export", "nowhere", "--as", "json")
    assert result.exit_code == 2
    assert "there is no model nowhere" in result.stderr
    fit("out", "LRRidge")
    result = run("export", "out", "--as", "fortran")
    assert result.exit_code == 2
    assert "json" in result.stderr
    assert run("export", "out").exit_code == 2
