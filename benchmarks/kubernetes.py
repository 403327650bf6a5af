"""How fast the extender answers kube-scheduler, on a real API server with fake nodes.

    python -m benchmarks.kubernetes [--nodes 1000] [--types 20] [--requests 2000]

All figures are *measured*: an API server and etcd on loopback, the extender as users start it, and
nodes that only fake kubelets stand behind. A latency is what a client on one open connection sees,
from the first byte sent to the last received; each request asks about all nodes by name. *Known
tasks* are those of 50 pods that wait, asked about again and again. *Arrivals* are pods that were
created in a burst just before, each with other features; the extender predicts them in the
background. *Strangers* are pods that the API server does not have, so nothing is remembered of
them: each is predicted on every type, by two linear models of its own, so 40 for 20 types. CPU time
is that of the extender per request, which tells what it costs on a machine that others use, too. At
the end the real kube-scheduler places pods: with the extender, and without it for comparison.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from tests.adapters.kubernetes.control_plane import ControlPlane, find_servers, wait_until
from tests.adapters.kubernetes.kubelets import Kubelets, pod

import foretell

PODS = "/api/v1/namespaces/default/pods"
N_KNOWN = 50
N_PODS = 300
#: What must hold: the median and the 99th percentile in milliseconds.
BARS = (3.0, 20.0)
CAMPAIGN = {
    "techniques": {"LRRidge": {"alpha": 1e-6}},
    "search": {"splits": {"method": "KFold", "folds": 3}},
    "validation": {"method": "KFold", "folds": 3},
}


@dataclass(frozen=True)
class Latency:
    """Milliseconds per request, and the CPU time of the extender for one."""

    p50: float
    p99: float
    most: float
    cpu_ms: float

    def __str__(self) -> str:
        return f"{self.p50:8.2f} {self.p99:8.2f} {self.most:8.2f} {self.cpu_ms:8.2f}"


def cluster_file(folder: Path, n_types: int) -> Path:
    """Write a cluster file whose types have two fitted models each, all of them different."""
    random = np.random.default_rng(0)
    iterations = np.repeat(np.arange(100, 10_001, 300), 2)
    types = []
    for i in range(n_types):
        for target, rate in (("time_s", 0.05), ("energy_j", 0.5)):
            took = iterations * rate * (1 + i / n_types) * random.normal(1, 0.02, len(iterations))
            runs = pd.DataFrame({"iterations": iterations, target: took})
            campaign = {**CAMPAIGN, "data": {"target": target}}
            foretell.fit_model(campaign, runs, output=folder / f"models-{i}" / target)
        types.append(
            f'[[node_type]]\nname = "t{i}"\nselector = {{ kind = "t{i}" }}\n'
            f'capacity = {{ cpu = 16, memory = "64Gi" }}\nmodels = "models-{i}"\n'
        )
    path = folder / "cluster.toml"
    path.write_text("\n".join(types))
    return path


@contextmanager
def extender(path: Path, kubeconfig: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Start the extender as users do."""
    command = [sys.executable, "-m", "foretell", "cluster", "schedule", str(path), "--json",
               "--port", "0", "--kubeconfig", str(kubeconfig)]  # fmt: skip
    log = path.with_name("extender.log")
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: '"url"' in log.read_text(), log.read_text)
        url = json.loads(log.read_text().splitlines()[0])["url"]
        yield url, psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def described(name: str, iterations: float) -> dict[str, Any]:
    """Return a pod that the API server does not have, as kube-scheduler sends it."""
    found: dict[str, Any] = pod(name, annotations={"foretell/iterations": iterations})
    found["metadata"] |= {"namespace": "default", "uid": name}
    return found


def created(plane: ControlPlane, name: str, iterations: list[float]) -> list[dict[str, Any]]:
    """Create pods that wait, and return them as kube-scheduler sends them."""
    api = plane.api()
    return [
        api.create(PODS, pod(f"{name}-{i}", annotations={"foretell/iterations": value}))
        for i, value in enumerate(iterations)
    ]


def delete_pods(plane: ControlPlane) -> None:
    """Delete all pods, and wait until they are gone."""
    api = plane.api()
    api.request("DELETE", PODS, {"gracePeriodSeconds": 0})
    wait_until(lambda: not api.list("/api/v1/pods"), "no pods")


def latency(url: str, process: psutil.Process, bodies: list[bytes]) -> Latency:
    """Send requests one after the other, as kube-scheduler does."""
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host)
    took = []
    before = process.cpu_times()
    for body in bodies:
        start = time.perf_counter()
        connection.request("POST", "/prioritize", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        took.append(1000 * (time.perf_counter() - start))
        assert answer.status == 200, content
    after = process.cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    p50, p99 = np.percentile(took, [50, 99])
    return Latency(float(p50), float(p99), max(took), 1000 * cpu_s / len(bodies))


def pods_per_s(
    plane: ControlPlane, configuration: dict[str, Any], iterations: Callable[[int], float]
) -> float:
    """Create pods, start kube-scheduler, and return how many it binds per second."""
    api = plane.api()
    for i in range(N_PODS):
        annotations = {"foretell/iterations": iterations(i)}
        api.create(PODS, pod(f"p{i}", annotations=annotations))
    server = plane.scheduler(configuration)
    start = time.perf_counter()
    unbound = "/api/v1/pods?fieldSelector=spec.nodeName="
    wait_until(lambda: not api.list(unbound), "all pods on nodes")
    found = N_PODS / (time.perf_counter() - start)
    server.stop(signal.SIGKILL)
    delete_pods(plane)
    return found


def extender_figures(n_nodes: int, n_types: int, n_requests: int) -> None:
    """Measure and print."""
    servers = find_servers()
    if servers is None:
        print("there is no Kubernetes control plane here; `make kubernetes` builds one")
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        path = cluster_file(folder, n_types)
        plane = ControlPlane(servers, folder / "plane").start()
        try:
            with Kubelets(plane.api()) as kubelets:
                names = [f"node-{i:05d}" for i in range(n_nodes)]
                for i in range(n_types):
                    labels = {"kind": f"t{i}"}
                    kubelets.add_many(names[i::n_types], labels, cpu=16, memory="64Gi")
                _measure(plane, path, names, n_requests)
        finally:
            plane.close()


def _measure(plane: ControlPlane, path: Path, names: list[str], n_requests: int) -> None:
    def body(item: dict[str, Any]) -> bytes:
        return json.dumps({"Pod": item, "Nodes": None, "NodeNames": names}).encode()

    with extender(path, plane.kubeconfig()) as (url, process):
        waiting = [body(p) for p in created(plane, "known", [100.0 + i for i in range(N_KNOWN)])]
        latency(url, process, waiting)
        known = latency(url, process, [waiting[i % N_KNOWN] for i in range(n_requests)])
        burst = created(plane, "new", [1000 + i / 7 for i in range(n_requests // 4)])
        new = latency(url, process, [body(p) for p in burst])
        others = [described(f"p{i}", 20_000 + i / 7) for i in range(n_requests // 8)]
        strangers = latency(url, process, [body(p) for p in others])
        delete_pods(plane)
        print(f"extender, {len(names)} nodes, {n_requests} requests (measured; ms)")
        print(f"{'':14}{'p50':>8} {'p99':>8} {'most':>8} {'CPU':>8}")
        print(f"{'known tasks':14}{known}   bars: {BARS[0]:g} and {BARS[1]:g}")
        print(f"{'arrivals':14}{new}")
        print(f"{'strangers':14}{strangers}")
        asked = {"urlPrefix": url, "prioritizeVerb": "prioritize", "weight": 100,
                 "nodeCacheCapable": True, "ignorable": True, "httpTimeout": "5s"}  # fmt: skip
        speeds = [
            pods_per_s(plane, {}, lambda i: 100),
            pods_per_s(plane, {"extenders": [asked]}, lambda i: 100 + i % N_KNOWN),
            pods_per_s(plane, {"extenders": [asked]}, lambda i: 5000 + i / 7),
        ]
        alone, known_too, new_too = (f"{speed:.0f}" for speed in speeds)
        print(f"kube-scheduler binds {alone} pods/s alone, {known_too} with the extender, and "
              f"{new_too} if all are new tasks")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--types", type=int, default=20)
    parser.add_argument("--requests", type=int, default=2000)
    given = parser.parse_args()
    extender_figures(given.nodes, given.types, given.requests)


if __name__ == "__main__":
    main()
