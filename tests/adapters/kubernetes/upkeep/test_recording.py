"""Completed pods of a real API server are stored, each once, with what was predicted."""

import contextlib
import math
import shutil
import time

import pytest

from foretell.adapters.kubernetes.live import Connection, Live
from foretell.adapters.kubernetes.upkeep import maintaining
from foretell.adapters.kubernetes.upkeep.maintaining import Maintaining
from foretell.adapters.kubernetes.upkeep.recording import run_span
from foretell.adapters.kubernetes.upkeep.upkeep import Upkeep
from foretell.cluster.maintenance.maintain import open_completed
from foretell.decide.placement.cluster import read_cluster

from ..control_plane import wait_until
from ..kubelets import SECONDS, pod

PODS = "/api/v1/namespaces/default/pods"
CLUSTER = """
[maintenance]
records = "records"

[[node_type]]
name = "a"
selector = { type = "a" }
capacity = { cpu = 4 }
time_s = "work"
power = { k0 = 2, k1 = 1, k2 = 0.03 }
columns = { governor = "powersave" }
"""


@pytest.fixture
def cluster_file(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    return path


@contextlib.contextmanager
def upkeep(control_plane, cluster_file, **options):
    with Live(cluster_file, Connection(control_plane.kubeconfig())) as live:
        live.start()
        with Upkeep(live, **options) as found:
            yield found


def stored(cluster_file):
    with open_completed(read_cluster(cluster_file)) as store:
        return {task.node + "/" + str(task.columns["work"]): task for task in store.read(0, 4e9)}


def job(name, work, annotations=None, **more):
    known = {"foretell/work": work, SECONDS: 2, **(annotations or {})}
    return pod(name, annotations=known, nodeName="n1", cpu=2, **more)


def test_pods_that_succeed_are_stored_with_predicted_and_actual_figures(
    control_plane, kubelets, cluster_file
):
    api = control_plane.api()
    kubelets.add("n1", {"type": "a"}, cpu=16)
    api.create(PODS, job("before", 11))
    wait_until(lambda: kubelets.finished, "one ends before we look")
    with upkeep(control_plane, cluster_file):
        api.create(PODS, job("plain", 12, {"foretell/class": "batch"}))
        api.create(PODS, job("measured", 13, {"foretell/energy-j": "500"}))
        api.create(PODS, job("unknown", "many"))
        part = '{"n": 1, "share": 0.4, "left": {}}'
        api.create(PODS, job("resumed", 15, {"foretell/moves": part}))
        whole = '{"n": 1, "share": 1, "left": {}}'
        api.create(PODS, job("restarted", 16, {"foretell/moves": whole}))
        wait_until(lambda: len(kubelets.finished) == 6, "all end")
        wait_until(lambda: len(stored(cluster_file)) == 4, lambda: stored(cluster_file))
    found = stored(cluster_file)
    assert sorted(found) == ["n1/11", "n1/12", "n1/13", "n1/16"]
    plain = found["n1/12"]
    assert (plain.type, plain.class_name, plain.predicted_time_s) == ("a", "batch", 12)
    assert plain.columns["governor"] == "powersave"
    took_s = next(s for _, name, _, s in kubelets.finished if name == "default/plain")
    assert abs(plain.time_s - took_s) <= 1  # Kubernetes tells whole seconds
    # 2 of the 16 CPUs of this node, by the curve of its type.
    assert plain.energy_j == pytest.approx(plain.time_s * (math.exp(0.03 * 12.5) - 1))
    assert plain.energy_source == "modelled"
    assert (found["n1/13"].energy_j, found["n1/13"].energy_source) == (500, "measured")
    journals = sorted((cluster_file.parent / "records/completed").iterdir())
    content = [path.read_bytes() for path in journals]
    with upkeep(control_plane, cluster_file) as again:  # a restart sees the same pods again
        api.create(PODS, job("after", 17))
        wait_until(lambda: again.recorder.n_stored, "one more")
    assert again.recorder.n_stored == 1
    assert content[0] in journals[0].read_bytes()


def test_a_dry_run_stores_nothing(control_plane, kubelets, cluster_file):
    with upkeep(control_plane, cluster_file, is_dry=True) as found:
        assert found.recorder is None
    assert not (cluster_file.parent / "records").exists()


def status(start, end, restarts=0):
    ended = {"startedAt": start, "finishedAt": end}
    return {"restartCount": restarts, "state": {"terminated": ended}}


T = "2026-01-01T00:00:{:02d}Z".format


@pytest.mark.parametrize(
    ("statuses", "seconds"),
    [
        ([status(T(5), T(20))], 15),
        ([status(T(5), T(20)), status(T(2), T(9))], 18),
        ([status(T(5), T(20), restarts=1)], None),
        ([status(T(5), T(5))], None),
        ([status(T(5), None)], None),
        ([status("soon", T(5))], None),
        ([{"state": {"running": {}}}], None),
        ([], None),
    ],
)
def test_the_time_of_a_pod_is_that_of_its_containers(statuses, seconds):
    found = run_span({"status": {"containerStatuses": statuses}})
    assert (None if found is None else found[1] - found[0]) == seconds


def test_maintenance_is_due_after_the_hours_of_the_file(cluster_file):
    keeper = Maintaining(read_cluster(cluster_file), cluster_file)
    now = time.time()
    assert not keeper.is_due(now + 23 * 3600)
    assert keeper.is_due(now + 25 * 3600)


def test_maintenance_runs_in_a_process_of_its_own(cluster_file, caplog):
    keeper = Maintaining(read_cluster(cluster_file), cluster_file)
    assert keeper.maintain() == 2
    assert "no node type has models" in caplog.text


def test_while_it_runs_maintenance_is_looked_after(cluster_file, monkeypatch):
    text = cluster_file.read_text().replace("[maintenance]", "[maintenance]\nevery_h = 1e-9")
    cluster_file.write_text(text)
    monkeypatch.setattr(maintaining, "_CHECK_S", 0.01)
    ran = []
    with Maintaining(read_cluster(cluster_file), cluster_file) as keeper:
        monkeypatch.setattr(keeper, "maintain", lambda: ran.append(1))
        keeper.start()
        wait_until(lambda: ran, "a round")
    shutil.rmtree(cluster_file.parent / "records", ignore_errors=True)
