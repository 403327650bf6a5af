"""`foretell measure` as users see it: dry runs, summaries, and words for every mistake."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest
from click.testing import CliRunner

from foretell.cli._main import cli
from foretell.cli.measure import _mean_power

SWEEP = """
repeats = 2
[workload]
use = "command"
run = "sh -c 'exit {code}'"
[parameters]
code = [0, 1]
"""


def run(*words):
    return CliRunner().invoke(cli, ["measure", *words])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def test_a_dry_run_lists_the_runs_and_runs_nothing(folder):
    result = run("sweep.toml", "--dry-run")
    assert result.exit_code == 0
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["run", "code", "repeat"]
    assert sorted(tuple(r.split()[1:]) for r in rows[:4]) == [
        ("0", "1"), ("0", "2"), ("1", "1"), ("1", "2"),
    ]  # fmt: skip
    assert "4 runs; write expected_s or time_limit_s" in result.stdout
    assert [p.name for p in folder.iterdir()] == ["sweep.toml"]


def test_a_dry_run_for_programs_is_json(folder):
    (folder / "sweep.toml").write_text(f"expected_s = 90\n{SWEEP}")
    told = json.loads(run("sweep.toml", "--dry-run", "--json").stdout)
    found = sorted((r["configuration"]["code"], r["repeat"]) for r in told["runs"])
    assert found == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert (told["n_left"], told["total_s"]) == (4, 360)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("expected_s = 90", "4 runs; they take about 6 min: 1 min 30 s each"),
        ("time_limit_s = 20", "4 runs; they take 1 min 20 s at most: 20 s each"),
        ("expected_s = 90\nat_once = 2", "about 3 min"),
        ("expected_s = 90\nwarm_up = 1", "4 runs, each after 1 to warm up; they take about 12 min"),
    ],
)
def test_a_dry_run_says_how_long_it_will_take(folder, line, words):
    (folder / "sweep.toml").write_text(f"{line}\n{SWEEP}")
    assert words in run("sweep.toml", "--dry-run").stdout


def test_a_dry_run_of_an_unfinished_sweep_knows_from_its_journal_how_long_the_rest_takes(folder):
    run("sweep.toml", "-o", "runs.csv")
    journal = folder / "runs.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))  # as if it had been cut off
    text = run("sweep.toml", "-o", "runs.csv", "--dry-run").stdout
    assert "4 runs, 3 of them finished; the others take about" in text
    assert journal.read_bytes() == b"".join(lines[:-1])


def test_a_summary_counts_and_names_what_failed_and_says_what_to_do_next(folder):
    result = run("sweep.toml", "-o", "runs.csv")
    assert result.exit_code == 0
    assert "runs.csv   4 runs, 2 of them went well" in result.stdout
    assert "failed: code = 1: it exited with status 1" in result.stdout
    assert "foretell fit runs.csv --target wall_time_s" in result.stdout


def test_a_sweep_of_one_configuration_suggests_no_fit(folder):
    (folder / "one.toml").write_text(
        '[workload]\nuse = "python"\ncall = "foretell.measure.probes:idle"\n'
        "[parameters]\nseconds = 0.1\n"
    )
    shown = CliRunner().invoke(cli, ["measure", "one.toml", "-o", "one.csv", "-q"])
    assert shown.exit_code == 0, shown.output
    assert "One configuration, so there is nothing to fit." in shown.output
    assert "foretell fit" not in shown.output


@pytest.mark.parametrize(("joules", "said"), [([60.0, 90.0], "Mean power: 25 W"), ([], "")])
def test_the_mean_power_is_that_of_runs_whose_energy_was_measured(joules, said):
    other = {"repeat": 1, "status": "ok", "n_attempts": 1, "started_at": "", "reason": "",
             "configuration": {}}  # fmt: skip
    records = [{**other, "values": {"wall_time_s": 3.0, "energy_j": j}} for j in joules]
    assert said in _mean_power([*records, {**other, "values": {"wall_time_s": 9.0}}])


def test_json_is_the_description_of_the_table(folder):
    result = run("sweep.toml", "-o", "runs.csv", "--quiet", "--json")
    assert json.loads(result.stdout) == json.loads((folder / "runs.json").read_text())
    assert json.loads(result.stdout)["runs"] == {"ok": 2, "failed": 2}


BAD = [
    (["nowhere.toml", "-o", "r.csv"], "there is no sweep file 'nowhere.toml'"),
    (["swep.toml", "-o", "r.csv"], "Did you mean 'sweep.toml'"),
    (["sweep.toml"], "Missing option '-o'"),
    (["sweep.toml", "-o", "runs.xlsx"], "the table must be a .csv file"),
    (["sweep.toml", "-o", "no/such/runs.csv"], "no/such/runs.csv cannot be written"),
    (["bad.toml", "-o", "r.csv"], "bad.toml is not valid TOML"),
    (["empty.toml", "-o", "r.csv"], "empty.toml is empty"),
    (["typo.toml", "-o", "r.csv"], "typo.toml, workloads: unknown option 'workloads'. Did you"),
    ([".", "-o", "r.csv"], "is a directory, and a sweep is a file"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[m for _, m in BAD])
def test_a_mistake_is_told_in_a_line(folder, words, message):
    (folder / "bad.toml").write_text("x = [")
    (folder / "empty.toml").write_text("\n")
    (folder / "typo.toml").write_text(SWEEP.replace("[workload]", "[workloads]"))
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_full_disk_stops_cleanly_and_room_lets_it_go_on(folder):
    if sys.platform != "linux":
        pytest.skip("file-size limits are set as on Linux")
    limited = (
        "import resource, runpy, sys, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (700, resource.RLIM_INFINITY))\n"
        "sys.argv = ['foretell', 'measure', 'sweep.toml', '-o', 'runs.csv']\n"
        "runpy.run_module('foretell', run_name='__main__')\n"
    )
    (folder / "sweep.toml").write_text(SWEEP.replace("repeats = 2", "repeats = 2\nmeters = []"))
    done = subprocess.run(
        [sys.executable, "-c", limited], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "cannot be written: File too large" in done.stderr
    result = run("sweep.toml", "-o", "runs.csv")
    assert result.exit_code == 0, result.output
    assert "4 runs, 2 of them went well" in result.stdout


def test_ctrl_c_says_what_is_finished_and_the_command_it_prints_continues(folder, foretell):
    sweep = """
        order = "written"
        meters = []
        workload = { use = "command", run = "sh job {n}" }
        parameters = { n = [1, 2, 3, 4] }
    """
    (folder / "sweep.toml").write_text(sweep)
    (folder / "job").write_text("touch began-$1; test $1 != 3 -o -e go || sleep 99")
    journal = folder / "runs.journal"
    first = foretell("measure", "sweep.toml", "-o", "runs.csv")
    assert first.reaches((folder / "began-3").exists), first.text
    first.interrupt()
    assert first.wait() == 130
    assert first.leaves_nobody_behind()
    told = re.fullmatch(
        r"\ninterrupted\. 2/4 runs(, about .+ left)?\. What is finished is kept; continue with\n"
        r"  foretell (.+)\n",
        first.text,
    )
    assert told is not None, first.text
    finished = journal.read_bytes()
    assert len((folder / "runs.csv").read_text().splitlines()) == 1 + 2, "the table has both"
    (folder / "go").touch()
    second = foretell(*shlex.split(told[2]))
    assert second.wait() == 0, second.text
    assert journal.read_bytes().startswith(finished)
    assert "runs.csv   4 runs, 4 of them went well; 2 are new" in second.text
