"""Real processes: sampled with all they start, ended with all they left, whatever happens."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from foretell.corun.running.together import JobOrder, lost_core_s, run_together
from foretell.errors import UsageError
from foretell.traces import Trace

from ..jobs import SPIN, many, python, spin


def wait_for(condition, limit_s=60.0):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_cpu_time_of_children_and_of_orphans_counts():
    code = f"""
import os, sys
if os.fork() == 0:                      # a child, whose child outlives it
    if os.fork() == 0:
        {SPIN.format(0.4).replace(chr(10), chr(10) + "        ")}
    os._exit(0)
os.wait()
{SPIN.format(0.4)}
import time
time.sleep(0.3)
while any(open(f"/proc/{{p}}/stat").read().rpartition(")")[2].split()[3] == str(os.getpid())
          for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()
          and os.path.exists(f"/proc/{{p}}/stat")):
    time.sleep(0.02)
"""
    (job,) = run_together([JobOrder("a", python(code))]).jobs
    assert not job.failure, job.failure
    # The kernel gives the time of the orphan to whoever takes its end, and that is the watcher.
    assert job.cpu_time_s >= 0.75


def test_each_time_that_a_job_wakes_up_counts_as_a_switch():
    sleeps = python("import time\nfor _ in range(40): time.sleep(0.01)\ntime.sleep(0.3)")
    (job,) = run_together([JobOrder("a", sleeps)]).jobs
    switches = job.trace.columns["n_switches"]
    assert switches[-1] >= 40
    assert (np.diff(switches) >= 0).all()


def test_pressure_and_bytes_of_networks_are_sampled_where_the_kernel_tells():
    (job,) = run_together([JobOrder("a", spin(0.3))]).jobs
    told = {"cpu": "cpu_pressure_s", "io": "io_pressure_s", "memory": "memory_pressure_s"}
    for name, column in told.items():
        values = job.trace.columns[column]
        assert np.isfinite(values).all() == Path("/proc/pressure", name).exists()
    assert (np.diff(job.trace.columns["network_bytes"]) >= 0).all()


def test_jobs_start_at_their_times_and_are_told_apart():
    orders = [JobOrder("a", spin(0.5)), JobOrder("b", spin(0.2), start_s=0.3)]
    first, second = run_together(orders).jobs
    assert second.began_s >= 0.3
    assert first.cpu_time_s >= 0.5
    assert 0.2 <= second.cpu_time_s < first.cpu_time_s
    assert (abs(first.trace.columns["cpu_time_s"][-1] - first.cpu_time_s)) < 1e-6


def test_pinned_jobs_run_on_their_cores_only():
    code = "import os; print(sorted(os.sched_getaffinity(0)))"
    core = max(os.sched_getaffinity(0))
    (job,) = run_together([JobOrder("a", python(code), cpus=(core,))]).jobs
    assert job.printed.strip() == f"[{core}]"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("no-such-program",), "cannot be started"),
        (python("import sys; print('no luck'); sys.exit(3)"), "exited with 3: no luck"),
        (python("import os; os.kill(os.getpid(), 9)"), "signal 9"),
    ],
)
def test_a_job_that_fails_says_why_and_the_others_go_on(command, expected):
    bad, good = run_together([JobOrder("bad", command), JobOrder("good", spin(0.1))]).jobs
    assert expected in bad.failure
    assert not good.failure


def test_a_job_is_stopped_at_its_limit_with_all_it_started(tmp_path):
    code = f"""
import os, time
if os.fork() == 0:
    os.setsid()                          # it leaves the session
open({str(tmp_path / "pid")!r} + str(os.getpid()), "w").close()
time.sleep(600)
"""
    (job,) = run_together([JobOrder("a", python(code), limit_s=1.0)]).jobs
    assert job.was_stopped
    assert not job.failure
    pids = [int(p.name[3:]) for p in tmp_path.iterdir()]
    assert len(pids) == 2
    assert all(map(is_gone, pids))


def test_cpu_time_of_a_job_that_was_stopped_counts():
    (job,) = run_together([JobOrder("a", spin(600), limit_s=1.0)]).jobs
    assert job.cpu_time_s > 0.3
    assert job.ended_s - job.began_s == pytest.approx(1.0, abs=0.5)


def test_jobs_can_be_interrupted_as_in_a_shell():
    """The process that watches them ignores the signal, and they do not."""
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    (job,) = run_together([JobOrder("a", python(code))]).jobs
    assert job.printed.strip() == "True"


def test_jobs_end_when_the_process_that_asked_for_them_is_killed(tmp_path):
    mark = tmp_path / "pid"
    code = f"import os,time; open({str(mark)!r},'w').write(str(os.getpid())); time.sleep(600)"
    asker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from foretell.corun.running.together import *\nimport sys\n"
            "run_together([JobOrder('a', (sys.executable, '-c', sys.argv[1]))])",
            code,
        ]
    )
    wait_for(lambda: mark.exists() and mark.read_text())
    pid = int(mark.read_text())
    os.kill(asker.pid, signal.SIGKILL)
    asker.wait()
    wait_for(lambda: is_gone(pid))


def test_hundreds_of_processes_in_a_tree_do_not_break_it():
    (job,) = run_together([JobOrder("many", many(300, 2))]).jobs
    assert not job.failure
    assert job.trace.columns["n_processes"].max() >= 300


def test_what_others_did_is_not_counted_as_the_jobs():
    """A stranger of this test keeps a core busy meanwhile."""
    stranger = subprocess.Popen(spin(60))
    try:
        done = run_together([JobOrder("a", python("import time; time.sleep(0.8)"))])
    finally:
        stranger.kill()
        stranger.wait()
    assert done.jobs[0].cpu_time_s < 0.5
    assert done.other_load > 0.05
    assert Path("/proc").exists()


def steady(cores, waiting, seconds=4.0):
    times = np.linspace(0.1, seconds, 40)
    return times, Trace(times, {"cpu_time_s": cores * times, "wait_time_s": waiting * times})


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([steady(1.0, 0.0)], 0.0),
        ([steady(0.7, 0.3)], 0.3),  # it wanted a core, one was there, and it had less
        ([steady(1.0, 1.0), steady(1.0, 1.0)], 0.0),  # they wait for each other
        ([steady(0.9, 1.1), steady(0.9, 1.1)], 0.2),  # both cores wanted, 1.8 had
    ],
)
def test_what_others_took_is_told_from_what_jobs_take_from_each_other(jobs, expected):
    assert lost_core_s(jobs, 2) / 4.0 == pytest.approx(expected, abs=0.01)


def test_priority_without_the_right_to_it_is_refused(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="needs root"):
        run_together([JobOrder("a", spin(0.1))], priority=True)
