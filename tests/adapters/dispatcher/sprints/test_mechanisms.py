"""Sprint mechanisms: what they change, and that all of it is put back."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from foretell.adapters.dispatcher.sprints import SPRINTS, SprintError
from foretell.adapters.dispatcher.sprints.cpufreq import CpuFrequency
from foretell.adapters.dispatcher.sprints.quota import Quota
from foretell.errors import UsageError
from foretell.measure.running.cpu_group import CpuGroup

has_two_cores = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="one core cannot be bound to less"
)


@contextlib.contextmanager
def sleeper():
    """A process with a child, both of which sleep."""
    code = "import subprocess as s; p = s.Popen(['sleep', '600']); print(flush=True); p.wait()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    process.stdout.readline()
    children = psutil.Process(process.pid).children()
    try:
        yield [process.pid, *(child.pid for child in children)]
    finally:
        process.kill()
        for child in children:
            child.kill()
        process.communicate()


# Commands


def test_commands_begin_and_end_a_sprint_and_know_the_processes(tmp_path):
    log = tmp_path / "log"
    words = {k: ["sh", "-c", f"echo {k} $FORETELL_PIDS >> {log}"] for k in ("on", "off")}
    sprint = SPRINTS.get("command")(words)
    assert sprint.refusal() is None
    sprint.open()
    sprint.start([1, 2])
    sprint.stop([1, 2])
    sprint.close()
    assert log.read_text().splitlines() == ["on 1 2", "off 1 2", "off"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["sh", "-c", "echo no right >&2; exit 3"], "3: no right"),
        (["no-such-program"], "No such file"),
        (["sleep", "600"], "0.05"),
    ],
)
def test_a_command_that_does_not_work_is_an_error(command, reason):
    sprint = SPRINTS.get("command")({"on": command, "off": ["true"], "time_limit_s": 0.05})
    with pytest.raises(SprintError, match=reason):
        sprint.start([])


def test_wrong_settings_are_named():
    with pytest.raises(UsageError, match=r"sprint\.settings\.off"):
        SPRINTS.get("command")({"on": ["true"]})
    with pytest.raises(UsageError, match=r"sprint\.settings.*base_cpus"):
        SPRINTS.get("quota")({})
    with pytest.raises(UsageError, match="exchange"):
        SPRINTS.get("quota")({"base_cpus": 2, "sprint_cpus": 1})


# Quotas


@pytest.fixture
def group():
    sprint = Quota({"base_cpus": 0.25, "sprint_cpus": 1.5})
    if sprint.by != "group":
        pytest.skip("no control group can be made here")
    yield sprint
    sprint.close()


def group_of(sprint):
    """Return the control group that a sprint has made."""
    (place,) = [path for path in map(Path, sprint.base()["groups"]) if path.is_dir()]
    return CpuGroup(place, is_second=(place / "cpu.max").exists())


def quota_of(group):
    """Return the cores that a control group has, as the kernel says; infinite for all."""
    if group.is_second:
        quota, period = (group.path / "cpu.max").read_text().split()
    else:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        quota, period = ((group.path / name).read_text().strip() for name in names)
    return float("inf") if quota in ("max", "-1") else int(quota) / int(period)


def test_the_kernel_holds_the_engine_to_its_share_and_lets_it_sprint(group):
    assert group.refusal() is None
    group.open()
    made = group_of(group)
    with sleeper() as pids:
        group.hold(pids)
        assert {*map(str, pids)} <= set((made.path / "cgroup.procs").read_text().split())
        assert quota_of(made) == 0.25
        group.start(pids)
        assert quota_of(made) == 1.5
        group.stop(pids)
        assert quota_of(made) == 0.25
        group.close()
        assert not made.path.exists()
        assert all(psutil.pid_exists(pid) for pid in pids)  # they go on, without a limit
    group.close()  # twice does no harm


def test_a_group_that_a_killed_dispatcher_left_is_removed_with_processes_in_it(group):
    group.open()
    made = group_of(group)
    with sleeper() as pids:
        group.hold(pids)
        Quota.restore(group.base())
        assert not made.path.exists()


@has_two_cores
def test_without_groups_all_threads_are_bound_to_cores(group):
    sprint = Quota({"base_cpus": 1, "by": "affinity"})
    assert sprint.refusal() is None
    with sleeper() as pids:
        sprint.open()
        sprint.hold(pids)
        assert {len(os.sched_getaffinity(pid)) for pid in pids} == {1}
        sprint.start(pids)
        assert {frozenset(os.sched_getaffinity(p)) for p in pids} == {
            frozenset(os.sched_getaffinity(0))
        }
        sprint.stop(pids)
        assert {len(os.sched_getaffinity(pid)) for pid in pids} == {1}
    sprint.close()


def test_shares_of_a_core_cannot_be_bound(monkeypatch):
    monkeypatch.setattr(CpuGroup, "make", lambda name=None: None)
    assert "whole cores" in Quota({"base_cpus": 0.5, "sprint_cpus": 1}).refusal()
    assert "group" in Quota({"base_cpus": 0.5, "by": "group"}).refusal()


# Frequencies, on files as Linux has them: few machines for tests let them be set


@pytest.fixture
def root(tmp_path):
    for i in range(2):
        policy = tmp_path / "cpufreq" / f"policy{i}"
        policy.mkdir(parents=True)
        files = {
            "scaling_max_freq": "2000000", "scaling_governor": "powersave",
            "cpuinfo_max_freq": "3800000", "cpuinfo_min_freq": "800000",
        }  # fmt: skip
        for name, value in files.items():
            (policy / name).write_text(f"{value}\n")
    return tmp_path / "cpufreq"


def frequencies(root):
    return [
        tuple((p / f"scaling_{n}").read_text().strip() for n in ("max_freq", "governor"))
        for p in sorted(root.glob("policy*"))
    ]


def test_frequencies_rise_in_a_sprint_and_are_put_back(root):
    sprint = CpuFrequency({"base_mhz": 900, "governor": "performance"}, root)
    assert sprint.refusal() is None
    base = sprint.base()
    assert frequencies(root) == [("2000000", "powersave")] * 2
    sprint.open()
    assert frequencies(root) == [("900000", "powersave")] * 2
    sprint.start([])
    assert frequencies(root) == [("3800000", "performance")] * 2
    sprint.stop([])
    assert frequencies(root) == [("900000", "powersave")] * 2
    sprint.start([])
    CpuFrequency.restore(base)  # as the next start does after a crash
    assert frequencies(root) == [("2000000", "powersave")] * 2


def test_frequencies_stay_within_what_the_processor_can_do(root):
    sprint = CpuFrequency({"base_mhz": 100, "sprint_mhz": 9000}, root)
    sprint.open()
    assert frequencies(root)[0][0] == "800000"
    sprint.start([])
    assert frequencies(root)[0][0] == "3800000"


def test_a_machine_without_frequencies_says_so(tmp_path):
    assert "cpufreq" in CpuFrequency({}, tmp_path).refusal()


def test_no_right_to_set_frequencies_is_said(root, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    assert "scaling_max_freq" in CpuFrequency({}, root).refusal()


def test_a_group_is_removed_where_it_was_made_also_by_a_process_in_another(tmp_path, monkeypatch):
    old, new = tmp_path / "old", tmp_path / "new"
    parents = "foretell.measure.running.cpu_group._parents"
    monkeypatch.setattr(parents, lambda: iter([(old, True)]))
    base = json.loads(json.dumps(Quota({"base_cpus": 1}).base()))
    for place in base["groups"]:
        Path(place).mkdir(parents=True)
    assert list(old.iterdir())
    monkeypatch.setattr(parents, lambda: iter([(new, True)]))
    for _ in range(2):
        Quota.restore(base)
    assert list(old.iterdir()) == []
