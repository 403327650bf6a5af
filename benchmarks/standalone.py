"""How many pods per second the standalone scheduler binds, on a real API server.

    python -m benchmarks.standalone [--nodes 1000] [--types 20] [--pods 500]

All figures are *measured*: an API server and etcd on loopback, the scheduler as users start it,
and nodes that only fake kubelets stand behind. *Arriving*: a client makes pods as fast as it can,
with the scheduler, the servers and the kubelets (which set every pod running) on the same cores;
the clock runs from the first pod until the last one is bound. *Waiting*: all pods are there when
the scheduler starts, and the clock runs from when it is ready. kube-scheduler does the same, for
comparison. *Decisions* are those of the same scheduler for pods and nodes that no server sent.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.adapters.kubernetes.control_plane import ControlPlane, find_servers, wait_until
from tests.adapters.kubernetes.kubelets import Kubelets, pod

from foretell.adapters.kubernetes.state import open_state
from foretell.adapters.kubernetes.state_handler import StateHandler

#: What must hold: pods per second, end to end.
BAR = 50
DECISIONS_BAR = 1000
N_DECISIONS = 5000
PODS = "/api/v1/namespaces/default/pods"


def cluster_file(folder: Path, n_types: int) -> Path:
    """Write a cluster file whose types differ in time and energy."""
    types = [
        f'[[node_type]]\nname = "t{i}"\nselector = {{ kind = "t{i}" }}\n'
        f'capacity = {{ cpu = 16, memory = "64Gi" }}\n'
        f'time_s = "iterations / {i + 1}"\nenergy_j = "iterations * {1 + i % 7}"\n'
        for i in range(n_types)
    ]
    path = folder / "cluster.toml"
    path.write_text("\n".join(types))
    return path


@contextmanager
def standalone(path: Path, kubeconfig: Path) -> Iterator[None]:
    """Start the scheduler as users do, and wait until it may bind."""
    command = [sys.executable, "-m", "foretell", "cluster", "schedule", str(path), "--json",
               "--mode", "standalone", "--port", "0", "--kubeconfig", str(kubeconfig),
               "--lease-namespace", "default"]  # fmt: skip
    log = path.with_name("standalone.log")
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: "has the lease" in log.read_text(), log.read_text)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@contextmanager
def kube_scheduler(plane: ControlPlane) -> Iterator[None]:
    """Start kube-scheduler."""
    server = plane.scheduler({})
    try:
        yield
    finally:
        server.stop(signal.SIGKILL)


def make(plane: ControlPlane, scheduler: str, n_pods: int) -> None:
    """Make pods, over several connections."""
    api = plane.api()

    def one(i: int) -> None:
        annotations = {"foretell/iterations": 100 + i % 50}
        api.create(PODS, pod(f"p{i}", scheduler=scheduler, annotations=annotations))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(n_pods)))


def until_bound(plane: ControlPlane) -> float:
    """Wait until all pods are bound; return pods per second for those that are not yet."""
    api, unbound = plane.api(), f"{PODS}?fieldSelector=spec.nodeName="
    begin_s, n_left = time.perf_counter(), len(api.list(unbound))
    wait_until(lambda: not api.list(unbound), "all pods on nodes")
    return n_left / (time.perf_counter() - begin_s)


def clear(plane: ControlPlane) -> None:
    """Delete all pods."""
    plane.api().request("DELETE", PODS, {"gracePeriodSeconds": 0})
    wait_until(lambda: not plane.api().list(PODS), "no pods")


def figures(plane: ControlPlane, path: Path, n_pods: int) -> list[tuple[str, float, float]]:
    """Measure both schedulers, with pods that wait and pods that arrive."""
    found = []
    ways: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "foretell": lambda: standalone(path, plane.kubeconfig()),
        "default-scheduler": lambda: kube_scheduler(plane),
    }
    for name, run in ways.items():
        with run():
            begin_s = time.perf_counter()
            make(plane, name, n_pods)
            until_bound(plane)
            arriving = n_pods / (time.perf_counter() - begin_s)
        clear(plane)
        make(plane, name, n_pods)
        with run():
            waiting = until_bound(plane)
        clear(plane)
        found.append((name, waiting, arriving))
    return found


def decisions_per_s(path: Path, n_nodes: int, n_types: int) -> float:
    """Choose nodes for pods that are read from JSON already, and count each on its node."""
    state = open_state(path)
    has = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    nodes = [
        {"metadata": {"name": f"node-{i:05d}", "labels": {"kind": f"t{i % n_types}"}},
         "status": {"allocatable": has, "conditions": ready}}
        for i in range(n_nodes)
    ]  # fmt: skip
    pods = []
    for i in range(N_DECISIONS):
        item = pod(f"p{i}", scheduler="foretell", annotations={"foretell/iterations": 100 + i % 50})
        item["metadata"] |= {"uid": f"uid-{i}", "namespace": "default"}
        pods.append(item)
    StateHandler(state, "nodes").replace(nodes)
    StateHandler(state, "pods").replace(pods)
    begin_s = time.process_time()  # others may use the cores, too
    for record in state.pending("foretell"):
        node = state.choose(record)
        assert node is not None
        state.assume(record, node)
    return N_DECISIONS / (time.process_time() - begin_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--types", type=int, default=20)
    parser.add_argument("--pods", type=int, default=500)
    given = parser.parse_args()
    servers = find_servers()
    if servers is None:
        print("there is no Kubernetes control plane here; `make kubernetes` builds one")
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path = cluster_file(folder, given.types)
        plane = ControlPlane(servers, folder / "plane").start()
        try:
            with Kubelets(plane.api()) as kubelets:
                names = [f"node-{i:05d}" for i in range(given.nodes)]
                for i in range(given.types):
                    labels = {"kind": f"t{i}"}
                    kubelets.add_many(names[i :: given.types], labels, cpu=16, memory="64Gi")
                rows = figures(plane, path, given.pods)
        finally:
            plane.close()
        decisions = decisions_per_s(path, given.nodes, given.types)
    print(f"{given.pods} pods, {given.nodes} nodes of {given.types} types, "
          f"{os.cpu_count()} cores (measured; pods/s, end to end)")  # fmt: skip
    print(f"{'':20}{'waiting':>10}{'arriving':>10}")
    for name, waiting, arriving in rows:
        bar = f"   bar: {BAR}" if name == "foretell" else ""
        print(f"{name:20}{waiting:10.0f}{arriving:10.0f}{bar}")
    print(f"{decisions:.0f} decisions per second of CPU (measured)   bar: {DECISIONS_BAR}")


if __name__ == "__main__":
    main()
