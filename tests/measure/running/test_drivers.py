"""Training on a real Ray cluster of two nodes: on both of them, and again if one is lost."""

import csv
import json
import sys
import textwrap

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

#: Ray and Torch start slowly where cores are few and busy; it only keeps a failure from hanging.
PATIENCE_S = 900

SWEEP = """
order = "written"
meters = ["memory"]
workload = { use = "ray_train", launcher = "actors", train_function = "own_training:train" }
parameters = { workers = [1, 2] }
"""

#: The first training of two workers waits until one of them is lost.
OWN = """
    import time
    from pathlib import Path

    import torch
    from ray import get_runtime_context
    from torch import distributed

    here = Path(__file__).parent

    def train(configuration, timer):
        n = distributed.get_world_size()
        if n == 2 and not (here / "lost").exists():
            (here / f"trains-{distributed.get_rank()}").touch()
            while True:  # until it is ended
                time.sleep(1)
        nodes = [None] * n
        with timer.stage("exchange"):
            distributed.all_gather_object(nodes, get_runtime_context().get_node_id())
        return {"n_nodes": len(set(nodes))}
"""


def rows_of(table):
    with table.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_training_uses_both_nodes_and_is_made_again_when_one_is_lost(
    ray_cluster, foretell, tmp_path
):
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "own_training.py").write_text(textwrap.dedent(OWN))
    command = ("measure", "sweep.toml", "-o", "runs.csv", "--on", ray_cluster.address, "-q")
    run = foretell(*command)
    trains = [tmp_path / "trains-0", tmp_path / "trains-1"]
    assert run.reaches(lambda: all(path.exists() for path in trains), PATIENCE_S), run.text
    (tmp_path / "lost").touch()
    ray_cluster.second.kill()
    ray_cluster.complete()
    assert run.wait(PATIENCE_S) == 0, run.text

    rows = rows_of(tmp_path / "runs.csv")
    assert [(r["workers"], r["status"], r["n_lost"], r["n_nodes"]) for r in rows] == [
        ("1", "ok", "0", "1"),
        ("2", "ok", "1", "2"),
    ]
    assert all(float(r["exchange_s"]) <= float(r["training_loop_s"]) for r in rows)
    # What the driver of the training uses is not what the training uses.
    assert "peak_memory_bytes" not in rows[0]
    about = json.loads((tmp_path / "runs.json").read_text())
    assert "memory" in about["meters_missing"]
    assert "run 2 was lost: " in (tmp_path / "runs.log").read_text()


@pytest.mark.slow
def test_more_than_the_cluster_has_is_refused_before_anything_runs(ray_cluster, foretell, tmp_path):
    asked = {
        "workers = [1, 3]": "the Ray cluster has no room for 3 workers with 1 CPU each. It has",
        "workers = 1, cpus_per_worker = 2": "no node of the Ray cluster has 2 CPUs. It has",
    }
    runs = {}
    for i, (parameters, complaint) in enumerate(asked.items()):
        text = f'workload = {{ use = "ray_train" }}\nparameters = {{ {parameters} }}'
        (tmp_path / f"{i}.toml").write_text(text)
        words = ("measure", f"{i}.toml", "-o", f"{i}.csv", "--on", ray_cluster.address)
        runs[complaint] = foretell(*words)
    for complaint, run in runs.items():
        assert run.wait(PATIENCE_S) == 2
        assert f"error: {complaint}" in run.text
    assert not list(tmp_path.glob("*.csv"))
