"""A real control plane with fake nodes and some pods, for the page about the standalone scheduler.

Run it as ``python docs/standalone_cluster.py``. The file ``kubeconfig`` leads to it. When pods have
been bound, their nodes and warnings are printed, and the file ``done`` is written. It runs until it
is stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs.live_cluster import PODS as PLACED
from docs.live_cluster import run, write_kubeconfig
from tests.adapters.kubernetes.control_plane import ControlPlane, wait_until
from tests.adapters.kubernetes.kubelets import node_of, pod

PODS = "/api/v1/namespaces/default/pods"
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
REFUSED: dict[str, dict[str, Any]] = {"huge": {"cpu": 64}, "with-data": {"volumes": [CLAIM]}}


def _use(plane: ControlPlane) -> None:
    """Make pods, and tell what becomes of them."""
    api = plane.api()
    for name in [*PLACED, *REFUSED]:
        features = {"foretell/iterations": "800", **PLACED.get(name, {})}
        settings = {"cpu": 2, "memory": "400Mi", **REFUSED.get(name, {})}
        api.create(PODS, pod(name, scheduler="foretell", annotations=features, **settings))
    write_kubeconfig(plane)
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
    run(_use)
