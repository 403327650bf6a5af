"""`foretell tasks`: foresee and run from the command line."""

import json
import threading
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from foretell.cli._main import cli
from foretell.cli._progress import Display
from foretell.cli.tasks.run import _Progress, _watched
from foretell.tasks import Graph, task
from foretell.tasks.declare import PROTECTION
from foretell.tasks.forecast.program import read_program
from foretell.tasks.isolation.confine import missing_restrictions

PROGRAM = """
from foretell.errors import UsageError
from foretell.tasks import Graph, task

@task(reads="a", writes="b", size="n", label="step")
def step(a, b, n):
    total = 0
    for k in range(int(n)):
        total += k

@task(writes="x")
def fails(x):
    raise ValueError("no luck")

def main(n: int = 3, size: int = 100):
    print("this is the program's own output")
    with Graph(workers=1) as g:
        for k in range(n):
            step("in", f"out {k}", size)

def broken():
    with Graph(workers=1):
        fails("x")

def fails_at(k: int):
    with Graph(workers=1):
        step("in", "out", 1)
        if k == 2:
            fails("x")

def interrupted(k: int):
    main()
    if k == 2:
        raise KeyboardInterrupt

@task(writes="x")
def raises(x, error):
    raise error

def ends(k: int, kind: str):
    main()
    if k == 2:
        with Graph(workers=1) as g:
            raises("x", {"ctrl-c": KeyboardInterrupt(), "exit": SystemExit(7)}[kind])

def exits(k: int):
    main()
    if k == 2:
        raise SystemExit(7)

@task(isolation="sandbox")
def apart(): ...

def kept_apart():
    with Graph(workers=1):
        apart()

def refused(k: int):
    main()
    if k == 2:
        raise UsageError("k must not be 2")

@task(writes="b", label="new")
def new(b): ...

def renamed(k: int):
    with Graph(workers=1):
        new("b")
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "an_app.py").write_text(PROGRAM)
    return "an_app.py:main"


def invoke(*arguments):
    return CliRunner().invoke(cli, ["tasks", *map(str, arguments)])


def test_run_writes_a_trace_that_foresee_reads(program, tmp_path):
    done = invoke("run", program, "--vary", "n=2,4", "--repeats", 2, "-o", "runs.csv", "-q")
    assert done.exit_code == 0, done.output
    assert len(pd.read_csv("runs.csv")) == 12
    assert "n=2" in done.stdout
    assert "own output" not in done.stdout
    done = invoke("foresee", "runs.csv", "--workers", "1..4", "--overhead", "1us", "--json")
    found = json.loads(done.stdout)
    assert [cell["workers"] for cell in found["cells"]] == [1, 2, 3, 4]
    assert found["best"]["n_tasks"] == 4
    assert found["label"] == "simulated, from recorded task times"


def test_forecast_stands_beside_the_outcome(program):
    assert invoke("run", program, "--vary", "size=100,200,400", "--set", "n=20",
                  "-o", "runs.csv", "-q").exit_code == 0  # fmt: skip
    fitted = CliRunner().invoke(
        cli, ["fit", "runs.csv", "--target", "time_s", "-o", "models", "-q", "-j", "1"]
    )
    assert fitted.exit_code == 0, fitted.output
    done = invoke("run", program, "--model", "models", "--runs", "runs.csv", "--set", "size=300",
                  "--json", "-q")  # fmt: skip
    assert done.exit_code == 0, done.output
    (run,) = json.loads(done.stdout)["runs"]
    assert run["time_s"] > 0
    assert run["foreseen_s"] > 0
    # A wrong trace is refused before the first run, and a run is kept whose forecast fails.
    done = invoke("run", program, "--model", "models", "--runs", "gone.csv", "-o", "new.csv")
    assert done.exit_code == 2
    assert "gone.csv" in done.stderr
    assert "own output" not in done.stderr
    done = invoke("run", program, "--model", "models", "--seed", "-1")
    assert done.exit_code == 2
    assert "--seed" in done.stderr
    assert "own output" not in done.stderr
    # Three runs, and one call to foresee them all.
    done = invoke("run", program, "--model", "models", "--repeats", "3", "--overhead", "1us", "-q")
    assert done.stderr.count("own output") == 4
    done = invoke("run", program, "--model", "models", "--on", "processes", "-q")
    assert "runs on processes" in done.stdout
    done = invoke("run", "an_app.py:renamed", "--model", "models", "--vary", "k=1,2",
                  "-o", "new.csv", "-q")  # fmt: skip
    assert done.exit_code == 2
    assert "no runs of 'new'" in done.stderr
    assert "k=1" in done.stdout
    assert len(pd.read_csv("new.csv")) == 1
    done = invoke("foresee", program, "--model", "models", "--vary", "n=2..8*2", "-o", "f.html")
    assert done.exit_code == 0, done.output
    assert "<svg" in Path("f.html").read_text()
    done = invoke("foresee", program, "--model", "models", "-o", "f.json")
    assert done.exit_code == 0, done.output
    assert json.loads(Path("f.json").read_text())["traceEvents"]


def test_what_a_sandbox_protects_from_is_told_in_every_form(program):
    pytest.importorskip("cryptography")
    if missing_restrictions():
        pytest.skip(f"no sandbox here: {'; '.join(missing_restrictions())}")
    done = invoke("run", "an_app.py:kept_apart", "-q")
    assert PROTECTION in done.stdout
    done = invoke("run", "an_app.py:kept_apart", "--json", "-q")
    assert json.loads(done.stdout)["notes"] == [PROTECTION]
    done = invoke("run", program, "--json", "-q")
    assert json.loads(done.stdout)["notes"] == []


def test_progress_counts_the_tasks_of_a_run_while_it_runs():
    is_told, remarks = threading.Event(), []

    class Shown(Display):
        def show(self, progress, line, remark):
            remarks.append(line)
            if "1 of 2" in line:
                is_told.set()

    @task(writes="x")
    def first(x): ...

    @task(writes="y")
    def second(y):
        assert is_told.wait(60)

    def main():
        with Graph(workers=2):
            first("x")
            second("y")

    shown = Shown("run", lambda progress: progress.remark)
    with _watched(_Progress(1, 3), shown) as look:
        read_program(main).run({}, look)
    assert "1/3 runs, in this one 1 of 2 submitted tasks" in remarks


def test_failed_task_ends_with_code_1_and_says_why(program):
    done = invoke("run", "an_app.py:broken")
    assert done.exit_code == 1
    assert "1 task failed; the first in task 0 ('fails'): ValueError: no luck" in done.stderr
    assert done.stdout == ""  # no table without a run


def test_a_run_with_a_failed_task_is_in_the_trace_and_named(program):
    done = invoke("run", "an_app.py:fails_at", "--vary", "k=1,2,3", "-o", "runs.csv", "-q")
    assert done.exit_code == 1
    assert "k=2: 1 task failed; the first in task 1 ('fails'): ValueError: no luck" in done.stderr
    found = pd.read_csv("runs.csv").groupby("run")["status"].apply(list).tolist()
    assert found == [["ok"], ["ok", "failed"]]
    assert "k=1" in done.stdout
    assert "k=2" not in done.stdout


def test_an_error_of_the_program_is_told_with_its_line(program):
    line = 1 + PROGRAM.splitlines().index("        for k in range(n):")
    done = invoke("run", program, "--set", "n=big")
    assert done.exit_code == 1
    assert f"TypeError in an_app.py, line {line}: " in done.stderr
    done = invoke("foresee", program, "--set", "n=big")
    assert done.exit_code == 2
    assert f"TypeError in an_app.py, line {line}: " in done.stderr


def test_ctrl_c_keeps_the_runs_that_ended(program):
    done = invoke("run", "an_app.py:interrupted", "--vary", "k=1,2,3", "-o", "runs.csv", "-q")
    assert done.exit_code == 130
    assert "interrupted. 1/3 runs." in done.stderr
    assert "k=1" in done.stdout
    assert "k=2" not in done.stdout
    assert len(pd.read_csv("runs.csv")) == 3


@pytest.mark.parametrize(
    ("source", "given", "code"),
    [
        ("an_app.py:ends", ("--set", "kind=ctrl-c"), 130),
        ("an_app.py:ends", ("--set", "kind=exit"), 7),
        ("an_app.py:exits", (), 7),
    ],
)
def test_a_body_that_ends_the_program_keeps_the_runs_that_ended(program, source, given, code):
    done = invoke("run", source, "--vary", "k=1,2,3", *given, "-o", "runs.csv", "-q")
    assert done.exit_code == code
    assert ("interrupted. 1/3 runs." in done.stderr) == (code == 130)
    assert "k=1" in done.stdout
    assert "k=2" not in done.stdout
    assert len(pd.read_csv("runs.csv")) == 3


def test_an_error_keeps_the_runs_that_ended(program):
    done = invoke("run", "an_app.py:refused", "--vary", "k=1,2,3", "-o", "runs.csv", "-q")
    assert done.exit_code == 2
    assert "k must not be 2" in done.stderr
    assert "k=1" in done.stdout
    assert "k=2" not in done.stdout
    assert pd.read_csv("runs.csv").groupby("run").size().tolist() == [3, 3]  # the failed one, too
    done = invoke("run", program, "--on", "moon", "--json", "-q")
    assert done.stdout == ""  # nothing ended


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("foresee", "an_app.py:main"), "--model"),
        (("foresee", "an_app.py:mian"), "mian"),
        (("foresee", "an_app.py"), "FILE.py:FUNCTION"),
        (("foresee", "gone.csv"), "gone.csv"),
        (("foresee", "an_app.py:main", "--workers", "0"), "--workers"),
        (("foresee", "an_app.py:main", "--vary", "m=1"), "no parameter 'm'"),
        (("foresee", "an_app.py:main", "--overhead", "fast"), "--overhead"),
        (("run", "an_app.py:main", "-o", "runs.txt"), ".csv"),
        (("run", "an_app.py:main", "--workers", "0"), "--workers"),
        (("run", "an_app.py:main", "--on", "moon"), "--on"),
        (("foresee", "an_app.py:main", "--runs", "runs.csv"), "--model"),
        (("run", "an_app.py:main", "--policy", "wrk"), "--policy"),
        (("run", "an_app.py:main", "--repeats", "0"), "--repeats"),
        (("run", "an_app.py:main", "--repeats", "-3"), "--repeats"),
        (("run", "an_app.py:main", "--runs", "nowhere.csv"), "--model"),
    ],
)
def test_wrong_input_is_refused_with_code_2(program, arguments, told):
    done = invoke(*arguments)
    assert done.exit_code == 2, done.output
    assert told in done.stderr


def test_existing_trace_is_kept_unless_appended_or_forced(program):
    assert invoke("run", program, "-o", "runs.csv", "-q").exit_code == 0
    assert invoke("run", program, "-o", "runs.csv", "-q").exit_code == 2
    assert invoke("run", program, "-o", "runs.csv", "-q", "--append").exit_code == 0
    assert len(pd.read_csv("runs.csv")) == 6
