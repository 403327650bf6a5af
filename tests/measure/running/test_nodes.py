"""Sweeps on a real Ray cluster of two nodes: no run is lost with a node, and none made twice."""

import csv
import json
import re
import sys

import pytest

from foretell.errors import UsageError
from foretell.machines import Needs, Resources
from foretell.measure.measure import prepare_sweep
from foretell.measure.sweep import read_sweep

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

PATIENCE_S = 170

SWEEP = """
repeats = 2
at_once = 2
meters = ["memory"]
workload = { use = "command", run = "sleep {seconds}" }
parameters = { seconds = [0.5, 0.6, 0.7, 0.8] }
"""


def rows_of(table):
    with table.open() as file:
        return list(csv.DictReader(file))


def n_journaled(table):
    journal = table.with_suffix(".journal")
    return len(re.findall(r'"kind": ?"run"', journal.read_text())) if journal.exists() else 0


@pytest.mark.slow
def test_no_run_is_lost_with_its_node_nor_with_the_command(ray_cluster, foretell, tmp_path):
    (tmp_path / "sweep.toml").write_text(SWEEP)
    table = tmp_path / "runs.csv"
    command = ("measure", "sweep.toml", "-o", "runs.csv", "--on", ray_cluster.address, "-q")

    first = foretell(*command)
    assert first.reaches(lambda: n_journaled(table) >= 2), first.text
    assert first.kill()
    n_finished = n_journaled(table)
    kept = table.with_suffix(".journal").read_bytes()

    second = foretell(*command)
    node = ray_cluster.second
    assert second.reaches(
        lambda: n_journaled(table) > n_finished and node.is_caught_running("ray::_run")
    ), second.text
    node.kill()
    assert second.wait(PATIENCE_S) == 0, second.text
    assert table.with_suffix(".journal").read_bytes().startswith(kept)
    assert 2 <= n_finished < 8

    rows = rows_of(table)
    asked = [(seconds, repeat) for seconds in ("0.5", "0.6", "0.7", "0.8") for repeat in "12"]
    assert sorted((row["seconds"], row["repeat"]) for row in rows) == asked
    assert {row["status"] for row in rows} == {"ok"}
    assert [row["n_lost"] for row in rows].count("1") == 1
    assert "was lost: " in table.with_suffix(".log").read_text()
    about = json.loads(table.with_suffix(".json").read_text())
    assert {row["node"] for row in rows} == set(about["nodes"])
    assert "127.0.0.2" in about["nodes"]
    assert about["columns"]["node"] == about["columns"]["n_lost"] == "remark"
    assert all(node["machine"]["memory_bytes"] > 0 for node in about["nodes"].values())


@pytest.mark.slow
def test_more_cpus_than_any_node_has_are_refused_before_anything_runs(
    ray_cluster, foretell, tmp_path
):
    sweep = """
        order = "written"
        workload = { use = "command", run = "touch made-{threads}" }
        needs = { cpus = "2 * threads" }
        parameters = { threads = [0.5, 1, 4] }
    """
    (tmp_path / "sweep.toml").write_text(sweep)
    run = foretell("measure", "sweep.toml", "-o", "runs.csv", "--on", ray_cluster.address)
    assert run.wait(PATIENCE_S) == 2
    assert "error: no node of the Ray cluster has 2 CPUs. It has" in run.text
    assert "127.0.0.2 with 1 CPU and " in run.text
    assert not list(tmp_path.glob("made-*"))


# What runs ask for


def sweep_with(needs):
    return {
        "workload": {"use": "command", "run": "true {threads}"},
        "parameters": {"threads": [1, 4]},
        "needs": needs,
    }


def test_needs_are_numbers_or_expressions_of_parameters():
    needs = read_sweep(sweep_with({"cpus": "threads", "memory_mib": "64 * threads"})).needs
    asked = needs.of({"threads": 4})
    assert asked == Needs(Resources(cpus=4, memory_bytes=256 * 2**20))


def test_needs_do_not_tell_one_sweep_from_another():
    sweeps = [read_sweep(sweep_with(needs)) for needs in ({"cpus": 1}, {"cpus": "threads"})]
    assert sweeps[0].fingerprint() == sweeps[1].fingerprint()


def test_needs_of_an_unknown_parameter_are_refused_when_the_sweep_is_planned():
    with pytest.raises(UsageError, match=r"needs\.cpus.*thread.*Did you mean 'threads'"):
        prepare_sweep(sweep_with({"cpus": "thread"}))


def test_needs_below_zero_are_refused():
    needs = read_sweep(sweep_with({"cpus": "threads - 8"})).needs
    with pytest.raises(UsageError, match=r"needs\.cpus: must be a non-negative number, not -4"):
        needs.of({"threads": 4})
