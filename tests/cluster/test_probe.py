"""Probing node types: the sweeps are measured as they are, and models come out of them."""

import os
import re
import shlex
import sys
import time
import tomllib
from contextlib import nullcontext

import pandas as pd
import pytest
import tomli_w
from click.testing import CliRunner

import foretell
from foretell.cli._main import cli
from foretell.cluster.probe import ProbeOptions, probe_sweep, write_probes
from foretell.decide.placement.cluster import read_cluster
from foretell.errors import StorageError, UsageError
from foretell.measure import probes
from foretell.measure.measure import estimate_time, prepare_sweep
from foretell.measure.probes import JOBS
from foretell.measure.running.runner_process import RunnerProcess
from foretell.measure.workloads._base import RunFailedError

TYPES = {
    "node_type": [
        {"name": "big", "count": 1, "capacity": {"cpu": 6, "memory": "64Gi"},
         "idle_w": 40, "busy_w": 100},
        {"name": "tiny", "count": 1, "capacity": {"cpu": 1, "memory": "64Mi"}},
    ]
}  # fmt: skip


def test_each_type_is_probed_up_to_its_size(tmp_path):
    big, tiny = write_probes(TYPES, tmp_path / "probe")
    sweep = tomllib.loads(big.sweep.read_text())
    assert sweep["parameters"]["cpus"] == [1, 2, 4, 6]
    assert sweep["power"]["busy_w"] == 60  # above idle, which the cluster file has
    assert big.targets == ("wall_time_s", "energy_estimated_j")
    small = tomllib.loads(tiny.sweep.read_text())
    assert (small["parameters"]["cpus"], small["parameters"]["memory_mib"]) == ([1], [1, 2, 8])
    assert "power" not in small
    sizes = sweep["parameters"]["memory_mib"]
    assert sizes == [16, 64, 256, 1024]
    pairs = [(n, mib) for n in (2, 8, 32, 128, 512) for mib in sizes if n * mib <= 8192]
    assert big.n_runs == 3 * len(JOBS) * 4 * len(pairs)
    assert {mib for _, mib in pairs} == set(sizes)
    assert tomllib.loads(tiny.idle.read_text())["parameters"] == {"seconds": 30}
    with pytest.raises(StorageError):
        write_probes(TYPES, tmp_path / "probe")


def test_the_largest_data_can_be_chosen_as_far_as_a_node_has_room_for_it():
    big, tiny = read_cluster(TYPES).node_type
    found = probe_sweep(big, ProbeOptions(most_memory="16Gi"))
    assert found["parameters"]["memory_mib"] == [256, 1024, 4096, 16384]
    assert found["only"] == "iterations * memory_mib <= 32768"  # so that the largest is tried
    for text in ("17Gi", "much", "0"):
        with pytest.raises(UsageError, match=f"most_memory='?{text}'?: "):
            probe_sweep(big, ProbeOptions(most_memory=text))
    assert probe_sweep(tiny, ProbeOptions(most_memory="16Mi"))["parameters"]["memory_mib"][-1] == 16


def test_a_quick_sweep_takes_minutes_and_says_so(tmp_path):
    whole, _ = write_probes(TYPES, tmp_path / "whole")
    quick, _ = write_probes(TYPES, tmp_path / "quick", options=ProbeOptions(is_quick=True))
    assert quick.n_runs < whole.n_runs / 4
    assert quick.total_s < 300 < whole.total_s
    assert tomllib.loads(quick.sweep.read_text())["parameters"]["cpus"] == [1, 6]
    prepared = prepare_sweep(quick.sweep)
    assert len(prepared.runs) == quick.n_runs
    assert estimate_time(prepared).total_s == pytest.approx(quick.total_s)


def test_names_of_types_become_names_of_files(tmp_path):
    table = {"count": 1, "capacity": {"cpu": 2, "memory": "1Gi"}}
    path = tmp_path / "cluster.toml"
    path.write_text(tomli_w.dumps({"node_type": [{"name": "a b", **table}]}))
    folder = tmp_path / "probe"
    done = CliRunner().invoke(cli, ["cluster", "probe", str(path), "--quick", "-o", str(folder)])
    command = shlex.split(next(line for line in done.output.splitlines() if "a b.toml" in line))
    assert command == ["foretell", "measure", str(folder / "a b.toml"), "-o", "a b.csv"]
    with pytest.raises(UsageError, match="a/b: sweeps are files"):
        write_probes({"node_type": [{"name": "a/b", **table}]}, tmp_path / "other")


def test_governors_are_tried_where_asked_for():
    table = read_cluster(TYPES).node_type[0]
    sweep = probe_sweep(table, ProbeOptions(governors=["powersave", "performance"]))
    assert sweep["parameters"]["governor"] == ["powersave", "performance"]


BEFORE = ["powersave", "ondemand"] * 32  # so many that setting them takes a while
MEANWHILE = ["performance"] * len(BEFORE)


@pytest.fixture
def governors(tmp_path, monkeypatch):
    """Many CPUs with governors, as in sysfs."""
    for k, governor in enumerate(BEFORE):
        folder = tmp_path / "sys" / f"cpu{k:02}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_available_governors").write_text("powersave ondemand performance\n")
        (folder / "scaling_governor").write_text(f"{governor}\n")
    monkeypatch.setattr(probes, "_GOVERNORS", tmp_path / "sys")
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)  # tests go on after the probe

    def read():
        files = sorted((tmp_path / "sys").glob("cpu*/cpufreq/scaling_governor"))
        return [file.read_text().strip() for file in files]

    read.folder = tmp_path / "sys"
    return read


@pytest.mark.parametrize("error", [None, RunFailedError("it failed"), KeyboardInterrupt()])
def test_governors_are_those_of_before_however_a_probe_ends(governors, monkeypatch, error):
    seen = []

    def job(cpus, iterations, n_numbers):
        seen.extend(governors())
        if error is not None:
            raise error

    monkeypatch.setitem(JOBS, "spy", job)
    with nullcontext() if error is None else pytest.raises(type(error)):
        probes.probe("spy", 1, 1, 1, governor="performance")
    assert seen == MEANWHILE
    assert governors() == BEFORE


LONG = """
import time
from pathlib import Path
from foretell.measure import probes

def long(n=1):
    probes._GOVERNORS = Path({!r})
    probes.JOBS["long"] = lambda *_: time.sleep(3600)
    probes.probe("long", 1, 1, 1, governor="performance")
"""
LONG_SWEEP = {"workload": {"use": "python", "call": "jobs:long"}, "parameters": {"n": [1]}}


def reach(governors, wanted):
    deadline = time.monotonic() + 60
    while governors() != wanted and time.monotonic() < deadline:
        os.sched_yield()
    assert governors() == wanted


def test_governors_are_those_of_before_after_a_probe_is_killed(governors, launch):
    text = LONG.format(str(governors.folder)) + "long()"
    run = launch(sys.executable, "-c", text)
    assert run.reaches(lambda: governors() == MEANWHILE)
    assert run.kill()
    reach(governors, BEFORE)


@pytest.mark.parametrize("end", [RunnerProcess.stop, RunnerProcess.end_leftovers])
def test_governors_are_those_of_before_after_a_run_is_stopped(governors, tmp_path, end):
    """What ends all that a run has started does not end what sets the governors again."""
    (tmp_path / "jobs.py").write_text(LONG.format(str(governors.folder)))
    prepared = prepare_sweep(LONG_SWEEP, folder=tmp_path)
    runner = RunnerProcess(prepared.sweep, prepared.workload)
    try:
        runner.request({"configuration": {"n": 1}})
        assert runner.receive(time.monotonic() + 60)["event"] == "begin"
        runner.say_go()
        reach(governors, MEANWHILE)
        end(runner)
    finally:
        runner.close()
    reach(governors, BEFORE)


def test_governors_are_those_of_before_after_what_measures_is_killed(governors, tmp_path, launch):
    (tmp_path / "jobs.py").write_text(LONG.format(str(governors.folder)))
    (tmp_path / "sweep.toml").write_text(tomli_w.dumps(LONG_SWEEP))
    words = ("measure", "sweep.toml", "-o", "runs.csv", "-q")
    run = launch(sys.executable, "-m", "foretell", *words)
    assert run.reaches(lambda: governors() == MEANWHILE)
    assert run.kill()
    reach(governors, BEFORE)


def test_a_governor_that_cannot_be_read_fails_the_run(governors):
    file = governors.folder / "cpu01" / "cpufreq" / "scaling_governor"
    file.unlink()
    file.mkdir()
    with pytest.raises(RunFailedError, match="governor cannot be read: Is a directory"):
        probes.probe("copy", 1, 1, 1, governor="performance")


def test_a_governor_that_a_machine_does_not_offer_is_named_with_those_that_it_does(governors):
    with pytest.raises(RunFailedError, match="no governor turbo, but ondemand, performance, pow"):
        probes.probe("copy", 1, 1, 1, governor="turbo")
    assert governors() == BEFORE


def test_a_probe_becomes_two_models_that_place_tasks(tmp_path):
    """Measure a part of the sweep for real, fit time and energy, and place a task by them."""
    table = read_cluster(TYPES).node_type[0]
    sweep = probe_sweep(table)
    sweep["repeats"] = 1
    sweep["parameters"] |= {"cpus": [1], "memory_mib": [1, 2], "iterations": [2, 6]}
    foretell.measure_sweep(sweep, tmp_path / "runs.csv")
    runs = pd.read_csv(tmp_path / "runs.csv")
    assert (runs["status"] == "ok").all(), runs["reason"].tolist()
    assert set(runs["job"]) == set(JOBS)
    for target in ("wall_time_s", "energy_estimated_j"):
        campaign = {
            "data": {"target": target, "use_columns": ["job", "iterations", "memory_mib"]},
            "techniques": {"LRRidge": {"alpha": 0.1}},
            "search": {"splits": {"method": "KFold", "folds": 2}},
        }
        foretell.fit_model(campaign, tmp_path / "runs.csv", output=tmp_path / "models" / target)
    types = [
        {"name": "here", "count": 1, "capacity": {"cpu": 1, "memory": "1Gi"},
         "models": str(tmp_path / "models")}
    ]  # fmt: skip
    chosen = foretell.place_task({"node_type": types}, "job=copy,iterations=4,memory_mib=2").chosen
    assert chosen.estimate.time.value > 0
    assert chosen.estimate.energy.value > 0


def test_the_command_says_what_to_run_next(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text('[[node_type]]\nname = "a"\ncount = 1\ncapacity = { cpu = 2 }\n')
    shown = CliRunner().invoke(cli, ["cluster", "probe", str(path), "-o", str(tmp_path / "p")])
    assert shown.exit_code == 0, shown.output
    assert f"foretell measure {tmp_path / 'p' / 'a.toml'} -o a.csv" in shown.stdout
    assert "--target wall_time_s --target energy_j -o models/a" in shown.stdout
    assert re.search(r"a: \d+ runs, about \d+ min\.", shown.stdout)
    assert "--quick" in shown.stdout
    quick = ["cluster", "probe", str(path), "-o", str(tmp_path / "q"), "--quick"]
    assert "--quick" not in CliRunner().invoke(cli, quick).stdout
