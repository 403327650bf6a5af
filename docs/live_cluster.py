"""A real control plane with fake nodes, for the examples in the documentation.

    python docs/live_cluster.py URL [--moves]
    python docs/live_cluster.py --standalone
    python docs/live_cluster.py --complete

Starts etcd, an API server, kube-scheduler, which asks the extender at URL, and fake kubelets for
eight nodes. The file ``kubeconfig`` leads to it. Once the extender answers, pods are created, and a
line is printed for each when it is bound. It runs until it is stopped.

With --moves, only the boards are there at first; the other nodes join when a pod runs on a board.
With --standalone, no other scheduler is started. Pods are there from the beginning; when they are
bound, their nodes and the warnings about others are printed, and the file ``done`` is written.
With --complete, there are only desktops and no other scheduler. Thirty pods run to their end, one
second for each 60 iterations, and the file ``done`` is written.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.adapters.kubernetes.control_plane import ControlPlane, find_servers, wait_until
from tests.adapters.kubernetes.kubelets import SECONDS, Kubelets, node_of, pod

KUBECONFIG = Path("kubeconfig")
WHERE = "/api/v1/namespaces/default/pods"
LABEL = "node.kubernetes.io/instance-type"
#: Name, CPUs, memory and how many there are: the types of the example of a cluster file.
TYPES = (("server", 32, "64Gi", 2), ("desktop", 16, "32Gi", 2), ("board", 4, "1Gi", 4))
PODS = {
    "plain": {},
    "saving": {"foretell/H": "1"},
    "urgent": {"foretell/H": "0"},
    "mistaken": {"foretell/H": "high"},
}

#: Pods that the standalone scheduler refuses: one is too large, and one has a volume.
REFUSED: dict[str, dict[str, Any]] = {
    "huge": {"cpu": 64},
    "with-data": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
}


N_COMPLETE = 30


def main() -> None:
    """Run until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--moves", action="store_true")
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("--complete", action="store_true")
    given = parser.parse_args()
    servers = find_servers()
    if servers is None:
        sys.exit("there is no Kubernetes control plane here; `make kubernetes` builds one")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    if KUBECONFIG.exists():
        sys.exit(f"there is a file {KUBECONFIG} here, perhaps of another cluster; remove it first")
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(servers, folder).start()
        try:
            with Kubelets(plane.api()) as kubelets:
                of_run = {"moves": TYPES[-1:], "complete": TYPES[1:2]}
                _add(kubelets, next((t for k, t in of_run.items() if vars(given)[k]), TYPES))
                if given.complete:
                    _complete_pods(plane, kubelets)
                elif given.standalone:
                    _wait_for_standalone(plane)
                else:
                    _write_kubeconfig(plane)
                    _start_scheduler(plane, given.url)
                    if given.moves:
                        _let_move(plane, kubelets)
                    else:
                        _place_pods(plane)
                signal.pause()
        finally:
            _remove_kubeconfig(plane)
            plane.close()


def _write_kubeconfig(plane: ControlPlane) -> None:
    KUBECONFIG.write_bytes(plane.kubeconfig().read_bytes())
    print("kubeconfig is written", file=sys.stderr)  # noqa: T201


def _remove_kubeconfig(plane: ControlPlane) -> None:
    """Remove the file that this process has written: it leads nowhere now."""
    with contextlib.suppress(OSError):
        if KUBECONFIG.read_bytes() == plane.kubeconfig().read_bytes():
            KUBECONFIG.unlink()


def _add(kubelets: Kubelets, types: Sequence[tuple[str, int, str, int]]) -> None:
    for name, cpus, memory, count in types:
        for i in range(count):
            kubelets.add(f"{name}-{i + 1}", {LABEL: name}, cpu=cpus, memory=memory)


def _start_scheduler(plane: ControlPlane, url: str) -> None:
    """Wait for the extender, and let kube-scheduler ask it."""
    print(f"waits for an extender at {url}", file=sys.stderr)  # noqa: T201
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/healthz"):  # noqa: S310
            break
        time.sleep(0.1)
    asked = {"urlPrefix": url, "prioritizeVerb": "prioritize", "weight": 100, "ignorable": True,
             "nodeCacheCapable": True, "httpTimeout": "5s"}  # fmt: skip
    plane.scheduler({"extenders": [asked]})


def _place_pods(plane: ControlPlane) -> None:
    """Create pods one by one, and tell where they are."""
    api = plane.api()
    for name, own in PODS.items():
        features = {"foretell/iterations": "800", **own}
        api.create(WHERE, pod(name, cpu=2, memory="400Mi", annotations=features))
        print(f"pod/{name} is on {node_of(api, name)}", flush=True)  # noqa: T201


def _let_move(plane: ControlPlane, kubelets: Kubelets) -> None:
    """Let a pod run on a board, and then add better nodes."""
    api = plane.api()
    annotations = {"foretell/iterations": "8000", "foretell/migratable": "restart"}
    api.create(WHERE, pod("training", cpu=2, memory="400Mi", annotations=annotations))
    wait_until(lambda: kubelets.started, "it runs")
    _add(kubelets, TYPES[:-1])
    wait_until(lambda: api.get(f"{WHERE}/training") is None, "it moved")
    for item in api.list(WHERE):
        print(f"pod/{item['metadata']['name']} is on {item['spec']['nodeName']}", flush=True)  # noqa: T201


def _wait_for_standalone(plane: ControlPlane) -> None:
    """Create pods, and tell what becomes of them."""
    api = plane.api()
    for name in [*PODS, *REFUSED]:
        features = {"foretell/iterations": "800", **PODS.get(name, {})}
        settings = {"cpu": 2, "memory": "400Mi", **REFUSED.get(name, {})}
        api.create(WHERE, pod(name, scheduler="foretell", annotations=features, **settings))
    _write_kubeconfig(plane)
    for name in PODS:
        print(f"pod/{name} is on {node_of(api, name)}", flush=True)  # noqa: T201

    def warnings() -> list[tuple[str, str, str]]:
        return sorted(
            (event["involvedObject"]["name"], event["reason"], event["message"])
            for event in api.list("/api/v1/namespaces/default/events")
            if event["type"] == "Warning"
        )

    wait_until(lambda: len(warnings()) == 3, warnings)
    for name, reason, message in warnings():
        print(f"pod/{name}  {reason}: {message}", flush=True)  # noqa: T201
    Path("done").touch()


def _complete_pods(plane: ControlPlane, kubelets: Kubelets) -> None:
    """Let pods run to their end on nodes that only keep time."""
    api = plane.api()
    _write_kubeconfig(plane)
    for i in range(N_COMPLETE):
        iterations = 300 + 20 * (7 * i % N_COMPLETE)  # in no order
        annotations = {"foretell/iterations": str(iterations), SECONDS: str(iterations / 60)}
        settings = {"cpu": 2, "memory": "400Mi", "annotations": annotations}
        api.create(WHERE, pod(f"job-{i + 1}", scheduler="foretell", **settings))
    wait_until(lambda: len(kubelets.finished) == N_COMPLETE, "all end")
    Path("done").touch()


if __name__ == "__main__":
    main()
