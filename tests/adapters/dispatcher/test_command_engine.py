"""Commands as jobs: what they are told, how they end, and what is left of them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from foretell.adapters.dispatcher.engines import ENGINES, Setting
from foretell.adapters.dispatcher.jobs import Job, new_id
from foretell.adapters.dispatcher.processes import JOB_MARK, QUEUE_MARK, marked
from foretell.errors import UsageError

PATIENCE_S = 60


@pytest.fixture
def engine(tmp_path):
    setting = Setting(new_id(), tmp_path / "jobs", tmp_path)
    yield ENGINES.get("command")(setting)
    for process in marked(setting.marks):
        process.kill()


def job_of(engine, *run, **values):
    job = Job(new_id(), "low", 0, list(run), attempt=1, **values)
    engine.setting.folder_of(job).mkdir(parents=True)
    return job


def python(engine, code, **values):
    return job_of(engine, sys.executable, "-c", code, **values)


def await_file(path):
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.002)


def test_a_job_finds_its_class_drop_seed_arguments_and_place_for_its_result(engine, tmp_path):
    code = """
import json, os
names = ["JOB", "CLASS", "DROP", "SEED", "ARGUMENTS"]
told = {n: os.environ["FORETELL_" + n] for n in names}
open(os.environ["FORETELL_RESULT"], "w").write(json.dumps({**told, "cwd": os.getcwd()}))
"""
    job = python(engine, code, arguments={"n": [1, "ü"]})
    assert engine.start(job, 0.2, 7).wait().is_done
    result = json.loads(engine.setting.result(job).read_text())
    assert json.loads(result.pop("ARGUMENTS")) == {"n": [1, "ü"]}
    cwd = str(tmp_path)
    assert result == {"JOB": job.id, "CLASS": "low", "DROP": "0.2", "SEED": "7", "cwd": cwd}


def test_a_failure_says_the_exit_code_and_the_last_line_printed(engine):
    job = python(engine, "print('first'); raise SystemExit('no such table')")
    outcome = engine.start(job, 0, 0).wait()
    assert not outcome.is_done
    assert "1" in outcome.reason
    assert outcome.reason.endswith("no such table")


def test_an_unknown_program_is_a_failure_of_the_job(engine):
    outcome = engine.start(job_of(engine, "no-such-program"), 0, 0).wait()
    assert not outcome.is_done
    assert "127" in outcome.reason


def test_a_signal_is_named(engine):
    outcome = engine.start(python(engine, "import os; os.abort()"), 0, 0).wait()
    assert "SIGABRT" in outcome.reason


FAMILY = """
import os, subprocess, sys, time
wait = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
for name, apart in (("plain", False), ("apart", True)):
    subprocess.Popen([sys.executable, "-c", wait, name], start_new_session=apart)
while not (os.path.exists("plain") and os.path.exists("apart")):
    time.sleep(0.002)
open("all", "w")
time.sleep(600)
"""


def test_killing_ends_the_whole_family_also_what_left_its_session(engine, tmp_path):
    job = python(engine, FAMILY)
    running = engine.start(job, 0, 0)
    await_file(tmp_path / "all")
    assert len(running.pids) == 4  # with the shell
    assert running.kill() is None
    assert marked(engine.setting.marks) == []


def test_a_job_that_empties_its_environment_is_still_ended(engine, tmp_path):
    script = f": >{tmp_path}/begun; sleep 600"  # without a process that ends meanwhile
    running = engine.start(job_of(engine, "env", "-i", "/bin/sh", "-c", script), 0, 0)
    await_file(tmp_path / "begun")
    family = [p for p in map(psutil.Process, running.pids) if p.is_running()]
    assert len(family) >= 2  # the shell around it, and the job
    assert running.kill() is None
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family)


def test_a_dispatcher_inside_a_job_does_not_end_itself(engine, tmp_path):
    code = """
from foretell.adapters.dispatcher.processes import QUEUE_MARK, end_all
import os, pathlib
end_all({QUEUE_MARK: os.environ[QUEUE_MARK]})
pathlib.Path("still-here").touch()
"""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3] / 'src')!r})" + code
    assert engine.start(python(engine, code), 0, 0).wait().is_done
    assert (tmp_path / "still-here").exists()


def test_a_job_that_had_ended_well_is_done_even_if_it_is_killed_then(engine):
    running = engine.start(job_of(engine, "true"), 0, 0)
    assert running.wait().is_done
    assert running.kill().is_done


def test_what_a_job_leaves_in_the_background_is_ended_with_it(engine, tmp_path):
    left = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()'])"
    code = left.replace("input()", "import time; time.sleep(600)")
    assert engine.start(python(engine, code), 0, 0).wait().is_done
    deadline = time.monotonic() + PATIENCE_S
    while marked(engine.setting.marks):
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_paused_job_goes_on_where_it_was(engine, tmp_path):
    code = """
import pathlib, time
pathlib.Path("begun").touch()
while not pathlib.Path("may-end").exists():
    time.sleep(0.002)
"""
    job = python(engine, code)
    running = engine.start(job, 0, 0)
    await_file(tmp_path / "begun")
    running.pause()
    (tmp_path / "may-end").touch()
    (shell,) = [p for p in marked(engine.setting.marks) if p.name() in {"sh", "dash", "bash"}]
    others = [p for p in marked(engine.setting.marks) if p != shell]
    assert {p.status() for p in others} == {psutil.STATUS_STOPPED}
    assert running.wait(0) is None
    running.go_on()
    assert running.wait().is_done


def test_a_function_is_refused(engine):
    with pytest.raises(UsageError, match="list"):
        engine.check("count.py:words")


def start_apart(engine, job):
    """Start a job from a process that ends at once, as a dispatcher that is killed does."""
    code = f"""
from pathlib import Path
from foretell.adapters.dispatcher.engines import ENGINES, Setting
from foretell.adapters.dispatcher.jobs import Job
setting = Setting({engine.setting.queue_id!r}, Path({str(engine.setting.jobs)!r}),
                  Path({str(engine.setting.folder)!r}))
job = Job({job.id!r}, "low", 0, {job.run!r}, attempt=1)
ENGINES.get("command")(setting).start(job, 0, 0)
import os; os.kill(os.getpid(), 9)
"""
    source = str(Path(__file__).parents[3] / "src")
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": source})
    assert done.returncode == -signal.SIGKILL


def test_a_job_that_ended_without_a_dispatcher_is_not_started_again(engine):
    job = job_of(engine, "sh", "-c", "echo once")
    start_apart(engine, job)
    await_file(engine.setting.outcome(job))
    outcome = engine.recover([job])[job.id]
    assert outcome.is_done
    assert outcome.ended_at <= time.time()


def test_a_job_that_still_runs_without_a_dispatcher_is_ended(engine, tmp_path):
    job = python(engine, FAMILY)
    start_apart(engine, job)
    await_file(tmp_path / "all")
    assert engine.recover([job]) == {}
    assert marked(engine.setting.marks) == []


def test_a_failure_without_a_dispatcher_is_a_failure(engine):
    job = job_of(engine, "sh", "-c", "echo broken; exit 3")
    start_apart(engine, job)
    await_file(engine.setting.outcome(job))
    while not engine.setting.outcome(job).read_text():
        time.sleep(0.002)
    outcome = engine.recover([job])[job.id]
    assert not outcome.is_done
    assert "3" in outcome.reason and "broken" in outcome.reason


def test_processes_of_other_queues_and_reused_ids_are_left_alone(engine):
    job = job_of(engine, "true")
    stranger = subprocess.Popen(
        ["sleep", "600"], env={**os.environ, JOB_MARK: job.id, QUEUE_MARK: "another"}
    )
    try:
        # As if the shell of the job had had the id that the stranger has now.
        (engine.setting.folder_of(job) / "shell-1").write_text(str(stranger.pid))
        assert engine.recover([job]) == {}
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_command_that_leaves_its_session_and_its_environment_is_ended(
    engine, tmp_path, is_killed
):
    script = f"echo $$ > {tmp_path}/half; mv {tmp_path}/half {tmp_path}/begun; sleep 600"
    job = job_of(engine, "setsid", "-w", "env", "-i", "/bin/sh", "-c", script)
    if is_killed:
        start_apart(engine, job)
    else:
        running = engine.start(job, 0, 0)
    await_file(tmp_path / "begun")
    left = psutil.Process(int((tmp_path / "begun").read_text()))
    family = [left, *left.children()]
    try:
        if is_killed:
            assert engine.recover([job]) == {}
        else:
            assert running.kill() is None
        assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family)
    finally:
        for process in family:
            if process.is_running():
                process.kill()
