"""The verbs as a user types them: what they print, write and return."""

import json
import subprocess
import sys
import tomllib

import jsonschema
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from foretell.cli._main import GROUPS, VERBS, cli

INI = """
[General]
techniques = [LRRidge, DecisionTree]   # bare words, and a comment
hp_selection = KFold
validation = HoldOut
folds = 3
hold_out_ratio = 0.2
y = time_s

[DataPreparation]
input_path = runs.csv
inverse = [*]
normalization = false

[LRRidge]
alpha = [0.01, 0.1]

[DecisionTree]
criterion = mse
max_depth = 4
max_features = auto
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table, a campaign and new configurations, and we are in it."""
    random = np.random.default_rng(0)
    nodes = np.tile([1, 2, 4, 8], 12)
    size = random.uniform(1, 20, 48).round(2)
    frame = pd.DataFrame({"nodes": nodes, "size": size, "time_s": 3 + 4 * size / nodes})
    frame.to_csv(tmp_path / "runs.csv", index=False)
    (tmp_path / "campaign.ini").write_text(INI)
    pd.DataFrame({"size": [5.0, 90.0], "nodes": [2, 4]}).to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    return CliRunner().invoke(cli, [str(w) for w in words], catch_exceptions=False)


@pytest.fixture
def fitted(folder):
    result = run("fit", "campaign.ini", "-o", "out", "-j", 1, "-q")
    assert result.exit_code == 0, result.output
    return folder


def test_help_lists_every_verb_by_its_purpose():
    lines = [line.split() for line in run("--help").stdout.splitlines()]
    places = {words[0]: i for i, words in reversed([*enumerate(lines)]) if words}
    purposes = [f"{purpose}:" for purpose in GROUPS]
    assert purposes == ["Measure:", "Model:", "Decide:", "Operate:"]
    for purpose, verbs in GROUPS.items():
        later = [places[p] for p in purposes if places[p] > places[f"{purpose}:"]]
        for verb in verbs:
            assert places[f"{purpose}:"] < places[verb] < min([*later, len(lines)])


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_can_answer_programs_in_json(verb):
    for inner in getattr(cli.get_command(None, verb), "commands", [None]):
        words = [verb] if inner is None else [verb, inner]
        assert "--json" in run(*words, "--help").stdout


def test_every_verb_explains_itself():
    for verb in VERBS:
        assert run(verb, "--help").exit_code == 0


def test_fit_prints_the_leaderboard_and_where_the_model_is(folder):
    result = run("fit", "campaign.ini", "-o", "out", "-j", 1)
    assert result.exit_code == 0
    assert "48 runs, 2 columns (nodes, size)" in result.stdout
    assert "← best" in result.stdout
    assert "out/best.foretell" in result.stdout


def test_fit_prints_json_for_programs(folder):
    result = run("fit", "campaign.ini", "-o", "out", "-j", 1, "-q", "--json")
    assert json.loads(result.stdout)["best"] in {"LRRidge", "DecisionTree"}


def test_seed_option_overrides_the_campaigns(folder):
    run("fit", "campaign.ini", "-o", "a", "-j", 1, "-q", "--seed", 5)
    assert json.loads((folder / "a" / "results.json").read_text())["campaign"]["seed"] == 5


def test_racing_option_lets_trials_be_stopped(folder):
    run("fit", "campaign.ini", "-o", "a", "-j", 1, "-q", "--racing")
    assert json.loads((folder / "a" / "results.json").read_text())["campaign"]["search"]["racing"]


def test_unknown_option_of_a_file_is_warned_about_on_stderr_and_in_the_results(folder):
    (folder / "campaign.ini").write_text(INI.replace("folds = 3", "folds = 3\nrun_nmu = 2"))
    result = run("fit", "campaign.ini", "-o", "out", "-j", 1, "-q")
    assert "run_nmu" in result.stderr
    assert "run_num" in result.stderr
    assert "run_nmu" in (folder / "out" / "results.txt").read_text()


def test_paths_resolve_against_the_campaign_file_when_not_found_here(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    result = subprocess.run(
        [sys.executable, "-m", "foretell", "fit", folder / "campaign.ini",
         "-o", "out", "-j", "1", "-q"],
        cwd=elsewhere, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert (elsewhere / "out" / "best.foretell").exists()


def test_progress_goes_to_stderr_and_quiet_silences_it(fitted):
    result = run("fit", "campaign.ini", "-o", "again", "-j", 1, "-q")
    assert result.stderr == ""


def test_predict_without_the_target_writes_a_prediction_per_row_in_order(fitted):
    result = run("predict", "out", "new.csv", "-o", "predictions.csv")
    assert result.exit_code == 0
    written = pd.read_csv("predictions.csv")
    assert written["size"].tolist() == [5, 90]
    assert (written["prediction"] > 0).all()


def test_predict_says_which_rows_leave_the_data_and_along_what(fitted):
    result = run("predict", "out", "new.csv", "-o", "predictions.csv")
    assert "2 rows, 1 outside the data" in result.stdout
    outside = pd.read_csv("predictions.csv", keep_default_na=False)["outside"]
    assert outside[0] == ""
    assert outside[1].startswith("size")


def test_predict_with_the_target_prints_the_mape(fitted):
    frame = pd.read_csv("runs.csv")
    run("predict", "out", "runs.csv", "-o", "predictions.csv")
    prediction = pd.read_csv("predictions.csv")["prediction"]
    mape = np.mean(np.abs(prediction / frame["time_s"] - 1))
    shown = run("predict", "out", "runs.csv").stdout
    assert f"MAPE {100 * mape:.1f}" in shown


def test_predict_takes_one_row_any_column_order_and_a_model_file(fitted):
    frame = pd.DataFrame({"extra": ["x"], "size": [7.0], "nodes": [2]})
    frame.to_csv("one.csv", index=False)
    for model in ("out", "out/DecisionTree.foretell"):
        assert run("predict", model, "one.csv").exit_code == 0
    result = run("predict", "out", "one.csv", "--json")
    assert json.loads(result.stdout)[0]["prediction"] > 0


def test_predict_takes_the_prediction_files_of_amllibrary(fitted):
    (fitted / "predict.ini").write_text(
        "[General]\ny = time_s\n[DataPreparation]\ninput_path = runs.csv\n"
    )
    named = run("predict", "out", "predict.ini", "-o", "named.csv")
    assert named.exit_code == 0, named.output
    assert "MAPE" in named.stdout
    run("predict", "out", "runs.csv", "-o", "given.csv")
    assert (fitted / "named.csv").read_bytes() == (fitted / "given.csv").read_bytes()


def test_predict_writes_over_a_file_only_when_forced(fitted):
    (fitted / "p.csv").write_text("precious")
    assert run("predict", "out", "new.csv", "-o", "p.csv").exit_code == 2
    assert (fitted / "p.csv").read_text() == "precious"
    assert run("predict", "out", "new.csv", "-o", "p.csv", "--force").exit_code == 0


def test_convert_writes_a_toml_file_that_gives_the_same_result(fitted):
    assert run("convert", "campaign.ini", "campaign.toml").exit_code == 0
    run("fit", "campaign.toml", "-o", "out2", "-j", 1, "-q")
    boards = [
        json.loads((fitted / d / "results.json").read_text())["leaderboard"]
        for d in ("out", "out2")
    ]
    assert boards[0] == boards[1]


def test_convert_and_export_say_what_they_wrote_in_json(fitted):
    written = json.loads(run("convert", "campaign.ini", "new.toml", "--json").stdout)
    assert written == {
        "file": "new.toml", "bytes": (fitted / "new.toml").stat().st_size, "warnings": [],
    }  # fmt: skip
    text = run("export", "out/LRRidge.foretell", "--as", "sql").stdout
    exported = json.loads(run("export", "out/LRRidge.foretell", "--as", "sql", "--json").stdout)
    assert exported == {"form": "sql", "text": text}
    options = ("--as", "sql", "-o", "m.sql", "--json")
    exported = json.loads(run("export", "out/LRRidge.foretell", *options).stdout)
    assert exported == {"form": "sql", "file": "m.sql", "bytes": len(text.encode())}
    assert (fitted / "m.sql").read_text() == text


def test_warnings_of_convert_go_to_stderr_or_into_the_json(folder):
    (folder / "campaign.ini").write_text(INI.replace("folds = 3", "folds = 3\nrun_nmu = 2"))
    result = run("convert", "campaign.ini", "a.toml")
    assert "run_nmu" in result.stderr and "run_nmu" not in result.stdout
    result = run("convert", "campaign.ini", "b.toml", "--json")
    assert "run_nmu" in str(json.loads(result.stdout)["warnings"])
    assert result.stderr == ""


HOSTILE = "m5\x1b[2J\x07\u202e"


def test_control_characters_in_names_and_levels_never_reach_the_terminal(folder):
    frame = pd.read_csv("runs.csv").rename(columns={"nodes": f"nodes{HOSTILE}"})
    frame["machine"] = [f"a{HOSTILE}", "b"] * 24
    frame.to_csv("runs.csv", index=False)
    frame.assign(machine=f"c{HOSTILE}").to_csv("new.csv", index=False)
    (folder / "c.toml").write_text(
        '[data]\npath = "runs.csv"\ntarget = "time_s"\n[techniques.LRRidge]\nalpha = 0.1\n'
    )
    for words in (
        ("fit", "c.toml", "-o", "out", "-j", 1, "-q"),
        ("predict", "out", "new.csv"),
        ("predict", "out", "new.csv", "-o", "p.csv", "--json"),
        ("fit", "c.toml", "-o", "other", "--data", f"no{HOSTILE}.csv"),
        ("fit", "runs.csv", "--target", f"x{HOSTILE}", "-o", "other"),
        (f"verb{HOSTILE}",),
        ("fit", f"--opt{HOSTILE}"),
        ("score", "out", "new.csv"),
    ):
        result = run(*words)
        for text in (result.stdout, result.stderr):
            hidden = [c for c in text if not c.isprintable() and c != "\n"]
            assert hidden == [], (words, text)
    assert r"m5\x1b[2J\x07\u202e" in run("predict", "out", "new.csv").stdout
    for form in ("html", "md"):
        assert run("report", "out", "-o", f"report.{form}").exit_code == 0
    for name in ("out/results.txt", "report.html", "report.md"):
        text = (folder / name).read_text()
        assert [c for c in text if not c.isprintable() and c != "\n"] == [], name


def test_schema_accepts_converted_campaigns_and_refuses_typos(fitted):
    schema = json.loads(run("schema").stdout)
    run("convert", "campaign.ini", "campaign.toml")
    campaign = tomllib.loads((fitted / "campaign.toml").read_text())
    jsonschema.validate(campaign, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**campaign, "sede": 1}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**campaign, "techniques": {"LRRidg": {}}}, schema)


def test_techniques_lists_all_with_their_hyperparameters():
    listed = json.loads(run("techniques", "--json").stdout)
    assert set(listed) == {
        "LRRidge", "NNLS", "Stepwise", "SVR", "DecisionTree", "RandomForest", "XGBoost",
        "NeuralNetwork", "Dummy", "PowerLaw", "ScalingLaw", "LightTrees", "LogGP", "Hybrid",
        "Ensemble",
    }  # fmt: skip
    assert "alpha" in run("techniques").stdout


def test_campaign_without_a_usable_model_exits_with_1(folder):
    frame = pd.read_csv("runs.csv")
    frame.assign(time_s=frame["time_s"] * 1e300).to_csv("runs.csv", index=False)
    (folder / "c.toml").write_text(
        '[data]\npath = "runs.csv"\ntarget = "time_s"\n[techniques.NeuralNetwork]\nepochs = 1\n'
    )
    result = run("fit", "c.toml", "-o", "out", "-j", 1, "-q")
    assert result.exit_code == 1
    assert "no technique gave a model" in result.stderr


def test_demo_fits_predicts_and_ends_with_a_plan_and_the_path_of_a_report(folder):
    result = run("demo", "-o", "demo", "-j", 1)
    assert result.exit_code == 0, result.output
    assert "← best" in result.stdout
    assert "MAPE" in result.stdout
    assert "Use threads=2: " in result.stdout
    assert "demo/report.html" in result.stdout.splitlines()[-1]
    assert (folder / "demo" / "report.html").stat().st_size < 2_000_000
    again = run("demo", "-o", "demo", "-j", 1, "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout) == {"models": "demo", "report": "demo/report.html"}


def test_data_option_takes_another_table_than_the_campaign_names(folder):
    pd.read_csv("runs.csv").head(30).to_csv("fewer.csv", index=False)
    result = run("fit", "campaign.ini", "--data", "fewer.csv", "-o", "out", "-j", 1, "-q")
    assert "30 runs" in result.stdout


def test_predict_follows_swapped_names_and_keeps_versions_as_written(folder):
    frame = pd.read_csv("runs.csv").assign(version=["1.10", "1.1", "x"] * 16)
    frame["time_s"] *= np.where(frame["version"] == "1.10", 3, 1)
    frame.to_csv("runs.csv", index=False)
    (folder / "c.toml").write_text(
        '[data]\npath = "runs.csv"\ntarget = "time_s"\ncategorical = ["version"]\n'
        'rename = { nodes = "size", size = "nodes" }\n'
        "[search.splits]\nmethod = 'KFold'\nfolds = 2\n[techniques.DecisionTree]\n"
    )
    assert run("fit", "c.toml", "-o", "swapped", "-j", 1, "-q").exit_code == 0
    one = frame[frame["version"] == "1.10"]
    one.to_csv("one.csv", index=False)
    assert run("predict", "swapped", "one.csv", "-o", "p.csv").exit_code == 0
    written = pd.read_csv("p.csv", dtype={"version": str}, keep_default_na=False)
    assert set(written["version"]) == {"1.10"}
    assert set(written["outside"]) == {""}
    off = np.abs(written["prediction"].to_numpy() / one["time_s"].to_numpy() - 1)
    assert np.median(off) < 0.2


def test_predict_does_not_vouch_for_rows_outside_the_data(fitted):
    assert "far: size: " in run("predict", "out", "new.csv").stdout
    pd.DataFrame({"size": [5.0], "nodes": [2]}).to_csv("inside.csv", index=False)
    shown = run("predict", "out", "inside.csv").stdout
    assert "1 row, 0 outside the data." in shown
    assert "far:" not in shown


def test_a_misspelled_verb_is_suggested(folder):
    result = run("reprot", "models")
    assert result.exit_code == 2
    assert "there is no verb 'reprot'. Did you mean 'report'?" in result.stderr
