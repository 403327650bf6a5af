"""`foretell corun`: from two programs to a prediction, and errors in the words of flags."""

import json
import sys

import pytest
from click.testing import CliRunner

from foretell.cli._main import cli

from ...corun.jobs import made_up_machine
from ...corun.measured import make_measurement

SPIN = "import time\nwhile time.process_time() < 0.8: pass"


@pytest.fixture(autouse=True)
def no_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def run(*words):
    done = CliRunner().invoke(cli, ["corun", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_two_programs_of_a_user_are_profiled_and_predicted(tmp_path):
    for name in ("a", "b"):
        done = run("profile", "-o", f"{name}.profile", "--", sys.executable, "-c", SPIN)
        assert done.exit_code == 0, done.output
        assert "1 phase" in done.output or "2 phases" in done.output
    done = run("predict", "a.profile", "b.profile", "--start", "b=+0.2s", "-o", "t.svg")
    assert done.exit_code == 0, done.output
    assert "one after the other" in done.output
    assert (tmp_path / "t.svg").exists()
    found = json.loads(run("predict", "a.profile", "b.profile", "--json").stdout)
    assert [job["name"] for job in found["jobs"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["predict", "none.profile"], "none.profile"),
        (["profile", "-o", "x.profile", "--", "no-such-program"], "cannot be started"),
        (["profile", "-o", "x.profile", "--for", "soon", "--", "true"], "--for"),
        (["machine", "--seconds", "never"], "--seconds"),
    ],
)
def test_wrong_input_is_named(words, expected):
    done = run(*words)
    assert done.exit_code in {1, 2}
    assert expected in done.output
    assert "Traceback" not in done.output


def test_options_of_jobs_are_named_as_flags():
    assert run("profile", "-o", "a.profile", "--", sys.executable, "-c", SPIN).exit_code == 0
    done = run("predict", "a.profile", "--start", "z=3s")
    assert done.exit_code == 2
    assert "--start z=" in done.output
    assert "--pin" in run("predict", "a.profile", "--pin", "both").output
    assert "b=30s" in run("predict", "a.profile", "--start", "30s").output
    assert ".svg" in run("predict", "a.profile", "-o", "x.png").output


def test_jobs_are_grouped(tmp_path):
    for name in ("a", "b"):
        done = run("profile", "-o", f"{name}.profile", "--", sys.executable, "-c", SPIN)
        assert done.exit_code == 0, done.output
    (tmp_path / "jobs.toml").write_text(
        '[job.a]\nprofile = "a.profile"\n[job.b]\nprofile = "b.profile"\ncount = 2\n'
    )
    done = run("group", "jobs.toml", "--machines", "2", "--max-slowdown", "1.5")
    assert done.exit_code == 0, done.output
    assert "All is done at" in done.output
    found = json.loads(run("group", "jobs.toml", "--json").stdout)
    assert sorted(name for g in found["groups"] for name in g["jobs"]) == ["a", "b", "b-2"]
    assert "--max-slowdown 0.5" in run("group", "jobs.toml", "--max-slowdown", "0.5").output


def test_programs_are_measured_scored_and_fitted(tmp_path):
    """Real programs are measured; those that are scored come from a model."""
    sleep = f"{sys.executable} -c 'import time; time.sleep(0.6)'"
    lines = [f'[program.{name}]\nrun = "{sleep}"\n' for name in "ab"]
    head = "alone = 1\nshifted = 0\ntriples = 0\npinned = 0\nmax_disturbed = 99.0\n"
    (tmp_path / "set.toml").write_text(head + "".join(lines))
    assert "5 runs" in run("measure", "set.toml", "-o", "out", "--dry-run").output
    done = run("measure", "set.toml", "-o", "out", "-q")
    assert done.exit_code == 0, done.output
    assert "5 usable runs" in done.output
    folder = make_measurement(tmp_path / "made", factor=1.2)
    machine = tmp_path / "x.machine"
    machine.write_text(made_up_machine().model_dump_json())
    done = run("score", str(folder), "--machine", str(machine))
    assert done.exit_code == 0, done.output
    assert "roofline classes" in done.output
    found = run("fit", str(folder), "-o", "x.corun", "--machine", str(machine), "--json")
    assert json.loads(found.stdout)["chosen"]["pair"] == "fluid and residual"
    assert (tmp_path / "x.corun").exists()
    assert "x.corun exists" in run("fit", str(folder), "-o", "x.corun").output
