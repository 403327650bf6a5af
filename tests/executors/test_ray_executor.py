"""Campaigns on a real Ray cluster of two nodes: the same bytes, whatever happens to a node."""

import json
import socket
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest

from foretell.errors import UsageError
from foretell.executors import open_executor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

#: Ray is slow to start where cores are few and busy.
PATIENCE_S = 170

CAMPAIGN = """
runs = 2

[data]
path = "runs.csv"
target = "time_s"

[search]
method = "tpe"
evaluations = 8
splits = { method = "KFold", folds = 3 }

[validation]
method = "HoldOut"
ratio = 0.2

[techniques.LRRidge]
alpha = "loguniform(0.001,10)"

[techniques.RandomForest]
n_estimators = 200  # so that a trial takes long enough to be caught
max_depth = "uniformint(2,8)"
"""


@pytest.fixture
def directory(tmp_path):
    """A directory with a campaign and its table."""
    random = np.random.default_rng(0)
    nodes, size = random.integers(1, 17, 60), random.choice([10, 20, 40, 80], 60)
    time_s = 8 + 30 * size / nodes + random.uniform(0, 1, 60)
    table = pd.DataFrame({"nodes": nodes, "size_mb": size, "time_s": time_s})
    table.to_csv(tmp_path / "runs.csv", index=False)
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    return tmp_path


def contents(directory):
    """Return all that must not depend on where and how a campaign ran."""
    results = json.loads((directory / "results.json").read_text())
    del results["times"]
    models = {path.name: path.read_bytes() for path in directory.glob("*.foretell")}
    assert models
    return {"results": results, **models}


def n_journaled(directory):
    journal = directory / "journal"
    return len(journal.read_bytes().splitlines()) if journal.exists() else 0


@pytest.mark.slow
def test_campaign_is_the_same_on_a_cluster_that_loses_a_node_as_in_one_process(
    ray_cluster, foretell, directory
):
    alone = foretell("fit", "campaign.toml", "-o", "alone", "-j", 1, "-q")
    on_ray = foretell(
        "fit", "campaign.toml", "-o", "cluster", "--on", ray_cluster.address, "--json", "-q"
    )
    second = ray_cluster.second
    assert on_ray.reaches(
        lambda: n_journaled(directory / "cluster") > 3 and second.is_caught_running("ray::_run")
    ), on_ray.text
    n_before = n_journaled(directory / "cluster")
    second.kill()
    assert on_ray.wait(PATIENCE_S) == 0, on_ray.text
    assert alone.wait(PATIENCE_S) == 0, alone.text
    assert n_before < n_journaled(directory / "cluster") == n_journaled(directory / "alone")
    assert contents(directory / "cluster") == contents(directory / "alone")
    assert "WARNING a worker was lost: " in (directory / "cluster" / "log.txt").read_text()
    assert json.loads(on_ray.text)  # Ray's own remarks do not stand in it


@pytest.mark.slow
def test_automatic_mode_is_the_same_on_a_cluster_as_in_one_process(
    ray_cluster, foretell, directory
):
    fit = ("fit", "runs.csv", "--target", "time_s", "-q")
    alone = foretell(*fit, "-o", "alone", "-j", 1)
    on_ray = foretell(*fit, "-o", "cluster", "--on", ray_cluster.address)
    assert on_ray.wait(PATIENCE_S) == 0, on_ray.text
    assert alone.wait(PATIENCE_S) == 0, alone.text
    assert contents(directory / "cluster") == contents(directory / "alone")


WORK = """
    import json, os, sys
    import numpy as np
    from foretell.executors import WorkerDied, open_executor, single_threaded

    class State:
        n_copies = 0
        def __init__(self):
            self.array = np.zeros(3)
        def __setstate__(self, values):
            self.__dict__.update(values)
            State.n_copies += 1

    def work(state, task):
        if task == "die":
            os._exit(3)
        if task == "raise":
            raise ZeroDivisionError("by zero")
        if task == "threads":
            import scipy.linalg
            from threadpoolctl import threadpool_info
            return sorted({library["num_threads"] for library in threadpool_info()})
        state.array[0] += 1  # it is the worker's own copy, and may be written
        return [os.getpid(), state.array[0]]

    found = []
    with open_executor(State(), None, sys.argv[1]) as executor:
        waiting = ["die", "raise", "threads", *range(20)]
        while waiting or executor.n_pending:
            while waiting and executor.has_room:
                executor.submit(work, waiting.pop(0))
            done = executor.wait()
            result = done.result
            if isinstance(result, Exception):
                result = f"{type(result).__name__}: {result}"
            found.append((done.task, result, done.n_lost))
        print(json.dumps({"n_workers": executor.n_workers, "found": found}))
"""


@pytest.mark.slow
def test_only_the_task_that_kills_every_worker_fails(ray_cluster, launch):
    run = launch(sys.executable, "-c", textwrap.dedent(WORK), ray_cluster.address)
    assert run.wait(PATIENCE_S) == 0, run.text
    (answer,) = (json.loads(line) for line in run.text.splitlines() if line.startswith("{"))
    assert answer["n_workers"] == 2  # the CPUs of both nodes
    found = {str(task): result for task, result, _ in answer["found"]}
    assert {str(task): n for task, _, n in answer["found"] if n} == {"die": 5}
    assert len(answer["found"]) == len(found) == 23
    assert found.pop("die").startswith("WorkerDied: ")
    assert found.pop("raise") == "ZeroDivisionError: by zero"
    assert found.pop("threads") == [1]
    uses = {}
    for pid, n_uses in found.values():
        uses.setdefault(pid, []).append(n_uses)
    for counts in uses.values():  # the state came once to each worker, and stayed there
        assert sorted(counts) == list(range(1, len(counts) + 1))


@pytest.mark.slow
def test_cluster_that_cannot_be_used_is_an_error_and_never_a_hang(
    ray_cluster, foretell, directory, monkeypatch
):
    def fit(output, on):
        return foretell("fit", "campaign.toml", "-o", output, "--on", on)

    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        runs = {
            "no Ray cluster can be reached there": fit("a", f"127.0.0.1:{closed.getsockname()[1]}"),
            "not a Ray cluster": fit("b", f"127.0.0.1:{silent.getsockname()[1]}"),
            "an address such as": fit("c", "somewhere"),
            "run this on a node": fit("f", f"ray://{ray_cluster.address}"),
        }
        monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
        runs["does not accept our token"] = fit("d", ray_cluster.address)
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{closed.getsockname()[1]}")
        runs["error: RAY_ADDRESS=127.0.0.1:"] = fit("e", "ray")
        for complaint, run in runs.items():
            assert run.wait(PATIENCE_S) == 2
            assert complaint in run.text
            assert "Traceback" not in run.text


def test_without_ray_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    with pytest.raises(UsageError, match=r"on='ray': needs Ray: pip install 'foretell\[ray\]'"):
        open_executor(None, 2, on="ray")
