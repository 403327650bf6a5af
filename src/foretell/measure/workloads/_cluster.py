"""Ray for a workload: a small cluster of its own on this machine, or one that exists."""

from __future__ import annotations

from foretell.errors import UsageError, error_lines
from foretell.executors import cluster
from foretell.executors.ray_address import check_cluster, is_installed, set_environment
from foretell.measure.workloads._base import RunFailedError
from foretell.measure.workloads._training import Job

#: Ray Train checks every 2 s whether workers have ended, and the wait would be measured as well.
_ENVIRONMENT = {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2"}
#: Ray then listens on the loopback address alone. An address given to ray.init would not do: Ray
#: replaces the loopback address by one that other machines can reach.
_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def check_installed() -> None:
    """Raise a UsageError if Ray or Torch is missing, without importing them."""
    for name in ("ray", "torch"):
        if not is_installed(name):
            raise UsageError(
                f"workload.use: ray_train needs {name}; run: pip install 'foretell[ray]'"
            )


def connect(address: str | None, *, cpus: int | None, object_store_mib: int) -> None:
    """Start Ray on this machine, or connect to a cluster; later runs use the same connection."""
    set_environment(_ENVIRONMENT if address is not None else {**_ENVIRONMENT, **_ALONE})
    import ray
    import ray.train.torch  # so that its import is not measured

    if ray.is_initialized():
        return
    try:
        if address is None:
            ray.init(
                "local",
                num_cpus=cpus,
                object_store_memory=object_store_mib * 2**20,
                include_dashboard=False,
            )
        else:
            if address != "auto":
                check_cluster(address)
            ray.init(address)
    except UsageError as error:
        raise RunFailedError(str(error)) from None
    except (OSError, ValueError, RuntimeError) as error:  # ConnectionError is an OSError
        where = "on this machine" if address is None else f"at {address}"
        raise RunFailedError(f"there is no Ray {where}: {error_lines(error)[0]}") from None


def check_room(job: Job) -> None:
    """Raise RunFailedError if the cluster can never hold the job: Ray would wait forever."""
    try:
        cluster.check_room(job.needs)
    except UsageError as error:
        raise RunFailedError(str(error)) from None
