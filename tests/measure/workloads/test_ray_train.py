"""Distributed training on Ray: what is refused before it starts, and real runs on this machine."""

import json
import subprocess
import sys
import textwrap

import psutil
import pytest

from foretell.errors import UsageError
from foretell.machines import Needs, Resources
from foretell.measure.measure import prepare_sweep
from foretell.measure.running.supervisor import Supervisor
from foretell.measure.sweep import read_sweep
from foretell.measure.workloads import Watch
from foretell.measure.workloads._training import WorkerReport, make_network
from foretell.measure.workloads.ray_train import _add_stages, _details

pytest.importorskip("ray")
torch = pytest.importorskip("torch")

IN_THE_LOOP = ("data_loading", "training_loop", "train_epoch", "validate_epoch", "all_reduce")

OWN = """
import torch
from torch import distributed


def train(configuration, timer):
    if distributed.get_rank() == 1 and configuration["fails"]:
        raise ValueError("no data for me\\nand none for you")
    total = torch.full((3,), float(configuration["size"]))
    for _ in range(2):
        with timer.stage("step"):
            distributed.all_reduce(total)
    return {"total": float(total.sum()), "rank": distributed.get_rank()}
"""


def sweep(parameters, **options):
    """A sweep of one configuration, with a limit so that nothing hangs."""
    source = {
        "workload": {"use": "ray_train", **options},
        "parameters": {"workers": 1, **parameters},
        "meters": [],
        "time_limit_s": 150,
    }
    return read_sweep(source)


@pytest.fixture
def supervised(tmp_path):
    """Makes a supervisor for a sweep, and ends it."""
    opened = []

    def make(parameters, **options):
        found = sweep(parameters, **options)
        opened.append(Supervisor(found, found.make_workload(tmp_path), []))
        return opened[-1]

    yield make
    for supervisor in opened:
        supervisor.close()


@pytest.mark.slow
def test_trainer_reports_every_stage_and_more_cpus_than_there_are_fail_at_once(supervised):
    supervisor = supervised({}, cpus=2)
    configuration = {"num_images": 300, "epochs": 2, "workers": 2, "num_cpus": 2}
    measured = supervisor.measure(configuration)
    assert measured.status == "ok", measured
    values = measured.values
    for stage in IN_THE_LOOP:
        assert 0 < values[f"{stage}_s"] <= values[f"{stage}_max_s"] < values["fit_s"]
    assert 0 < values["startup_s"] < values["fit_s"] < values["train_s"]
    # A stage holds those inside it: two epochs in the loop, on each worker.
    assert 2 * (values["train_epoch_s"] + values["validate_epoch_s"]) < values["training_loop_s"]
    details = json.loads(values["stages"])
    assert [len(times) for times in details["train_epoch"]] == [2, 2]
    assert [len(times) for times in details["training_loop"]] == [1, 1]

    measured = supervisor.measure({"workers": 2, "cpus_per_worker": 3})
    assert measured.status == "failed"
    assert "no room for 2 workers with 3 CPUs each. It has " in measured.reason
    assert "with 2 CPUs" in measured.reason


@pytest.mark.slow
def test_actors_stay_for_the_next_run_train_the_same_and_leave_nothing_behind(supervised):
    supervisor = supervised({}, launcher="actors", cpus=2)
    configuration = {"num_images": 1200, "epochs": 2, "learning_rate": 0.05}
    first, second, alone = (supervisor.measure({**configuration, "workers": n}) for n in (2, 2, 1))
    assert [m.status for m in (first, second, alone)] == ["ok"] * 3, (first, second, alone)
    for stage in IN_THE_LOOP:
        assert second.values[f"{stage}_s"] > 0
    # Seeds are fixed, and the networks do learn: ten digits are guessed right one time in ten.
    assert second.values["loss"] == first.values["loss"]
    assert alone.values["accuracy"] > 0.5

    assert supervisor._runner is not None
    family = psutil.Process(supervisor._runner.pid).children(recursive=True)
    assert len([p for p in family if "_Member" in p.name() or "raylet" in p.name()]) >= 3
    supervisor.close()
    assert psutil.wait_procs(family, timeout=20)[1] == []


@pytest.mark.slow
def test_own_function_is_timed_and_an_error_on_one_rank_ends_the_run(supervised, tmp_path):
    (tmp_path / "own_training.py").write_text(OWN)
    supervisor = supervised(
        {"fails": False, "size": 4}, cpus=2, train_function="own_training:train"
    )
    measured = supervisor.measure({"workers": 2, "fails": False, "size": 4})
    assert measured.status == "ok", measured
    assert measured.values["total"] == 3 * 4 * 2 * 2  # summed over two workers, twice
    assert measured.values["rank"] == 0
    assert 0 < measured.values["step_s"] < measured.values["training_loop_s"]

    # The other worker waits in an all-reduce that never comes.
    measured = supervisor.measure({"workers": 2, "fails": True, "size": 4})
    assert (measured.status, measured.reason) == ("failed", "worker 1: ValueError: no data for me")


def test_stages_are_means_over_workers_and_epochs_and_the_slowest_worker():
    reports = [
        WorkerReport(0.0, {"train_epoch": [1.0, 3.0], "training_loop": [5.0]}, {}),
        WorkerReport(0.0, {"train_epoch": [2.0, 4.0], "training_loop": [6.0]}, {}),
    ]
    watch = Watch()
    _add_stages(reports, watch)
    assert watch.stages_s == {
        "train_epoch": 2.5,
        "train_epoch_max": 3.0,
        "training_loop": 5.5,
        "training_loop_max": 6.0,
    }
    assert json.loads(_details(reports))["train_epoch"] == [[1.0, 3.0], [2.0, 4.0]]


@pytest.mark.parametrize(("model", "n_parameters"), [("small", 405_466), ("large", 2_907_466)])
def test_networks_have_about_400_thousand_and_3_million_parameters(model, n_parameters):
    network = make_network(model)
    assert sum(p.numel() for p in network.parameters()) == n_parameters
    assert network(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_number_of_cpus_and_launcher_are_parameters_of_the_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planned = prepare_sweep(
        {
            "workload": {"use": "ray_train", "launcher": "actors"},
            "parameters": {"workers": [1, 2], "cpus_per_worker": 3},
            "order": "written",
        }
    )
    assert [run.configuration for run in planned.runs] == [
        {"workers": n, "cpus_per_worker": 3, "num_cpus": 3 * n, "launcher": "actors"}
        for n in (1, 2)
    ]


def test_a_run_needs_the_cpus_and_gpus_of_all_workers(tmp_path):
    workload = sweep({}).make_workload(tmp_path)
    configuration = {"workers": 3, "cpus_per_worker": 2, "gpus_per_worker": 1}
    assert workload.needs(configuration) == Needs(Resources(cpus=2, gpus=1), n_parts=3)


REFUSED = {
    "parameters.batchsize: .* Did you mean 'batch_size'": ({"batchsize": 64}, {}),
    "parameters.num_cpus: ray_train writes this column": ({"num_cpus": 4}, {}),
    "parameters.workers: must be at least 1, not 0": ({"workers": 0}, {}),
    "parameters.epochs: must be a whole number, not 1.5": ({"epochs": 1.5}, {}),
    "parameters.model: must be 'small' or 'large', not 'huge'": ({"model": "huge"}, {}),
    "parameters.learning_rate: must be more than 0": ({"learning_rate": 0}, {}),
    "workload.launcher: must be 'trainer' or 'actors'": ({}, {"launcher": "threads"}),
    "workload.images: there is no folder": ({}, {"images": "mnist"}),
    "workload.train_function: must be module:function": ({}, {"train_function": "train"}),
    "workload.train_function: no_such_module cannot be imported": (
        {},
        {"train_function": "no_such_module:train"},
    ),
    "workload.train_function: math:pi is not a function": ({}, {"train_function": "math:pi"}),
    "a cluster with an address has its own": ({}, {"address": "auto", "cpus": 2}),
}


@pytest.mark.parametrize("complaint", REFUSED)
def test_sweep_that_cannot_run_is_refused_before_ray_starts(complaint, tmp_path, monkeypatch):
    parameters, options = REFUSED[complaint]
    monkeypatch.chdir(tmp_path)
    source = {
        "workload": {"use": "ray_train", **options},
        "parameters": {"workers": 1, **parameters},
    }
    with pytest.raises(UsageError, match=complaint):
        prepare_sweep(source)


def test_missing_ray_is_answered_with_the_extra_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"needs ray; run: pip install 'foretell\[ray\]'"):
        sweep({}).make_workload(tmp_path)


def test_address_where_nobody_listens_fails_at_once(supervised):
    measured = supervised({}, address="127.0.0.1:1").measure({"workers": 1})
    assert measured.status == "failed"
    assert measured.reason.startswith("127.0.0.1:1: no Ray cluster can be reached there")


def test_a_cluster_of_its_own_cannot_be_reached_from_other_machines():
    """In a process of its own: importing Ray changes the environment."""
    code = """
        import pathlib, psutil
        from foretell.measure.sweep import read_sweep
        options = {"use": "ray_train", "cpus": 1, "object_store_mib": 80}
        sweep = read_sweep({"workload": options, "parameters": {"workers": 1}})
        sweep.make_workload(pathlib.Path())._connect()
        for process in psutil.Process().children(recursive=True):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    print(connection.laddr.ip.removeprefix("::ffff:"))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300
    )
    assert set(run.stdout.splitlines()) == {"127.0.0.1"}, run.stderr
