"""`foretell queue run`, `submit` and `status`: what they print, and how they end."""

import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from foretell.cli._main import cli
from foretell.errors import ForetellError

CLASSES = """
[[class]]
name = "low"
rate_per_min = 1
service = { mean_s = 1, scv = 1 }
[[class]]
name = "high"
rate_per_min = 1
service = { mean_s = 1, scv = 1 }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORETELL_TOKEN", raising=False)
    (tmp_path / "classes.toml").write_text(CLASSES)
    return tmp_path


def call(*words):
    found = CliRunner().invoke(cli, ["queue", words[0], "classes.toml", *words[1:]])
    assert not isinstance(found.exception, Exception), found.output
    return found


def submit(name, *command, of="low", options=()):
    return call("submit", "--class", of, "--name", name, *options, "--", *command).output.strip()


def test_submitted_jobs_are_run_and_summed_up(folder):
    first = submit("first", "true")
    submit("second", "sh", "-c", "exit 2", of="high")
    (folder / "jobs" / "x.json").write_text("{")
    found = call("run", "--until-empty")
    assert found.exit_code == 0
    assert "x.json is not a job" in found.output
    assert "high: second failed 3 times" in found.output
    assert "low: first is done" in found.output
    status = json.loads(call("status", "--json", "-o", "runs.csv").stdout)
    counts = {c["name"]: (c["waiting"], c["done"], c["failed"]) for c in status["classes"]}
    assert counts == {"high": (0, 0, 1), "low": (0, 1, 0)}
    with Path("runs.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)][-1] == first
    refused = call("status", "-o", "runs.csv")
    assert refused.exit_code == 2
    assert "--force" in refused.output


def test_events_are_lines_of_json_for_programs():
    job_id = submit("first", "true")
    events = [json.loads(line) for line in call("run", "--until-empty", "--json").output.split("\n")
              if line]  # fmt: skip
    assert [e["event"] for e in events] == ["accepted", "ready", "started", "done"]
    assert {e["id"] for e in events if "id" in e} == {job_id}
    assert events[-1]["response_s"] > 0
    assert events[2]["latency_s"] > 0


def test_arguments_and_functions_become_parts_of_the_job(folder):
    call("submit", "--class", "low", "--argument", "top=10", "--argument", "word=of", "--",
         "count.py:words")  # fmt: skip
    (file,) = (folder / "jobs").iterdir()
    assert json.loads(file.read_text()) == {
        "class": "low", "run": "count.py:words", "arguments": {"top": 10, "word": "of"},
    }  # fmt: skip
    assert "list" in call("run", "--until-empty").output  # not for this engine


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("submit", "--class", "lwo", "--", "true"), "'low'"),
        (("submit", "--class", "low", "--argument", "top", "--", "true"), "--argument top"),
        (("submit", "--class", "low", "--argument", "x=NaN", "--", "true"), "finite"),
        (("submit", "--class", "low", "--", "echo", "x" * 16_000), "bytes"),
        (("run", "--engine", "comand"), "'command'"),
        (("run", "--state", "classes.toml"), "--state"),
        (("status", "--state", "nowhere"), "--state"),
        (("status", "--state", "."), "not the state of a queue"),
        (("status", "--url", "localhost"), "http://"),
        (("status", "--url", "http://127.0.0.1:1"), "no dispatcher"),
        (("run", "--host", "0.0.0.0", "--port", "0"), "token"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(words, reason):
    found = call(*words)
    assert found.exit_code == 2
    assert reason in found.output


@pytest.mark.parametrize(
    ("engine", "command", "wanted"),
    [("command", ["job.py:run"], "a program"), ("spark", ["sh", "job.py:x"], "a function")],
)
def test_what_the_engine_of_the_file_cannot_run_is_not_submitted(folder, engine, command, wanted):
    (folder / "classes.toml").write_text(f'{CLASSES}\n[run]\nengine = "{engine}"\n')
    found = call("submit", "--class", "low", "--", *command)
    assert found.exit_code == 2
    assert f"'{engine}', runs {wanted}" in " ".join(found.output.split())
    assert not (folder / "jobs").exists()


def test_without_the_extra_jobs_come_from_the_spool_folder_alone(monkeypatch):
    submit("first", "true")
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    refused = call("run", "--port", "0")
    assert refused.exit_code == 2
    assert "foretell[serve]" in refused.output
    assert "is done" in call("run", "--until-empty").output


def test_ctrl_c_says_what_is_done_and_how_to_go_on_and_nothing_is_lost(foretell, folder):
    submit("first", "true", of="high")
    submit("long", "sh", "-c", f"touch {folder}/begun; test -e {folder}/again || sleep 600")
    run = foretell("queue", "run", "classes.toml", "--until-empty")
    assert run.reaches((folder / "begun").exists)
    run.interrupt()
    assert run.wait() == 130
    assert re.search(r"high +0 +0 +1 ", run.text)
    assert re.search(r"low +1 +0 +0 ", run.text)
    assert "foretell queue run classes.toml --until-empty" in run.text
    (folder / "again").touch()
    assert "low: long is done" in call("run", "--until-empty").output


def test_a_terminal_gets_a_table(folder):
    submit("first", "sh", "-c", "sleep 0.5", of="high")
    theirs, ours = pty.openpty()
    source = str(Path(__file__).parents[2] / "src")
    process = subprocess.Popen(
        [sys.executable, "-m", "foretell", "queue", "run", "classes.toml", "--until-empty"],
        stdin=subprocess.DEVNULL, stdout=ours, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": source, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(ours)
    content = b""
    try:
        while part := os.read(theirs, 1 << 16):
            content += part
    except OSError:  # how Linux says that the other side is closed
        pass
    finally:
        os.close(theirs)
    assert process.wait(60) == 0
    text = content.decode()
    assert "In the engine: first (high), attempt 1." in text
    assert "high: first is done" in text


def test_a_dispatcher_is_asked_over_http(foretell, folder, monkeypatch):
    run = foretell("queue", "run", "classes.toml", "--port", "0", "--json")
    assert run.reaches(lambda: '"ready"' in run.text)
    url = json.loads(run.text.splitlines()[0])["url"]
    monkeypatch.setenv("FORETELL_TOKEN", (folder / "state" / "token").read_text().strip())
    found = json.loads(call("status", "--url", url, "--json").output)
    assert [c["name"] for c in found["classes"]] == ["high", "low"]
    monkeypatch.setenv("FORETELL_TOKEN", "wrong-token-of-some-length")
    assert "token" in call("status", "--url", url).output
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 0


def test_status_counts_files_that_wait_for_a_dispatcher(folder):
    for i in range(3):
        submit(f"job {i}", "true")
    found = call("status")
    assert found.exit_code == 0
    assert "3 in the spool folder; no dispatcher runs." in found.output
    assert json.loads(call("status", "--json").output)["in_spool"] == 3
    assert call("status", "--state", "nowhere", "--spool", "nowhere").exit_code == 2
    refused = call("status", "-o", "runs.csv")
    assert refused.exit_code == 2
    assert "no job ended" in refused.output


def test_a_table_of_another_version_keeps_nobody_from_looking(folder):
    submit("first", "true")
    call("run", "--until-empty")
    (folder / "state" / "runs.csv").write_text("class,response_s\nlow,1\n")
    found = call("status")
    assert found.exit_code == 0
    assert re.search(r"low +0 +0 +1 ", found.output)
    assert "runs-1.csv" in call("run", "--until-empty").output


def test_status_tells_whether_a_dispatcher_runs(foretell, folder):
    submit("long", "sh", "-c", f"touch {folder}/begun; exec sleep 600")
    run = foretell("queue", "run", "classes.toml")
    assert run.reaches((folder / "begun").exists)
    found = call("status").output
    assert "In the engine: long (low), attempt 1." in found
    assert "no dispatcher" not in found.lower()
    second = call("run")
    assert second.exit_code == 2
    assert "dispatcher runs already" in second.output
    assert "--state" not in second.output
    run.process.kill()
    run.process.wait()
    found = call("status").output
    assert "No dispatcher runs." in found
    assert "In the engine: " not in found
    assert "when the last dispatcher ended: long" in found
    assert json.loads(call("status", "--json").output)["is_dispatched"] is False
    (folder / "begun").unlink()
    again = foretell("queue", "run", "classes.toml")  # which ends what was left
    assert again.reaches((folder / "begun").exists)
    again.interrupt()
    again.wait()


def test_ctrl_c_before_the_dispatcher_is_ready_says_how_to_go_on(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("foretell.adapters.dispatcher.run.run_dispatcher", interrupted)
    found = call("run")
    assert found.exit_code == 130
    assert "Go on with" in found.output


@pytest.mark.parametrize(
    ("verb", "more"), [("predict", []), ("choose", []), ("submit", ["--class", "low", "true"])]
)
@pytest.mark.parametrize(
    ("table", "near"),
    [('[sprint]\nmechanism = "cpufrq"\n', "cpufreq"), ('[run]\nengine = "comand"\n', "command")],
)
def test_unknown_engines_and_mechanisms_are_refused_by_all_verbs(folder, verb, more, table, near):
    (folder / "classes.toml").write_text(CLASSES + table)
    found = CliRunner().invoke(cli, ["queue", verb, "classes.toml", *more])
    assert isinstance(found.exception, ForetellError | SystemExit)
    told = f"{found.output} {found.exception}"
    assert f"'{near}'" in told
