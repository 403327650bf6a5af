"""Measuring for real: jobs that work, fail, hang, crash and eat memory; and nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from foretell import fit_model, read_dataset
from foretell.errors import DatasetError, NothingUsableError, StorageError, UsageError
from foretell.files.journal import decode, encode
from foretell.measure.measure import MeasureOptions, measure_sweep
from foretell.traces import read_trace

from .conftest import command, python, script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


# Commands


def test_a_command_is_run_with_its_parameters_and_its_output_is_read(measured):
    words = script("import sys; print('answer:', int(sys.argv[1]) * 2, sys.argv[2])")
    table = measured(
        command(*words, "{n}", "{word}", extract={"answer": r"answer: (\d+)"}),
        {"n": [1, 2], "word": "two words; rm -rf"},
    )
    assert sorted(zip(table["n"], table["answer"], strict=True)) == [(1, 2.0), (2, 4.0)]
    assert (table["status"] == "ok").all()
    assert (table["wall_time_s"] > 0).all()


def test_a_command_in_one_text_is_split_before_values_are_filled_in(measured, folder):
    (folder / "two words").write_text("x" * 7)
    table = measured(
        {"use": "command", "run": "wc -c '{file}'", "extract": {"size": r"(\d+)"}},
        {"file": ["two words"]},
    )
    assert table["size"].tolist() == [7.0]


def test_environment_and_folder_of_a_command(measured, folder):
    (folder / "inside").mkdir()
    words = script("import os; print(os.environ['DEPTH'], os.path.basename(os.getcwd()))")
    table = measured(
        command(*words, env={"DEPTH": "{n}"}, folder="inside", extract={"depth": "^(.) inside"}),
        {"n": [4]},
    )
    assert table["depth"].tolist() == [4.0]


def test_what_is_prepared_is_not_measured(measured, folder):
    table = measured(
        command("cat", "{n}.txt", prepare=["sh", "-c", "sleep 0.5; echo hello > {n}.txt"]),
        {"n": [1]},
        meters=["cpu_time"],
    )
    assert (folder / "1.txt").exists()
    assert table["wall_time_s"][0] < 0.5


def test_scratch_is_a_folder_for_one_run_and_is_gone_afterwards(measured, folder):
    words = ["sh", "-c", "test ! -e {scratch}/a && touch {scratch}/a && echo {scratch} >> places"]
    table = measured(command(*words, "{n}"), {"n": [1, 2]})
    assert table["status"].tolist() == ["ok", "ok"]
    places = (folder / "places").read_text().split()
    assert len(places) == 2
    assert not any(Path(place).exists() for place in places)


def test_scratch_of_a_run_that_was_ended_is_gone_too(folder):
    words = ["sh", "-c", "echo {scratch} > place.txt; sleep 100"]
    sweep = {"workload": command(*words), "parameters": {"n": [1]}, "time_limit_s": 0.5}
    with pytest.raises(NothingUsableError, match="took more than"):
        measure_sweep({**sweep, "meters": []}, folder / "runs.csv")
    assert not Path((folder / "place.txt").read_text().strip()).exists()


FAILURES = [
    (script("import sys; print('no luck'); sys.exit(3)"), "exited with status 3: no luck"),
    (script("import os; os.kill(os.getpid(), 11)"), "ended by SIGSEGV"),
    (script("print('nothing of use')"), "its output has no speed: nothing matches"),
    (script("print('speed: fast')"), "its output has no number for speed"),
    (script("import sys; sys.stdout.buffer.write(bytes(range(256)) * 99)"), "has no speed"),
]


@pytest.mark.parametrize(("words", "reason"), FAILURES, ids=[r for _, r in FAILURES])
def test_a_command_that_goes_wrong_stays_in_the_table_with_its_reason(folder, words, reason):
    sweep = {
        "workload": command(*words, extract={"speed": "speed: (.*)"}),
        "parameters": {"n": [1]},
        "meters": [],
    }
    with pytest.raises(NothingUsableError, match=reason):
        measure_sweep(sweep, folder / "runs.csv")
    row = pd.read_csv(folder / "runs.csv").iloc[0]
    assert row["status"] == "failed"
    assert reason in row["reason"]


def test_a_job_that_hangs_is_ended_with_all_its_children_and_keeps_its_lower_bound(measured):
    words = script(
        """
        import subprocess, sys, time
        if sys.argv[1] == "2":
            child = subprocess.Popen(["sleep", "987.5"], start_new_session=True)
            time.sleep(600)
        """
    )
    table = measured(command(*words, "{n}"), {"n": [1, 2]}, time_limit_s=1.5).set_index("n")
    assert table["status"].to_dict() == {1: "ok", 2: "timed out"}
    assert table["wall_time_s"][2] == 1.5
    assert "lower bound" in table["reason"][2]
    assert not [p for p in psutil.process_iter(["cmdline"]) if "987.5" in (p.info["cmdline"] or [])]


def test_a_job_over_the_memory_limit_is_ended_and_says_so(folder):
    sweep = {"workload": python("greedy"), "parameters": {"n": [300]}, "memory_limit_mib": 100}
    with pytest.raises(NothingUsableError, match="held more than 100 MiB of memory"):
        measure_sweep({**sweep, "meters": []}, folder / "runs.csv")
    assert pd.read_csv(folder / "runs.csv")["status"].tolist() == ["out of memory"]


# Functions


def test_a_function_is_called_and_its_stages_and_numbers_are_columns(measured):
    table = measured(python("quick"), {"n": [10, 20]}).set_index("n")
    assert table["result"].to_dict() == {10: 20, 20: 40}
    assert (table["work_s"] > 0).all()
    assert (table["work_s"] <= table["wall_time_s"]).all()


def test_each_way_a_function_can_fail_has_its_reason_and_stops_nothing(measured):
    table = measured(python("picky"), {"n": [1, 2, 3, 4, 5]}).set_index("n")
    statuses = {1: "ok", 2: "failed", 3: "failed", 4: "out of memory", 5: "ok"}
    assert table["status"].to_dict() == statuses
    assert table["reason"][2] == "ValueError: two is too many"
    assert "exited with 7" in table["reason"][3]
    assert table["result"][5] == "5"


@pytest.mark.parametrize(
    ("call", "words"), [("wordy", "returned a list"), ("odd", "'result' is a object")]
)
def test_what_is_no_number_is_refused(measured, call, words):
    with pytest.raises(NothingUsableError, match=words):
        measured(python(call), {"n": [1]})


def test_a_function_that_takes_no_such_parameter_is_refused_before_anything_runs(measured):
    with pytest.raises(UsageError, match="jobs:quick takes no 'm'"):
        measured(python("quick"), {"m": [1]})
    with pytest.raises(UsageError, match=r"jobs:quick needs 'n'|takes no"):
        measured(python("quick"), {"watch_": [1]})
    with pytest.raises(UsageError, match="jobs has no 'quik'"):
        measured(python("quik"), {"n": [1]})


def test_a_workload_of_ones_own_is_a_class_with_one_method(measured, folder):
    (folder / "own.py").write_text(
        "from foretell.measure.workloads import Workload\n"
        "class Doubling(Workload):\n"
        "    def run(self, configuration, watch):\n"
        "        return {'double': 2 * configuration['n']}\n"
    )
    table = measured({"use": "own:Doubling"}, {"n": [21]})
    assert table["double"].tolist() == [42]


def test_a_module_is_taken_from_the_folder_of_its_own_sweep(folder):
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "same.py").write_text(f"def f(n):\n    return {{'name': '{name}'}}\n")
        (folder / name / "sweep.toml").write_text(
            "meters = []\n[workload]\nuse = 'python'\ncall = 'same:f'\n[parameters]\nn = 1\n"
        )
        measure_sweep(folder / name / "sweep.toml", folder / f"{name}.csv")
        assert pd.read_csv(folder / f"{name}.csv")["name"].tolist() == [name]


# Warm-ups, retries, several at once


def calls(folder):
    return (folder / "calls.txt").read_text().split()


def test_warm_up_runs_are_made_and_not_recorded(measured, folder):
    table = measured(python("quick"), {"n": [1, 2]}, warm_up=2)
    assert len(table) == 2
    assert sorted(calls(folder)) == ["1"] * 3 + ["2"] * 3


def test_a_failed_run_is_tried_again_as_often_as_asked_for(measured, folder):
    table = measured(python("flaky"), {"n": [1]}, retries=5)
    assert table["status"].tolist() == ["ok"]
    assert table["n_attempts"].tolist() == [3]


def test_a_run_that_shared_the_machine_is_tried_again_and_the_last_attempt_counts(measured):
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        table = measured(
            command("sleep", "0.3"), {"n": [1]}, meters=["load"], retries=2, most_other_load=0.1
        )
    finally:
        busy.kill()
        busy.wait()
    assert table["status"].tolist() == ["ok"]
    assert table["n_attempts"].tolist() == [3]


def test_runs_at_once_overlap(measured):
    meeting = script(
        """
        import pathlib, sys, time
        pathlib.Path(sys.argv[1]).touch()
        limit = time.monotonic() + 30
        while not pathlib.Path(sys.argv[2]).exists():
            if time.monotonic() > limit:
                sys.exit("nobody came")
            time.sleep(0.01)
        """
    )
    table = measured(
        command(*meeting, "{own}", "{other}"),
        {},
        configurations=[{"own": "a", "other": "b"}, {"own": "b", "other": "a"}],
        at_once=2,
    )
    assert table["status"].tolist() == ["ok", "ok"]


# The table and what is beside it


def test_the_description_says_what_each_column_is_and_where_it_was_measured(measured, folder):
    measured(python("quick"), {"n": [1]}, derive={"m": "n + 1"}, meters=["cpu_time"])
    found = json.loads((folder / "runs.json").read_text())
    assert found["columns"]["n"] == found["columns"]["m"] == "parameter"
    assert found["columns"]["cpu_time_s"] == "measured"
    assert found["columns"]["status"] == "remark"
    assert found["machine"]["memory_bytes"] == psutil.virtual_memory().total
    assert found["machine"]["kernel"] == os.uname().release
    assert found["versions"]["python"] == sys.version.split()[0]
    assert found["sweep"]["workload"]["call"] == "jobs:quick"
    assert found["started_at"] < found["ended_at"]


def test_fit_knows_a_measured_table_without_its_description(measured, folder):
    table = measured(python("picky"), {"n": [1, 2, 5, 6, 7, 8, 9]}, derive={"m": "n * n"})
    assert "failed" in set(table["status"])
    (folder / "runs.json").unlink()
    for source in (folder / "runs.csv", pd.read_csv(folder / "runs.csv")):
        best = fit_model(source, target="wall_time_s").best
        assert sorted(best.columns) == ["m", "n"]
        assert best.n_rows == 6
    moved = pd.read_csv(folder / "runs.csv").drop(columns="reason")
    assert read_dataset(moved).roles == {"status": "measured"}  # whoever changed it knows better


def test_fit_tells_of_runs_that_shared_the_machine(folder):
    rows = [{"n": n, "time_s": 2.0 * n, "is_shared": "yes" if n > 6 else "no"} for n in range(1, 9)]
    pd.DataFrame(rows).to_csv(folder / "runs.csv", index=False)
    roles = {"n": "parameter", "time_s": "measured", "is_shared": "remark"}
    about = {"kind": "foretell runs", "format": 1, "table": "runs.csv", "columns": roles}
    (folder / "runs.json").write_text(json.dumps(about))
    notes = fit_model(folder / "runs.csv", target="time_s").results["notes"]
    assert any("2 of 8 runs shared the machine with other load" in note for note in notes)


def test_fit_takes_the_table_as_it_is(measured, folder):
    table = measured(python("picky"), {"n": [1, 2, 5, 6, 7, 8, 9]}, derive={"m": "n * n"})
    assert "failed" in set(table["status"])
    fit = fit_model(folder / "runs.csv", target="wall_time_s")
    assert sorted(fit.best.columns) == ["m", "n"]
    assert fit.best.n_rows == 6
    assert any("1 of 7 runs were left out: 1 failed" in n for n in fit.results["notes"])
    campaign = {"data": {"target": "wall_time_s"}, "techniques": {"LRRidge": {"alpha": 1.0}},
                "search": {"splits": {"method": "KFold", "folds": 2}}}  # fmt: skip
    again = fit_model(campaign, folder / "runs.csv")
    assert sorted(again.best.columns) == ["m", "n"]
    campaign["data"]["use_columns"] = ["n", "result"]
    assert fit_model(campaign, folder / "runs.csv").best.columns == ["n", "result"]


@pytest.mark.parametrize("campaign", [None, {"data": {"target": "time_s"}}])
def test_complaints_name_rows_as_they_stand_in_the_table_with_its_failed_runs(folder, campaign):
    columns = {"n": "parameter", "status": "remark", "time_s": "measured"}
    description = {"kind": "foretell runs", "table": "t.csv", "columns": columns}
    (folder / "t.json").write_text(json.dumps(description))
    rows = ["1,failed,", "2,ok,3", ",ok,4", "4,failed,", "5,ok,7", ",ok,6"]
    (folder / "t.csv").write_text("n,status,time_s\n" + "\n".join(rows) + "\n")
    with pytest.raises(DatasetError, match=r"has 2 missing values \(rows 3, 6\)"):
        if campaign is None:
            fit_model(folder / "t.csv", target="time_s")
        else:
            fit_model({**campaign, "techniques": {"LRRidge": {}}}, folder / "t.csv")


def test_runs_too_short_to_measure_the_target_are_left_out_with_a_note(folder):
    roles = {"n": "parameter", "status": "remark", "cpu_time_s": "measured",
             "peak_memory_bytes": "measured", "written_bytes": "measured"}  # fmt: skip
    about = {"kind": "foretell runs", "table": "t.csv", "columns": roles}
    (folder / "t.json").write_text(json.dumps(about))
    rows = [f"{n},ok,{0.01 * n},{2**20 * n},{n}" for n in range(2, 10)]
    rows = ["1,ok,0.0,,0", *rows, "10,failed,,,"]
    names = ",".join(roles)
    (folder / "t.csv").write_text(f"{names}\n" + "\n".join(rows) + "\n")
    for target in ("cpu_time_s", "peak_memory_bytes"):
        fitted = fit_model(folder / "t.csv", target=target)
        assert fitted.best.n_rows == 8
        notes = " ".join(fitted.results["notes"])
        assert "1 of 9 runs" in notes
        assert target in notes
    # A run may well write nothing; whoever models that is told.
    with pytest.raises(DatasetError, match="written_bytes"):
        fit_model(folder / "t.csv", target="written_bytes")


def test_a_table_of_failed_runs_alone_is_told(folder):
    (folder / "t.csv").write_text("n,status,wall_time_s\n1,failed,2\n")
    description = {"kind": "foretell runs", "table": "t.csv", "columns": {"n": "parameter"}}
    (folder / "t.json").write_text(json.dumps(description))
    with pytest.raises(Exception, match="no run that went well"):
        fit_model(folder / "t.csv", target="wall_time_s")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '"x"', '{"kind": "foretell runs", "table": "t.csv", "columns": 3}',
             '{"kind": "other"}', '{"kind": "foretell runs", "table": "u.csv", "columns": {}}',
             "[" * 100_000],
)  # fmt: skip
def test_any_other_json_beside_a_table_changes_nothing(folder, text):
    (folder / "t.csv").write_text("n,time_s\n1,2\n")
    (folder / "t.json").write_text(text)
    assert read_dataset(folder / "t.csv").roles == {}


# Traces


def test_a_trace_of_each_run_shows_what_the_job_did_over_time(folder):
    words = script(
        """
        import time
        block = bytearray(60 * 2**20)
        end = time.process_time() + 0.4
        while time.process_time() < end: pass
        """
    )
    meters = ["cpu_time", "memory"]
    sweep = {"workload": command(*words, "{n}"), "parameters": {"n": [1, 2]}, "meters": meters}
    measure_sweep({**sweep, "traces": True, "order": "written"}, folder / "runs.csv")
    table = pd.read_csv(folder / "runs.csv")
    paths = sorted((folder / "runs.traces").iterdir())
    assert [path.name for path in paths] == ["1.trace", "2.trace"]
    for path, row in zip(paths, table.to_dict("records"), strict=True):
        trace = read_trace(path)
        assert trace.about["configuration"] == {"n": row["n"]}
        assert trace.about["started_at"] == row["started_at"]
        assert set(trace.columns) == {"cpu_time_s", "memory_bytes"}
        assert 0 <= trace.times_s[0] < trace.times_s[-1]
        # Samples are counted in ticks of 10 ms, and the end is not.
        assert (np.diff(trace.columns["cpu_time_s"]) > -0.011).all()
        assert trace.columns["cpu_time_s"][-1] == pytest.approx(row["cpu_time_s"], abs=0.05)
        assert 60 * 2**20 < trace.columns["memory_bytes"].max() <= row["peak_memory_bytes"]
    without = {**sweep, "order": "written"}
    measure_sweep(without, folder / "runs.csv")  # the same runs, which are there already
    assert pd.read_csv(folder / "runs.csv").equals(table)


def test_without_traces_the_table_is_the_same_and_no_folder_is_made(measured, folder):
    without = list(measured(python("quick"), {"n": [1]}, meters=["cpu_time", "disk", "load"]))
    assert not (folder / "runs.traces").exists()
    for path in folder.glob("runs.*"):
        path.unlink()
    rest = {"meters": ["cpu_time", "disk", "load"], "traces": True}
    assert list(measured(python("quick"), {"n": [1]}, **rest)) == without


# Resuming

SWEEP = {
    "workload": {"use": "python", "call": "jobs:quick"},
    "parameters": {"n": list(range(1, 13))},
    "meters": [],
}


def test_the_same_command_repeats_no_finished_run(folder):
    measure_sweep(SWEEP, folder / "runs.csv")
    before = (folder / "runs.csv").read_bytes()
    measure_sweep(SWEEP, folder / "runs.csv")
    assert (folder / "runs.csv").read_bytes() == before
    assert len(calls(folder)) == 12


def test_after_kill_9_the_same_command_completes_what_is_missing(folder):
    (folder / "sweep.toml").write_text(
        "[workload]\nuse = 'python'\ncall = 'jobs:quick'\n"
        "[parameters]\nn = {from = 1, to = 12, step = 1}\n"
    )
    words = [sys.executable, "-m", "foretell", "measure", "sweep.toml", "-o", "runs.csv", "-q"]
    for n_finished in (2, 5):
        process = subprocess.Popen(words)
        _until(lambda n=n_finished: len(_journaled(folder)) >= n, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
    finished = [record["run"] for record in _journaled(folder)]
    assert subprocess.run(words, check=False).returncode == 0
    table = pd.read_csv(folder / "runs.csv")
    assert sorted(table["n"]) == list(range(1, 13))
    assert (table["status"] == "ok").all()
    assert [r["run"] for r in _journaled(folder)][: len(finished)] == finished
    # Two runs may have been cut off in their midst, and are made again.
    assert len(calls(folder)) <= 14


@pytest.mark.parametrize(
    ("job", "seconds"),
    [
        ("use = 'command'\nrun = 'sleep 345.1'", "345.1"),
        ("use = 'command'\nrun = 'setsid --wait sleep 345.2'", "345.2"),
        ("use = 'python'\ncall = 'jobs:stubborn'", "345.3"),
    ],
)
def test_no_job_outlives_its_supervisor(folder, job, seconds):
    (folder / "sweep.toml").write_text(f"[workload]\n{job}\n[parameters]\nn = 1\n")
    words = [sys.executable, "-m", "foretell", "measure", "sweep.toml", "-o", "runs.csv", "-q"]
    process = subprocess.Popen(words)
    _until(lambda: _sleepers(seconds), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _until(lambda: not _sleepers(seconds))


@pytest.mark.parametrize("moment", ["while its process starts", "while it runs"])
def test_after_kill_9_no_file_of_a_run_is_left(folder, monkeypatch, moment):
    temporary = folder / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    (folder / "sweep.toml").write_text(
        "[workload]\nuse = 'command'\nprepare = 'touch {scratch}/made'\nrun = 'sleep 345.4'\n"
        "[parameters]\nn = 1\n"
    )
    words = [sys.executable, "-m", "foretell", "measure", "sweep.toml", "-o", "runs.csv", "-q"]
    process = subprocess.Popen(words)
    reached = {
        "while its process starts": lambda: list(temporary.glob("foretell-*")),
        "while it runs": lambda: _sleepers("345.4") and list(temporary.rglob("made")),
    }
    _until(reached[moment], process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _until(lambda: not list(temporary.glob("foretell-*")))


@pytest.mark.parametrize("at_once", [1, 2])
def test_ctrl_c_ends_at_once_and_leaves_nothing_running(folder, at_once):
    word = f"456.{os.getpid()}{at_once}"  # that no other process has, such as one left by a failure
    (folder / "sweep.toml").write_text(
        f"at_once = {at_once}\nretries = 3\n[parameters]\nn = [1, 2, 3]\n"
        f"[workload]\nuse = 'command'\nrun = 'sleep {word} {{n}}'\n"
    )
    words = [sys.executable, "-m", "foretell", "measure", "sweep.toml", "-o", "runs.csv", "-q"]
    process = subprocess.Popen(words)
    _until(lambda: len(_sleepers(word)) == at_once, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    _until(lambda: not _sleepers(word))
    assert _journaled(folder) == []


def _sleepers(word):
    return [p for p in psutil.process_iter(["cmdline"]) if word in (p.info["cmdline"] or [])]


def _journaled(folder: Path):
    path = folder / "runs.journal"
    records = decode(path.read_bytes())[0] if path.exists() else []
    return [r for r in records if r["kind"] == "run"]


def _until(condition, process=None, limit_s=60):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        assert process is None or process.poll() is None, "it ended too early"
        time.sleep(0.01)


def test_another_sweep_does_not_mix_with_what_the_journal_holds(folder):
    measure_sweep(SWEEP, folder / "runs.csv")
    other = {**SWEEP, "parameters": {"n": [99]}}
    with pytest.raises(StorageError, match="holds results from another sweep"):
        measure_sweep(other, folder / "runs.csv")


def test_a_table_edited_by_hand_is_not_written_over(folder):
    measure_sweep(SWEEP, folder / "runs.csv")
    edited = (folder / "runs.csv").read_text().replace("ok", "fine", 1)
    (folder / "runs.csv").write_text(edited)
    with pytest.raises(StorageError, match="was changed since foretell wrote it"):
        measure_sweep(SWEEP, folder / "runs.csv")
    assert (folder / "runs.csv").read_text() == edited
    (folder / "runs.csv").rename(folder / "mine.csv")
    measure_sweep(SWEEP, folder / "runs.csv")
    assert len(pd.read_csv(folder / "runs.csv")) == 12
    assert len(calls(folder)) == 12


def test_a_table_of_someone_else_is_not_written_over(folder):
    (folder / "runs.csv").write_text("n,time_s\n1,2\n")
    with pytest.raises(StorageError, match="exists already, and foretell did not write it"):
        measure_sweep(SWEEP, folder / "runs.csv")
    assert (folder / "runs.csv").read_text() == "n,time_s\n1,2\n"


@pytest.mark.parametrize("name", ["runs.journal", "runs.json", "runs.log"])
def test_files_of_someone_else_beside_the_table_are_not_touched(folder, name):
    (folder / name).write_text("mine")
    with pytest.raises(StorageError, match="exists already, and foretell did not write it"):
        measure_sweep(SWEEP, folder / "runs.csv")
    assert (folder / name).read_text() == "mine"
    assert {p.name for p in folder.iterdir()} <= {name, "jobs.py", "__pycache__"}


def test_a_sweep_continued_with_other_meters_says_which_runs_were_measured_how(folder):
    first = {**SWEEP, "power": {"idle_w": 1, "busy_w": 2}, "meters": ["energy"]}
    measure_sweep(first, folder / "runs.csv")
    journal = folder / "runs.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    (folder / "runs.csv").unlink()
    record = decode(lines[1])[0][0]
    record["sources"]["energy_estimated_j"] = "estimated: by a friend"
    journal.write_bytes(b"".join([lines[0], encode(record), *lines[2:5]]))
    measure_sweep(first, folder / "runs.csv")
    found = json.loads((folder / "runs.json").read_text())
    if "energy_estimated_j" in found["columns"]:
        own = found["columns"]["energy_estimated_j"]
        assert own.startswith("estimated: by a friend; estimated: 1 W idle to 2 W")
    assert len(found["sessions"]) == 2
    before = (folder / "runs.json").read_bytes()
    measure_sweep(first, folder / "runs.csv")  # nothing is left to do, and nothing changes
    assert (folder / "runs.json").read_bytes() == before


def test_a_lost_table_is_written_again_from_the_journal(folder):
    measure_sweep(SWEEP, folder / "runs.csv")
    before = (folder / "runs.csv").read_bytes()
    (folder / "runs.csv").unlink()
    measure_sweep(SWEEP, folder / "runs.csv")
    assert (folder / "runs.csv").read_bytes() == before


# What is wrong before anything runs

HOSTILE = [
    ("{'n': 999}", "it reports 'n', the name of another column"),
    ("{'status': 'done'}", "it reports 'status', the name of another column"),
    ("{'wall_time_s': 1.0}", "it reports 'wall_time_s'"),
    ("{'n_page_faults': 1.0}", "it reports 'n_page_faults'"),
]


@pytest.mark.parametrize(("returned", "words"), HOSTILE, ids=[w for _, w in HOSTILE])
def test_a_job_cannot_write_over_other_columns(folder, returned, words):
    (folder / "own.py").write_text(f"def f(n):\n    return {returned}\n")
    sweep = {"workload": {"use": "python", "call": "own:f"}, "parameters": {"n": [1]}}
    with pytest.raises(NothingUsableError, match=words):
        measure_sweep({**sweep, "meters": []}, folder / "runs.csv")
    assert pd.read_csv(folder / "runs.csv")["n"].tolist() == [1]


def test_odd_texts_of_jobs_leave_a_table_that_can_be_read_and_continued(folder):
    (folder / "own.py").write_text(
        "def f(n):\n"
        "    if n == 1:\n        raise ValueError('\\udcff\\x00 \\r ' + 'x' * 200_000)\n"
        "    return {'word': 'a\\rb\\x00\\nc, \"d\"'}\n"
    )
    sweep = {
        "workload": {"use": "python", "call": "own:f"},
        "parameters": {"n": [1, 2, 3]},
        "meters": [],
        "order": "written",
    }
    for _ in range(2):
        measure_sweep(sweep, folder / "runs.csv")
        table = read_dataset(folder / "runs.csv").frame
        assert table["word"].tolist()[1:] == ['a b c, "d"'] * 2
        assert len(table["reason"][0]) <= 300


def test_a_job_timed_twice_fails_and_stops_nothing(folder):
    (folder / "own.py").write_text(
        "def f(n, watch):\n    if n == 1:\n        with watch.job():\n            pass\n"
    )
    sweep = {"workload": {"use": "python", "call": "own:f"}, "parameters": {"n": [1, 2]}}
    measure_sweep({**sweep, "meters": [], "order": "written"}, folder / "runs.csv")
    assert pd.read_csv(folder / "runs.csv")["status"].tolist() == ["failed", "ok"]


def test_a_crash_whose_child_holds_the_pipe_is_seen(measured, folder):
    (folder / "own.py").write_text(
        "import os, time\n"
        "def f(n):\n"
        "    if n == 1:\n"
        "        if os.fork() == 0:\n            time.sleep(100)\n"
        "        os._exit(7)\n"
    )
    table = measured({"use": "python", "call": "own:f"}, {"n": [1, 2]}, order="written")
    assert table["status"].tolist() == ["failed", "ok"]


def test_what_one_run_leaves_running_does_not_disturb_the_next(measured):
    table = measured(
        command("sh", "-c", "pgrep -f '^sleep 777' && exit 3; (setsid sleep 777 &); exit 0", "{n}"),
        {"n": [1, 2]},
    )
    assert table["status"].tolist() == ["ok", "ok"]
    _until(lambda: not _sleepers("777"))


def test_modules_in_the_directory_are_not_taken_for_ours(measured, folder):
    (folder / "json.py").write_text("raise RuntimeError('not me')")
    assert measured(command("true"), {"n": [1]})["status"].tolist() == ["ok"]


def test_the_log_has_what_a_failed_command_printed(measured, folder):
    measured(command("sh", "-c", "echo first line; exit {n}"), {"n": [0, 1]})
    assert "first line" in (folder / "runs.log").read_text()


def test_a_meter_that_fails_costs_its_columns_and_no_run(measured, folder, monkeypatch):
    from foretell.measure.meters.disk import DiskMeter

    monkeypatch.setattr(DiskMeter, "stop", lambda self, tree: 1 / 0)
    table = measured(command("true"), {"n": [1]}, meters=["disk", "cpu_time"])
    assert "cpu_time_s" in table
    assert "read_bytes" not in table
    assert "DiskMeter failed: ZeroDivisionError" in (folder / "runs.log").read_text()


def test_a_regular_expression_that_never_ends_fails_its_run_and_names_its_column(folder):
    workload = command("echo", "a" * 60, extract={"speed": "((?:a+)+)b"})
    sweep = {"workload": workload, "parameters": {"n": [1]}, "meters": []}
    with pytest.raises(NothingUsableError, match=r"looking for speed .* too many ways to match"):
        measure_sweep(sweep, folder / "runs.csv")
    assert pd.read_csv(folder / "runs.csv")["status"].tolist() == ["failed"]


NUMBERS = [("1,234,567.5", 1234567.5), ("-3e-2", -0.03), ("1,5", None), ("nan", None)]


@pytest.mark.parametrize(("text", "number"), NUMBERS)
def test_numbers_are_read_as_they_are_meant_or_not_at_all(measured, text, number):
    workload = command("echo", "{text}", extract={"found": "(.*)"})
    if number is None:
        with pytest.raises(NothingUsableError, match="has no number for found"):
            measured(workload, {"text": text})
    else:
        assert measured(workload, {"text": text})["found"].tolist() == [number]


def test_numbers_are_formatted_as_the_template_says(measured):
    workload = command("echo", "x{n:05d}", extract={"found": "x0*([1-9].*)"})
    assert measured(workload, {"n": [42]})["found"].tolist() == [42]


BAD_WORKLOADS = [
    ({}, "workload: must say use = one of command, python"),
    ({"use": "comand"}, "workload.use: unknown workload 'comand'. Did you mean 'command'"),
    ({"use": "command"}, "workload.run: is required and missing"),
    ({"use": "command", "run": "true", "rn": 1}, "workload.rn: unknown option 'rn'"),
    ({"use": "command", "run": "echo {m}"}, "{m} is not a parameter of this sweep"),
    ({"use": "command", "run": "echo {n"}, "workload: .* in "),
    ({"use": "command", "run": "no-such-program {n}"}, "there is no program 'no-such-program'"),
    ({"use": "command", "run": "echo 'x"}, "No closing quotation"),
    ({"use": "command", "run": "echo {n} | wc"}, r"no shell runs .* would get \| as an argument"),
    ({"use": "command", "run": "echo {n}; ls"}, "would get ; as an argument"),
    ({"use": "command", "run": "echo {n} 2>/dev/null"}, "would get > as an argument"),
    ({"use": "command", "run": "true", "folder": "nowhere"}, "there is no directory .*nowhere"),
    ({"use": "command", "run": "echo {n:{m}}"}, "{m} is not a parameter"),
    ({"use": "command", "run": "true", "extract": {"n": "(.)"}}, "'n' is the name of another"),
    ({"use": "command", "run": "true", "extract": {"a": "("}}, "a is not a regular expression"),
    ({"use": "command", "run": "true", "extract": {"a": "(" * 9999}}, "a is not a regular expr"),
    ({"use": "command", "run": "true", "extract": {"a": "b"}}, "a needs a group in parentheses"),
    ({"use": "python", "call": "nowhere:f"}, "nowhere cannot be imported"),
    ({"use": "python", "call": "jobs"}, "workload.call: must be module:function"),
    ({"use": "jobs:quick"}, "jobs:quick is not a class derived from"),
]


@pytest.mark.parametrize(("workload", "words"), BAD_WORKLOADS, ids=[w for _, w in BAD_WORKLOADS])
def test_a_faulty_workload_is_refused_before_anything_runs(folder, workload, words):
    with pytest.raises(UsageError, match=words):
        measure_sweep({"workload": workload, "parameters": {"n": [1]}}, folder / "runs.csv")
    assert not (folder / "runs.csv").exists()
    assert not (folder / "runs.journal").exists()


def test_a_parameter_that_changes_no_run_is_refused(folder):
    sweep = {"workload": command("true"), "parameters": {"n": [1, 2]}}
    with pytest.raises(UsageError, match=r"parameters.n: varies, and no part of the workload"):
        measure_sweep(sweep, folder / "runs.csv")
    listed = {"workload": command("true"), "configurations": [{"n": 1}, {"n": 2}]}
    with pytest.raises(UsageError, match=r"parameters.n: varies"):
        measure_sweep(listed, folder / "runs.csv")


def test_a_parameter_may_be_a_label_or_what_a_run_asks_of_the_cluster(measured):
    asked = {"derive": {"m": "n * 2"}, "needs": {"cpus": "m"}}
    found = measured(command("true"), {"machine": "m4", "n": [1, 2]}, **asked)
    assert sorted(found["n"]) == [1, 2]
    assert set(found["machine"]) == {"m4"}


@pytest.mark.parametrize(
    "words", [["echo", "a", "|", "{n}"], "echo a '|' {n}", 'echo "a" "|" {n}', r"echo a \| {n}"]
)
def test_what_a_shell_would_understand_is_taken_as_it_stands_in_quotes(measured, words):
    workload = {"use": "command", "run": words, "extract": {"found": r"\| (.*)"}}
    assert measured(workload, {"n": [7]})["found"].tolist() == [7]


def test_very_many_runs_need_a_yes(folder):
    many = {**SWEEP, "parameters": {"n": {"from": 1, "to": 1000, "step": 1}}, "repeats": 1000}
    with pytest.raises(UsageError, match=r"1,000,000 runs .* with is_sure"):
        measure_sweep(many, folder / "runs.csv")


def test_progress_tells_done_failed_and_all(folder):
    seen = []
    sweep = {**SWEEP, "workload": python("picky"), "parameters": {"n": [1, 2, 5]}}
    measure_sweep(sweep, folder / "runs.csv", MeasureOptions(progress=seen.append))
    assert [p.n_done for p in seen] == [0, 1, 2, 3]
    assert seen[0].left_s is None
    assert seen[-1].n_failed == 1
    assert {p.n_total for p in seen} == {3}
