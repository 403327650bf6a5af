"""`foretell fit` on a table, and `foretell predict` after it, as a user types them."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import foretell
from foretell.cli._main import cli
from foretell.wording import percent

FIT = ("fit", "runs.csv", "--target", "time_s", "-o", "out", "-j", 1)


def run(*words):
    return CliRunner().invoke(cli, [str(w) for w in words], catch_exceptions=False)


def write_runs(path):
    rows = [(n, s, m) for n in (1, 2, 4, 8) for s in (10, 20, 40, 80) for m in ("m4", "c4")]
    frame = pd.DataFrame(rows, columns=["nodes", "size", "machine"])
    noise = np.random.default_rng(0).lognormal(0, 0.02, len(frame))
    factor = np.where(frame["machine"] == "m4", 1.0, 2.0)
    frame["time_s"] = (5 + 3 * frame["size"] / frame["nodes"]) * factor * noise
    frame.to_csv(path, index=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a table and what `fit` made of it, and what it printed."""
    folder = tmp_path_factory.mktemp("trained")
    write_runs(folder / "runs.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = run(*FIT)
    assert result.exit_code == 0, result.output
    return folder, result


@pytest.fixture
def folder(trained, monkeypatch, tmp_path):
    """A folder of our own beside a table; the model is in the other one."""
    write_runs(tmp_path / "runs.csv")
    (tmp_path / "out").symlink_to(trained[0] / "out")
    new = pd.DataFrame(
        {
            "machine": ["m4", "m4", "c4", "x1", "m4"],
            "size": [20, 20, 160, 20, 20],
            "nodes": [4, 3, 16, 4, 1024],
        }
    )
    new.to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def predicted(*options):
    result = run("predict", "out", "new.csv", "-o", "p.csv", "--force", *options)
    assert result.exit_code == 0, result.output
    return pd.read_csv("p.csv", keep_default_na=False)


# fit


def test_fit_prints_the_data_the_errors_by_question_the_law_and_what_to_do_next(trained):
    shown = trained[1].stdout
    assert "32 runs, 3 columns (machine, nodes, size)" in shown
    head = next(line for line in shown.splitlines() if line.startswith("relative error"))
    assert "known values" in head and "between" in head and "2× beyond" in head
    assert "← best" in shown
    assert "time_s ≈ " in shown
    assert "What matters: " in shown
    assert "Outside the data: nodes up to " in shown
    assert "out/best.foretell" in shown
    assert "foretell predict out new.csv" in shown


def test_fit_leaves_models_results_and_a_leaderboard(trained):
    names = {p.name for p in (trained[0] / "out").iterdir()}
    assert {"best.foretell", "Ensemble.foretell", "results.json", "results.txt"} <= names
    assert "leaderboard.csv" in names
    board = pd.read_csv(trained[0] / "out" / "leaderboard.csv")
    asked = ["error_inside", "error_between", "error_1.5x", "error_2x", "error_4x"]
    assert set(asked) <= set(board.columns)
    assert board.loc[0, "technique"] == "Ensemble"


def few_runs():
    """Return a table of so few runs that a fit takes little time."""
    return pd.read_csv("runs.csv")[::3].head(10).reset_index(drop=True)


def test_fit_prints_json_for_programs_and_quiet_means_no_progress(folder):
    few_runs().to_csv("few.csv", index=False)
    result = run("fit", "few.csv", "--target", "time_s", "-o", "own", "-j", 1, "-q", "--json")
    assert result.stderr == ""
    results = json.loads(result.stdout)
    assert results["kind"] == "automatic"
    assert results["data"]["target"] == "time_s"
    assert results == json.loads((folder / "own" / "results.json").read_text())


def test_time_limit_that_cut_is_printed(folder):
    result = run(*FIT[:4], "-o", "cut", "-j", 1, "-q", "--time-limit", "0.001")
    assert result.exit_code == 0
    assert "Note: The time limit cut the rehearsals" in result.stdout


def test_seed_option_is_taken(folder):
    few_runs().to_csv("few.csv", index=False)
    result = run("fit", "few.csv", "--target", "time_s", "-o", "s", "-q", "--seed", 5, "--json")
    assert json.loads(result.stdout)["seed"] == 5


def test_fit_of_tabs_and_of_python_is_the_same(folder):
    frame = few_runs()
    frame.to_csv("few.tsv", sep="\t", index=False)
    assert run("fit", "few.tsv", "--target", "time_s", "-o", "t", "-j", 1, "-q").exit_code == 0
    fitted = foretell.fit_model("few.tsv", target="time_s")
    new = frame[["nodes", "size", "machine"]]
    assert np.array_equal(foretell.load_model("t").predict(new), fitted.predict(new))


def times(values):
    return "nodes,time_s\n" + "".join(f"{n},{t}\n" for n, t in enumerate(values, 1))


REFUSED = {
    "no target": ("fit runs.csv -o x", ["is a table", "--target", "nodes, size, machine, time_s"]),
    "target not there": ("fit runs.csv --target time -o x", ["'time'", "time_s"]),
    "racing": ("fit runs.csv --target time_s --racing -o x", ["--racing", "campaign"]),
    "other data": ("fit runs.csv --target time_s --data new.csv -o x", ["--data", "campaign"]),
    "target of a campaign": ("fit c.toml --target time_s -o x", ["--target", "c.toml"]),
    "two rows": ("fit two.csv --target time_s -o x", ["2 rows", "at least 3"]),
    "zero": ("fit zero.csv --target time_s -o x", ["zero.csv", "time_s", "positive"]),
    "negative": ("fit negative.csv --target time_s -o x", ["negative.csv", "time_s", "positive"]),
    "no table": ("fit missing.csv --target time_s -o x", ["missing.csv"]),
    "target that is a level": ("fit runs.csv --target machine -o x", ["machine", "number"]),
}


@pytest.mark.parametrize(("command", "words"), REFUSED.values(), ids=REFUSED)
def test_bad_fits_are_refused_with_one_clear_line_and_nothing_is_written(folder, command, words):
    (folder / "c.toml").write_text(
        '[data]\npath = "runs.csv"\ntarget = "time_s"\n[techniques.PowerLaw]\n'
    )
    (folder / "two.csv").write_text(times([3, 2]))
    (folder / "zero.csv").write_text(times([3, 2, 0, 1]))
    (folder / "negative.csv").write_text(times([3, 2, -1, 1]))
    result = run(*command.split(), "-j", 1, "-q")
    assert result.exit_code == 2, result.output
    first = result.stderr.splitlines()[0]
    assert first.startswith("error: ")
    assert all(word in first for word in words), first
    assert not (folder / "x").exists() or list((folder / "x").iterdir()) == []


# predict


def test_predict_writes_the_passport_of_every_row(folder):
    written = predicted()
    assert list(written.columns[-6:]) == [
        "prediction", "lower", "upper", "outside", "expected_error", "trust",
    ]  # fmt: skip
    assert written["trust"].tolist() == ["inside", "inside", "near", "unknown level", "far"]
    assert written["outside"].tolist() == [
        "",
        "",
        "nodes: 2× above the largest measured (8); size: 2× above the largest measured (80)",
        "machine: unknown level x1",
        "nodes: 128× above the largest measured (8)",
    ]
    assert (written["lower"] < written["prediction"]).all()
    assert (written["prediction"] < written["upper"]).all()
    expected = pd.to_numeric(written["expected_error"])
    assert expected[:4].between(0, 5).all()
    assert expected.idxmin() in (0, 1)
    assert np.isnan(expected[4])  # far outside nobody knows it


def test_interval_option_changes_widths(folder):
    width = [
        (p := predicted("--interval", level))["upper"] / p["lower"] for level in (0.5, 0.8, 0.95)
    ]
    assert (width[0] < width[1]).all()
    assert (width[1] < width[2]).all()


@pytest.mark.parametrize("level", ["0", "1", "90", "-1"])
def test_interval_that_is_no_share_is_refused(folder, level):
    result = run("predict", "out", "new.csv", "--interval", level)
    assert result.exit_code == 2
    assert "between 0 and 1" in result.stderr


def test_terminal_summary_says_how_many_rows_are_outside_and_along_what(folder):
    shown = run("predict", "out", "new.csv").stdout
    assert "5 rows, 3 outside the data (nodes, size, machine)." in shown
    assert "90 % interval" in shown
    assert "near: nodes: 2× above the largest measured (8)" in shown
    assert "unknown level: machine: unknown level x1" in shown
    pd.DataFrame({"nodes": [4], "size": [20], "machine": ["m4"]}).to_csv("in.csv", index=False)
    shown = run("predict", "out", "in.csv", "--interval", 0.5).stdout
    assert "1 row, 0 outside the data." in shown
    assert "50 % interval" in shown


def test_summary_of_an_unknown_level_that_is_written_oddly_names_only_columns(folder):
    odd = pd.DataFrame({"nodes": [4], "size": [20], "machine": ["x; y: z"]})
    odd.to_csv("odd.csv", index=False)
    assert "1 outside the data (machine)." in run("predict", "out", "odd.csv").stdout


def test_predict_against_measured_runs_says_how_many_the_intervals_hold(folder):
    shown = run("predict", "out", "runs.csv").stdout
    written = run("predict", "out", "runs.csv", "--json").stdout
    rows = json.loads(written)
    held = np.mean([r["lower"] <= r["time_s"] <= r["upper"] for r in rows])
    assert "Against the measured time_s: MAPE" in shown
    assert held > 0.7
    assert f"The intervals hold {percent(held)} of them." in shown


def test_rows_with_gaps_are_marked_and_the_others_predicted_as_without_them(folder):
    whole = predicted()
    frame = pd.read_csv("new.csv")
    gaps = pd.DataFrame({"machine": ["m4", None], "size": [None, 20], "nodes": [None, 4]})
    order = [5, 0, 1, 6, 2, 3, 4]  # gaps at the first and the fourth row
    pd.concat([frame, gaps], ignore_index=True).iloc[order].to_csv("new.csv", index=False)
    result = run("predict", "out", "new.csv")
    assert result.exit_code == 0
    assert "no prediction for 2 of 7 rows" in result.stderr
    assert "'machine' has 1 missing value (row 4)" in result.stderr
    assert all(
        f"'{name}' has 1 missing value (row 1)" in result.stderr for name in ("size", "nodes")
    )
    assert "nan" not in result.stdout.lower()
    assert "7 rows, 3 outside the data (nodes, size, machine)." in result.stdout
    written = predicted()
    assert written["trust"].tolist()[:4] == ["missing", "inside", "inside", "missing"]
    assert written.loc[[0, 3], "prediction"].tolist() == ["", ""]
    assert written.loc[0, "outside"] == "no value: nodes, size"
    assert written.loc[3, "outside"] == "no value: machine"
    rest = written.drop(index=[0, 3]).reset_index(drop=True)
    for name in ("prediction", "lower", "upper"):
        assert rest[name].astype(float).tolist() == whole[name].tolist()
    rows = json.loads(run("predict", "out", "new.csv", "--json").stdout)
    assert [r["prediction"] is None for r in rows] == [True, False, False, True] + [False] * 3


def test_predict_says_how_many_rows_were_in_the_fit(folder):
    shown = run("predict", "out", "runs.csv").stdout
    assert "32 of 32 rows were in the fit; on those, the error is optimistic." in shown
    assert "in the fit" not in run("predict", "out", "new.csv").stdout


def test_wrong_cells_of_any_kind_mark_their_rows_all_at_once(folder):
    cells = ["20", "", "0", "big", "inf", "1e400"]
    lines = [f"m4,{cell},4" for cell in cells]
    (folder / "new.csv").write_text("\n".join(["machine,size,nodes", *lines]) + "\n")
    result = run("predict", "out", "new.csv")
    assert result.exit_code == 0
    assert "no prediction for 5 of 6 rows" in result.stderr
    for told in ("1 missing value (row 2)", "1 value ≤ 0 (row 3)", "'big' (row 4)"):
        assert told in result.stderr
    assert "2 infinite values (rows 5, 6)" in result.stderr
    written = predicted()
    assert written["trust"].tolist() == ["inside", "missing", *["invalid"] * 4]
    assert written["prediction"].tolist()[1:] == [""] * 5
    reasons = written["outside"].tolist()
    assert "'big' is not a number" in reasons[3] and "infinite" in reasons[4]
    assert all("size" in reason for reason in reasons[1:])
    (folder / "new.csv").write_text(f"machine,size,nodes\n{lines[0]}\n")
    assert predicted()["prediction"].tolist() == [float(written["prediction"][0])]


def test_cells_are_written_as_they_were_given_whatever_other_rows_hold(folder):
    rows = ["m4,20,4,007,1.50,NA", "c4,1e15,2,,12345678901234567890123,x", "m4,,8,1,0.1,null"]
    text = "machine,size,nodes,tag,note,kind\n" + "\n".join(rows) + "\n"
    (folder / "new.csv").write_text(text)
    predicted()
    with (folder / "p.csv").open(newline="") as file:
        assert [line[:6] for line in csv.reader(file)] == [
            line.split(",") for line in text.splitlines()
        ]
    shown = run("predict", "out", "new.csv").stdout
    first, huge, gap = (line.split() for line in shown.splitlines()[1:4])
    assert (first[:3], huge[:3]) == (["m4", "20", "4"], ["c4", "1e15", "2"])
    assert gap[:2] == ["m4", "8"]


def test_whole_numbers_of_a_parquet_table_stay_whole_beside_gaps(folder):
    frame = pd.DataFrame({"machine": ["m4"] * 2, "size": [20, None], "nodes": [4, 2]})
    frame.astype({"size": "Int64"}).to_parquet("new.parquet")
    assert run("predict", "out", "new.parquet", "-o", "p.csv").exit_code == 0
    lines = (folder / "p.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [["m4", "20", "4"], ["m4", "", "2"]]


def test_a_table_that_comes_through_a_pipe_is_predicted(folder):
    """A pipe can be read only once, and its cells are still written as given."""
    read, write = os.pipe()
    os.write(write, b"machine,size,nodes\nm4,020,4\nm4,,4\n")
    os.close(write)
    result = run("predict", "out", f"/dev/fd/{read}", "-o", "p.csv")
    os.close(read)
    assert result.exit_code == 0, result.output
    assert (folder / "p.csv").read_text().splitlines()[1].startswith("m4,020,4,")


def test_runs_without_a_measured_target_do_not_hide_the_comparison(folder):
    frame = pd.read_csv("runs.csv")
    frame.loc[[0, 5], "time_s"] = None
    frame.to_csv("some.csv", index=False)
    rows = json.loads(run("predict", "out", "some.csv", "--json").stdout)
    known = [r for r in rows if r["time_s"] is not None]
    mape = np.mean([abs(r["prediction"] / r["time_s"] - 1) for r in known])
    shown = run("predict", "out", "some.csv").stdout
    told = re.search(r"of 30 rows: MAPE ([\d.]+) %", shown)
    assert float(told[1]) == pytest.approx(100 * mape, abs=0.006)


def test_coverage_is_told_by_trust(folder):
    frame = pd.read_csv("runs.csv")
    beyond = frame.tail(4).assign(nodes=16)
    both = pd.concat([frame, beyond.assign(time_s=1e6)])
    both.to_csv("both.csv", index=False)
    rows = json.loads(run("predict", "out", "both.csv", "--json").stdout)
    inside = [r["lower"] <= r["time_s"] <= r["upper"] for r in rows if r["trust"] == "inside"]
    assert 0 < len(inside) < len(rows)
    shown = run("predict", "out", "both.csv").stdout
    found = re.findall(r"^(\w+) +(\d+) .* (\d+) \(\d+ %\)$", shown, re.MULTILINE)
    told = {trust: (int(n_runs), int(n_held)) for trust, n_runs, n_held in found}
    assert told == {"inside": (len(inside), sum(inside)), "near": (len(rows) - len(inside), 0)}


def test_an_unknown_level_is_told_with_the_nearest_one(folder):
    frame = pd.DataFrame({"nodes": [4, 4], "size": [20, 20], "machine": ["M4", "zzz"]})
    frame.to_csv("new.csv", index=False)
    assert predicted()["outside"].tolist() == [
        "machine: unknown level M4 (did you mean m4?)",
        "machine: unknown level zzz",
    ]


def test_columns_that_no_model_can_use_are_left_out_with_a_note(folder):
    frame = few_runs()
    frame.assign(tags=[["a"]] * len(frame)).to_parquet("runs.parquet")
    result = run("fit", "runs.parquet", "--target", "time_s", "-o", "p", "-j", 1, "-q")
    assert result.exit_code == 0, result.output
    assert "'tags' was left out: it holds lists" in result.stdout
    result = run("predict", "p", "runs.parquet")
    assert result.exit_code == 0
    assert "'tags' is not in the output: it holds lists" in result.stderr


def test_units_and_spellings_are_noted_by_fit(folder):
    frame = few_runs().assign(memory="16GB")
    frame.loc[::2, "memory"] = "32GB"
    frame.loc[:3, "machine"] = frame.loc[:3, "machine"].str.upper()
    frame.to_csv("odd.csv", index=False)
    shown = run("fit", "odd.csv", "--target", "time_s", "-o", "u", "-j", 1, "-q").stdout
    assert "memory_gb and write 32" in shown
    assert "differ only in case" in shown


def test_a_column_that_looks_like_html_is_fitted_and_reported(folder):
    frame = few_runs().rename(columns={"nodes": "<script>alert(1)</script>"})
    frame.to_csv("odd.csv", index=False, quoting=csv.QUOTE_ALL)
    assert run("fit", "odd.csv", "--target", "time_s", "-o", "h", "-j", 1, "-q").exit_code == 0
    result = run("report", "h", "-o", "h.html")
    assert result.exit_code == 0, result.output
    assert "<script>" not in (folder / "h.html").read_text()


def test_every_column_with_gaps_is_named_at_once(folder):
    frame = pd.read_csv("runs.csv")
    frame.loc[[1, 2], "size"] = None
    frame.loc[3, "machine"] = None
    frame.to_csv("gaps.csv", index=False)
    result = run("fit", "gaps.csv", "--target", "time_s", "-o", "g", "-j", 1, "-q")
    assert result.exit_code == 2
    assert "'size' has 2 missing values (rows 2, 3)" in result.stderr
    assert "'machine' has 1 missing value (row 4)" in result.stderr
    assert "--drop-missing" in result.stderr


def test_a_table_with_a_column_of_our_own_is_refused(folder):
    frame = pd.read_csv("new.csv").assign(trust="full")
    frame.to_csv("mine.csv", index=False)
    result = run("predict", "out", "mine.csv")
    assert result.exit_code == 2
    assert "'trust' already" in result.stderr


# Columns, rows and targets


def choices(**more):
    nodes = np.tile([1, 2, 4, 8], 3)
    random = np.random.default_rng(0)
    time_s = (5 + 40 / nodes) * random.lognormal(0, 0.02, len(nodes))
    columns = {"nodes": nodes, "kind": np.repeat([3, 7, 9], 4), "time_s": time_s,
               "memory_bytes": 1e9 + 1e8 * nodes}  # fmt: skip
    return pd.DataFrame({**columns, **more})


def fit_choices(*options, output="chosen"):
    result = run("fit", "choices.csv", "--target", "time_s", "-o", output, "-j", 1, "-q", *options)
    assert result.exit_code == 0, result.output
    return foretell.load_model(output)


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ((), ["nodes", "kind", "memory_bytes"]),
        (("--use", "nodes"), ["nodes"]),
        (("--use", "nodes", "--use", "kind"), ["nodes", "kind"]),
        (("--skip", "memory_bytes"), ["nodes", "kind"]),
        (("--skip", "memory_bytes", "--skip", "kind"), ["nodes"]),
    ],
)
def test_columns_are_used_and_skipped_as_asked(folder, options, columns):
    choices().to_csv("choices.csv", index=False)
    assert fit_choices(*options).columns == sorted(columns)


def test_numbers_are_read_as_names_on_request(folder):
    choices().to_csv("choices.csv", index=False)
    model = fit_choices("--categorical", "kind")
    assert model.categories == {"kind": ("3", "7", "9")}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--use nods", ["'nods'", "'nodes'?"]),
        ("--skip nods", ["'nods'", "'nodes'?"]),
        ("--use nodes --skip nodes", ["--skip", "'nodes'", "both"]),
        ("--use time_s", ["'time_s'", "target"]),
        ("--target memory_bytes --use memory_bytes", ["--use", "memory_bytes", "target"]),
        ("--target time_s", ["--target", "time_s"]),
        ("--target tme_s", ["'tme_s'", "'time_s'?"]),
        ("--data choices.csv", ["--data", "campaign"]),
        ("--racing", ["--racing", "campaign"]),
    ],
)
def test_impossible_choices_are_refused(folder, options, words):
    choices().to_csv("choices.csv", index=False)
    result = run("fit", "choices.csv", "--target", "time_s", *options.split(), "-o", "x", "-q")
    assert result.exit_code == 2, result.output
    assert all(word in result.stderr for word in words), result.stderr
    assert not (folder / "x").exists()


def test_all_missing_values_are_reported_at_once_and_dropped_on_request(folder):
    frame = choices().astype({"nodes": float, "kind": float})
    frame.loc[[2, 5], "nodes"] = np.nan
    frame.loc[[5, 9, 11], "kind"] = np.nan
    frame.loc[8, "time_s"] = np.nan
    frame.to_csv("choices.csv", index=False)
    result = run("fit", "choices.csv", "--target", "time_s", "-o", "chosen", "-j", 1, "-q")
    assert result.exit_code == 2
    for words in ("'nodes' has 2", "3, 6", "'kind' has 3", "6, 10, 12", "'time_s' has 1", "row 9"):
        assert words in result.stderr, result.stderr
    assert "--drop-missing" in result.stderr
    model = fit_choices("--drop-missing")
    assert model.n_rows == len(frame.dropna()) == 7
    assert any("5 of 12 rows" in note for note in read_results("chosen")["notes"])
    # What is not used may be missing.
    assert fit_choices("--drop-missing", "--skip", "kind", output="other").n_rows == 9


def read_results(directory):
    return json.loads((Path(directory) / "results.json").read_text())


def test_missing_values_of_a_campaign_are_dropped_on_request(folder):
    frame = choices().astype({"nodes": float})
    frame.loc[[2, 5], "nodes"] = np.nan
    campaign = {
        "data": {"target": "time_s", "rename": {"nodes": "n"}, "use_columns": ["n"]},
        "techniques": {"LRRidge": {}},
    }
    with pytest.raises(foretell.DatasetError, match="drop_missing"):
        foretell.fit_model(campaign, frame)
    fit = foretell.fit_model(campaign, frame, drop_missing=True)
    assert fit.results["data"]["n_rows"] == 10
    assert any("2 of 12 rows" in note for note in fit.results["notes"])


def test_several_targets_give_models_that_plan_together(folder):
    choices().to_csv("choices.csv", index=False)
    both = ("--target", "time_s", "--target", "memory_bytes")
    result = run("fit", "choices.csv", *both, "-o", "models", "-j", 1, "-q")
    assert result.exit_code == 0, result.output
    assert "models/time_s/best.foretell" in result.stdout
    for target in ("time_s", "memory_bytes"):
        model = foretell.load_model(f"models/{target}")
        assert model.target == target
        assert model.columns == ["kind", "nodes"]
    planned = run(
        "plan", "models", "--vary", "nodes=1..8", "--fix", "kind=3",
        "--max-memory", "1.5GB", "--minimize", "time", "--json",
    )  # fmt: skip
    assert planned.exit_code == 0, planned.output
    nodes = json.loads(planned.stdout)["chosen"]["configuration"]["nodes"]
    assert 1e9 + 1e8 * nodes <= 1.5e9 and nodes >= 3
    which = run("predict", "models", "choices.csv")
    assert which.exit_code == 2
    assert "models/time_s" in which.stderr and "models/memory_bytes" in which.stderr


def test_several_targets_in_python_are_fits_by_target_as_each_alone(folder):
    frame = choices()
    fits = foretell.fit_model(frame, target=["time_s", "memory_bytes"], output="models")
    assert list(fits) == ["time_s", "memory_bytes"]
    alone = foretell.fit_model(frame.drop(columns="memory_bytes"), target="time_s")
    rows = frame.head(4)
    assert fits["time_s"].predict(rows) == pytest.approx(alone.predict(rows), rel=1e-9)
    assert {m.target for m in foretell.load_models("models")} == set(fits)


def test_a_directory_with_one_fit_is_not_mixed_with_several(folder):
    choices().to_csv("choices.csv", index=False)
    fit_choices(output="one")
    both = ("--target", "time_s", "--target", "memory_bytes")
    result = run("fit", "choices.csv", *both, "-o", "one", "-q")
    assert result.exit_code == 2 and "another directory" in result.stderr


def test_a_target_that_is_no_name_of_a_directory_is_refused(folder):
    frame = choices().rename(columns={"memory_bytes": "../memory_bytes"})
    with pytest.raises(foretell.UsageError, match="rename the column"):
        foretell.fit_model(frame, target=["time_s", "../memory_bytes"], output="models")
    assert not Path("memory_bytes").exists()


@pytest.mark.parametrize("size", [0, -4])
@pytest.mark.parametrize(
    "ask",
    [
        ["plan", "out", "--vary", "nodes=1..8", "--fix", "machine=m4", "--fix", "size={size}"],
        ["plan", "out", "--vary", "size={size},40", "--fix", "machine=m4", "--fix", "nodes=2"],
    ],
    ids=["fixed", "varied"],
)
def test_plans_refuse_zero_with_the_range_of_a_column_that_was_positive(folder, ask, size):
    result = run(*(word.format(size=size) for word in ask))
    assert result.exit_code == 2
    for words in ("size", str(size), "10 to 80", "positive"):
        assert words in result.output


@pytest.mark.parametrize("size", [0, -4])
def test_a_row_with_zero_gets_no_prediction_but_the_range_of_a_column_that_was_positive(
    folder, size
):
    asked = pd.DataFrame({"machine": ["m4", "c4"], "size": [20, size], "nodes": [2, 2]})
    asked.to_csv("zero.csv", index=False)
    result = run("predict", "out", "zero.csv", "--json")
    assert [row["prediction"] is None for row in json.loads(result.stdout)] == [False, True]
    for words in ("size", "row 2", "10 to 80", "positive"):
        assert words in result.stderr


def test_a_table_of_new_levels_only_says_which_were_measured_and_what_to_do(folder):
    new = pd.DataFrame({"machine": ["x1", "y2"], "size": [20, 40], "nodes": [2, 4]})
    new.to_csv("unknown.csv", index=False)
    result = run("predict", "out", "unknown.csv")
    assert result.exit_code == 0
    (note,) = [line for line in result.stderr.splitlines() if "every level" in line]
    for words in ("machine", "c4, m4", "measure"):
        assert words in note
    new.assign(machine=["x1", "m4"]).to_csv("known.csv", index=False)
    assert "every level" not in run("predict", "out", "known.csv").stderr


def test_a_table_without_anything_that_new_runs_share_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [f"run-{i}" for i in range(24)]
    frame = pd.DataFrame({"job": names, "host": names[::-1], "time_s": np.arange(24) + 1.0})
    frame.to_csv("names.csv", index=False)
    result = run("fit", "names.csv", "--target", "time_s", "-o", "named", "--time-limit", 5)
    assert "nothing in common" in result.output
    assert "Add columns" in result.output
