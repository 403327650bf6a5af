"""A real control plane with fake nodes and some pods, for the page about the standalone scheduler.

Run it as ``python docs/standalone_cluster.py``. The file ``kubeconfig`` leads to it. When pods have
been bound, their nodes and warnings are printed, and the file ``done`` is written. It runs until it
is stopped.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.adapters.kubernetes.control_plane import ControlPlane, find_servers, wait_until
from tests.adapters.kubernetes.kubelets import Kubelets, node_of, pod

LABEL = "node.kubernetes.io/instance-type"
#: Name, CPUs, memory and how many there are: the types of the example of a cluster file.
TYPES = (("server", 32, "64Gi", 2), ("desktop", 16, "32Gi", 2), ("board", 4, "1Gi", 4))
PODS = "/api/v1/namespaces/default/pods"
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
PLACED: dict[str, dict[str, Any]] = {
    "plain": {},
    "saving": {"annotations": {"foretell/H": "1"}},
    "urgent": {"annotations": {"foretell/H": "0"}},
    "mistaken": {"annotations": {"foretell/H": "high"}},
}
REFUSED: dict[str, dict[str, Any]] = {"huge": {"cpu": 64}, "with-data": {"volumes": [CLAIM]}}


def main() -> None:
    """Run until a signal comes."""
    servers = find_servers()
    if servers is None:
        sys.exit("there is no Kubernetes control plane here; `make kubernetes` builds one")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(servers, folder).start()
        try:
            with Kubelets(plane.api()) as kubelets:
                for name, cpus, memory, count in TYPES:
                    for i in range(count):
                        labels = {LABEL: name}
                        kubelets.add(f"{name}-{i + 1}", labels, cpu=cpus, memory=memory)
                _use(plane)
                signal.pause()
        finally:
            plane.close()


def _use(plane: ControlPlane) -> None:
    """Make pods, and tell what becomes of them."""
    api = plane.api()
    for name, given in (PLACED | REFUSED).items():
        annotations = {"foretell/iterations": "800", **given.get("annotations", {})}
        settings = {"cpu": 2, "memory": "400Mi", **given, "annotations": annotations}
        api.create(PODS, pod(name, scheduler="foretell", **settings))
    Path("kubeconfig").write_bytes(plane.kubeconfig().read_bytes())
    for name in PLACED:
        print(f"pod/{name} is on {node_of(api, name)}", flush=True)  # noqa: T201

    def warnings() -> list[tuple[str, str, str]]:
        found = api.list("/api/v1/namespaces/default/events")
        return [
            (event["involvedObject"]["name"], event["reason"], event["message"])
            for event in found
            if event["type"] == "Warning"
        ]

    wait_until(lambda: len(warnings()) == 3, warnings)
    for name, reason, message in sorted(warnings()):
        print(f"pod/{name}  {reason}: {message}", flush=True)  # noqa: T201
    Path("done").touch()


if __name__ == "__main__":
    main()
