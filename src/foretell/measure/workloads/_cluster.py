"""Ray for a workload: a small cluster of its own on this machine, or one that is there."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket

from foretell.errors import UsageError
from foretell.measure.workloads._base import RunFailedError
from foretell.measure.workloads._training import Job

#: Ray Train looks every 2 s whether workers have ended, which would be part of what is measured.
_ENVIRONMENT = {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2", "RAY_USAGE_STATS_ENABLED": "0"}
_KNOCK_LIMIT_S = 5.0


def check_installed() -> None:
    """Raise a UsageError if Ray or Torch is missing, without importing them."""
    for name in ("ray", "torch"):
        if importlib.util.find_spec(name) is None:
            raise UsageError(
                f"workload.use: ray_train needs {name}; run: pip install 'foretell[ray]'"
            )


def connect(address: str | None, *, cpus: int | None, object_store_mib: int) -> None:
    """Start Ray on this machine, or connect to a cluster, unless that was done for a run before."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray
    import ray.train.torch  # so that its import is not measured

    if ray.is_initialized():
        return
    try:
        if address is None:
            ray.init(
                "local",
                _node_ip_address="127.0.0.1",  # nobody else is to reach it
                num_cpus=cpus,
                object_store_memory=object_store_mib * 2**20,
                include_dashboard=False,
            )
        else:
            _knock(address)
            ray.init(address)
    except (OSError, ValueError, RuntimeError) as error:  # ConnectionError is an OSError
        where = "on this machine" if address is None else f"at {address}"
        text = str(error).strip().splitlines()
        raise RunFailedError(
            f"there is no Ray {where}: {text[0] if text else type(error).__name__}"
        ) from None


def _knock(address: str) -> None:
    """Raise an OSError if nobody listens there: Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():
        with contextlib.closing(socket.create_connection((host, int(port)), _KNOCK_LIMIT_S)):
            pass


def check_room(job: Job) -> None:
    """Raise RunFailedError if the cluster can never hold the job: Ray would wait forever."""
    import ray

    total = ray.cluster_resources()
    most_cpus = max(n["Resources"].get("CPU", 0.0) for n in ray.nodes() if n["Alive"])
    for kind, per_worker in (("CPU", job.cpus), ("GPU", job.gpus)):
        asked, has = job.workers * per_worker, total.get(kind, 0.0)
        if asked > has:
            raise RunFailedError(
                f"{asked} {kind}s are asked for, {per_worker} for each of {job.workers} workers, "
                f"and the Ray cluster has {has:g}"
            )
    if job.cpus > most_cpus:
        raise RunFailedError(
            f"each worker asks for {job.cpus} CPUs, and the largest node of the Ray cluster has "
            f"{most_cpus:g}"
        )
