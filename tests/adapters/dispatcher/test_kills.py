"""Killed at random moments, a dispatcher loses no job and runs none again that had finished."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from foretell.adapters.dispatcher.processes import QUEUE_MARK, marked
from foretell.adapters.dispatcher.spool import write_job
from foretell.adapters.dispatcher.store.runs import read_rows
from foretell.files.journal import read_journal

from .conftest import PATIENCE_S, await_that, queue_of

N_KILLS, N_JOBS = 20, 60
SOURCE = str(Path(__file__).parents[3] / "src")
#: Loads everything once, and forks a dispatcher for each line: starting Python takes too long.
LAUNCHER = """
import json, os, sys
from foretell.adapters.dispatcher.dispatcher import Dispatcher
from foretell.adapters.dispatcher.sprints import SPRINTS
print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        values = json.loads(line)
        with Dispatcher(values["queue"], state=values["state"], spool=values["spool"]) as found:
            found.run(until_empty=True)
        os._exit(0)
    print(pid, flush=True)
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class Launcher:
    """Starts dispatchers in a folder, one after the other."""

    def __init__(self, folder, queue):
        self.folder = folder
        self.state, self.spool = folder / "state", folder / "jobs"
        values = {"queue": queue, "state": str(self.state), "spool": str(self.spool)}
        self._line = json.dumps(values) + "\n"
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=folder, env={**os.environ, "PYTHONPATH": SOURCE},
        )  # fmt: skip
        assert self._process.stdout.readline() == "ready\n"

    def start(self):
        """Start a dispatcher; return its process id."""
        self._process.stdin.write(self._line)
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def wait(self):
        """Wait for the end of the dispatcher; return its exit code."""
        return int(self._process.stdout.readline())

    def kill(self, pid):
        """Kill the dispatcher, and it alone; return whether it still ran."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return self.wait() == -signal.SIGKILL

    def close(self):
        self._process.kill()
        self._process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def launcher(tmp_path):
    opened = []

    def start(**values):
        opened.append(Launcher(tmp_path, queue_of("low", "high", **values)))
        return opened[-1]

    yield start
    for launcher in opened:
        launcher.close()
        for queue_id in {queue_id_of(launcher.state)} - {None}:
            for process in marked({QUEUE_MARK: queue_id}):
                with suppress(psutil.Error):
                    process.kill()


def queue_id_of(state):
    return read_journal(state / "journal")[0]["id"] if (state / "journal").exists() else None


def finished(state):
    """Return the jobs that are finished without doubt: by the journal, or by their outcome."""
    found = {row["id"] for row in read_rows(state / "runs.csv") if row["status"] == "ok"}
    if (state / "journal").exists():
        found |= {r["id"] for r in read_journal(state / "journal") if r.get("state") == "done"}
    for outcome in (state / "jobs").glob("*/outcome-*"):
        with suppress(OSError):
            if outcome.read_text() == "0\n":
                found.add(outcome.parent.name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("discipline", ["non-preemptive", "resume", "repeat"])
def test_kills_at_random_moments_lose_nothing_and_repeat_nothing(launcher, tmp_path, discipline):
    dice = random.Random(f"14 {discipline}")
    runs = launcher(discipline=discipline)
    log = tmp_path / "log"
    log.mkdir()
    script = f"echo begun >> {log}/$FORETELL_JOB; sleep 0.01; echo ended >> {log}/$FORETELL_JOB"
    submitted = []

    def submit(n):
        for _ in range(n):
            of = dice.choice(["low", "low", "high"])
            submitted.append(write_job(runs.spool, {"class": of, "run": ["sh", "-c", script]}))

    def begun():
        return {path.name: path.read_text().count("begun") for path in log.iterdir()}

    n_kills = N_KILLS if discipline == "non-preemptive" else N_KILLS // 4
    had_finished = {}  # by job, how often it had begun by then
    submit(10)
    for _ in range(n_kills):
        pid = runs.start()
        submit(max(0, min(3, N_JOBS - len(submitted))))
        time.sleep(dice.uniform(0, 0.25))  # a random moment is the point here
        assert runs.kill(pid) or not set(submitted) - finished(runs.state)
        for job_id in finished(runs.state):
            had_finished.setdefault(job_id, begun()[job_id])
    runs.start()
    assert runs.wait() == 0
    times = begun()
    assert {job: times[job] for job in had_finished} == had_finished
    rows = list(read_rows(runs.state / "runs.csv"))
    assert sorted(row["id"] for row in rows) == sorted(submitted)
    assert {row["status"] for row in rows} == {"ok"}
    for job_id in submitted:
        assert (log / job_id).read_text().endswith("ended\n")
    assert marked({QUEUE_MARK: queue_id_of(runs.state)}) == []
    left = [p for p in runs.spool.rglob("*") if p.is_file() and p.parent.name != "accepted"]
    assert left == []


def test_an_orphan_is_ended_before_its_job_starts_again(launcher, tmp_path):
    runs = launcher()
    script = f"cd {tmp_path}; echo $$ >> begun; test -e again || sleep 600"
    write_job(runs.spool, {"class": "low", "run": ["sh", "-c", script]})
    pid = runs.start()
    await_that((tmp_path / "begun").exists)
    assert runs.kill(pid)
    orphans = marked({QUEUE_MARK: queue_id_of(runs.state)})
    assert orphans
    (tmp_path / "again").touch()
    runs.start()
    assert runs.wait() == 0
    assert not any(process.is_running() and process.status() != "zombie" for process in orphans)
    assert len((tmp_path / "begun").read_text().split()) == 2


def test_a_job_that_finished_after_the_dispatcher_was_killed_is_taken_as_done(launcher, tmp_path):
    runs = launcher()
    script = f"cd {tmp_path}; echo $$ >> begun; until test -e may-end; do sleep 0.01; done"
    job_id = write_job(runs.spool, {"class": "low", "run": ["sh", "-c", script]})
    pid = runs.start()
    await_that((tmp_path / "begun").exists)
    assert runs.kill(pid)
    (tmp_path / "may-end").touch()
    outcome = runs.state / "jobs" / job_id / "outcome-1"
    await_that(lambda: outcome.exists() and outcome.read_text())
    ended_at = outcome.stat().st_mtime
    runs.start()
    assert runs.wait() == 0
    assert len((tmp_path / "begun").read_text().split()) == 1
    (row,) = read_rows(runs.state / "runs.csv")
    assert (row["status"], row["n_attempts"]) == ("ok", "1")
    assert float(row["ended_at"]) == pytest.approx(ended_at)


def test_what_sprints_changed_is_put_back_at_the_next_start(launcher, tmp_path):
    speed = tmp_path / "speed"
    speed.write_text("base\n")
    on, off = (["sh", "-c", f"echo {word} > {speed}"] for word in ("sprint", "base"))
    sprint = {"mechanism": "command", "speedup": 2.0, "settings": {"on": on, "off": off}}
    queue = queue_of("low", sprint=sprint)
    queue["class"][0]["sprint_after_s"] = 0.0
    runs = Launcher(tmp_path, queue)
    try:
        script = f"cd {tmp_path}; test -e again || sleep 600"
        write_job(runs.spool, {"class": "low", "run": ["sh", "-c", script]})
        pid = runs.start()
        await_that(lambda: speed.read_text() == "sprint\n")
        assert runs.kill(pid)
        assert speed.read_text() == "sprint\n"
        (tmp_path / "again").touch()
        runs.start()
        assert runs.wait() == 0
        assert speed.read_text() == "base\n"
        assert not list(runs.state.glob("sprint*"))
    finally:
        runs.close()
