"""Limits on CPU time: what a process may use, whoever enforces it, and that nothing is left."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest

from foretell.errors import UsageError
from foretell.measure.measure import measure_sweep
from foretell.measure.running import cpu_group
from foretell.measure.running.cpu_limit import CpuLimit

#: When told to, uses 0.5 s of CPU time, half of it in a child, and prints how long that took.
BUSY = """
import os, time
input()
began = time.perf_counter()
for is_child in (True, False):
    if is_child and (pid := os.fork()):
        os.waitpid(pid, 0)
        continue
    before = time.process_time()
    while time.process_time() < before + 0.25: pass
    if is_child: os._exit(0)
print(time.perf_counter() - began)
"""


@pytest.fixture(params=["cgroup", "signals"])
def limit(request):
    with CpuLimit(may_use_groups=request.param == "cgroup") as made:
        if made.by != request.param:
            pytest.skip("this machine lets us make no control groups")
        yield made


def test_a_process_and_its_child_take_as_long_as_their_share_of_a_core_demands(limit):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", BUSY], **pipes)
    with limit.held(process.pid, 0.25):
        wall_s = float(process.communicate("go\n", timeout=60)[0])
    # Whatever else runs: 0.5 s at a quarter of a core, but for what it may use at once.
    assert wall_s >= (0.5 - 0.1) / 0.25


def test_a_process_goes_on_when_its_limit_is_lifted(limit):
    endless = "import time\nwhile True: pass"
    process = psutil.Popen([sys.executable, "-c", endless])
    try:
        with limit.held(process.pid, 0.01):
            while sum(process.cpu_times()[:2]) == 0:
                time.sleep(0.01)
        before = sum(process.cpu_times()[:2])
        deadline = time.monotonic() + 30
        while sum(process.cpu_times()[:2]) < before + 0.5:
            assert time.monotonic() < deadline, "it does not go on"
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()


def test_a_control_group_is_gone_when_it_is_closed():
    with CpuLimit() as made:
        if made.by != "cgroup":
            pytest.skip("this machine lets us make no control groups")
        group = made._group.path
        assert group.is_dir()
    assert not group.exists()


def test_groups_of_version_2_are_made_where_their_parent_passes_cpu_time_on(tmp_path, monkeypatch):
    """A folder stands for the file system, which few machines have beside version 1."""
    mounts, own = tmp_path / "mountinfo", tmp_path / "cgroup"
    root = tmp_path / "unified"
    (root / "user" / "shell").mkdir(parents=True)
    mounts.write_text(f"30 24 0:26 / {root} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n")
    own.write_text("0::/user/shell\n")
    monkeypatch.setattr(cpu_group, "_MOUNTS", mounts)
    monkeypatch.setattr(cpu_group, "_OWN", own)
    made = Path.mkdir

    def mkdir(path, *args, **options):  # the kernel fills in a new group
        made(path, *args, **options)
        if path.parent == root / "user":
            (path / "cpu.max").write_text("max 100000")
            (path / "cgroup.procs").touch()

    monkeypatch.setattr(Path, "mkdir", mkdir)
    limit = CpuLimit()
    assert limit.by == "cgroup"
    (group,) = (root / "user").glob("foretell-*")
    limit.hold(os.getpid(), 0.5)
    assert (group / "cpu.max").read_text().split() == ["50000", "100000"]
    assert (group / "cgroup.procs").read_text() == str(os.getpid())


@pytest.mark.parametrize("use", ["command", "python"])
def test_a_sweep_limits_its_jobs(tmp_path, monkeypatch, use):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.py").write_text(
        "import time\n"
        "def busy(**node):\n"
        "    began = time.process_time()\n"
        "    while time.process_time() < began + 0.3: pass\n"
        "if __name__ == '__main__': busy()\n"
    )
    words = [sys.executable, "jobs.py"]
    workload = {
        "command": {"use": "command", "run": words},
        "python": {"use": "python", "call": "jobs:busy"},
    }[use]
    sweep = {
        "workload": workload, "parameters": {"cpus": [0.2, 1]}, "cpu_limit": "cpus", "meters": []
    }  # fmt: skip
    measure_sweep(sweep, tmp_path / "runs.csv")
    times = pd.read_csv("runs.csv").set_index("cpus")["wall_time_s"]
    assert times[0.2] >= (0.3 - 0.1) / 0.2


def test_an_impossible_limit_is_refused_before_anything_runs(tmp_path):
    sweep = {"workload": {"use": "command", "run": "true {n}"}, "parameters": {"n": [0, 1]}}
    with pytest.raises(UsageError, match="cpu_limit: must be above 0"):
        measure_sweep({**sweep, "cpu_limit": "n"}, tmp_path / "runs.csv")
    with pytest.raises(UsageError, match="cpu_limit"):
        measure_sweep({**sweep, "cpu_limit": "m"}, tmp_path / "runs.csv")
