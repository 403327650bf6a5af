"""A real control plane with fake nodes, for the examples in the documentation.

    python docs/live_cluster.py URL [--pods FILE]

Starts etcd, an API server, kube-scheduler, which asks the extender at URL, and fake kubelets for
eight nodes. The file ``kubeconfig`` leads to it. Once the extender answers, pods are created, and a
line is printed for each when it is bound. It runs until it is stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.adapters.kubernetes.control_plane import ControlPlane, find_servers
from tests.adapters.kubernetes.kubelets import Kubelets, node_of, pod

LABEL = "node.kubernetes.io/instance-type"
#: Name, CPUs, memory and how many there are: the types of the example of a cluster file.
TYPES = (("server", 32, "64Gi", 2), ("desktop", 16, "32Gi", 2), ("board", 4, "1Gi", 4))
PODS = {
    "plain": {},
    "saving": {"foretell/H": "1"},
    "urgent": {"foretell/H": "0"},
    "mistaken": {"foretell/H": "high"},
}


def main() -> None:
    """Run until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    url = parser.parse_args().url
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
                Path("kubeconfig").write_bytes(plane.kubeconfig().read_bytes())
                _use(plane, url)
                signal.pause()
        finally:
            plane.close()


def _use(plane: ControlPlane, url: str) -> None:
    """Wait for the extender, and let kube-scheduler place pods with it."""
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/healthz"):  # noqa: S310
            break
        time.sleep(0.1)
    asked = {"urlPrefix": url, "prioritizeVerb": "prioritize", "weight": 100, "ignorable": True,
             "nodeCacheCapable": True, "httpTimeout": "5s"}  # fmt: skip
    plane.scheduler({"extenders": [asked]})
    api = plane.api()
    for name, more in PODS.items():
        features = {"foretell/iterations": "800", **more}
        body = pod(name, cpu=2, memory="400Mi", annotations=features)
        api.create("/api/v1/namespaces/default/pods", body)
        print(f"pod/{name} is on {node_of(api, name)}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
