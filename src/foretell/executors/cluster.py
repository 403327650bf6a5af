"""A Ray cluster: find one or start one, know what its nodes have, and tell a loss from a fault."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from foretell._version import RESULTS_VERSION, __version__
from foretell.errors import UsageError, listing
from foretell.executors.ray_address import check_cluster, is_installed, set_environment
from foretell.executors.threads import n_cores

#: How ``--on`` names any cluster: that of RAY_ADDRESS, one that runs here, or a new one here.
ANY = "ray"

_START_S = 90.0
_MANY = 1_000_000
#: How long a cluster may lack a node that a task fits on: lost nodes are often replaced.
_GRACE_S = 30.0
_LOCAL_STORE_BYTES = 512 * 2**20
#: Libraries whose version shows in the last digits of a model.
_LIBRARIES = ("numpy", "pandas", "scipy", "scikit-learn", "optuna", "xgboost-cpu", "xgboost")


@dataclass(frozen=True)
class Room:
    """What a task asks for, or a node has for tasks."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory_bytes: int = 0

    def n_fitting(self, asked: Room) -> int:
        """Count the tasks of a kind that fit when nothing else runs."""
        kinds = (
            (self.cpus, asked.cpus),
            (self.gpus, asked.gpus),
            (self.memory_bytes, asked.memory_bytes),
        )
        return min((int(has // wanted) for has, wanted in kinds if wanted), default=_MANY)

    def __str__(self) -> str:
        parts = [f"{self.cpus:g} {'CPU' if self.cpus == 1 else 'CPUs'}"]
        if self.gpus:
            parts.append(f"{self.gpus:g} {'GPU' if self.gpus == 1 else 'GPUs'}")
        if self.memory_bytes:
            parts.append(f"{self.memory_bytes / 2**30:.3g} GiB of memory")
        return " and ".join(parts)


@dataclass(frozen=True)
class Node:
    """A machine of the cluster, and what Ray may use of it."""

    key: str
    name: str
    room: Room


class Cluster:
    """A connection to Ray, ended by ``close``; one that was there before is left open.

    Parameters
    ----------
    on
        ``ray``, or the address of a cluster.
    n_cpus
        How many CPUs a cluster started here offers; by default the cores of this machine.
    """

    def __init__(self, on: str, n_cpus: int | None = None) -> None:
        if not is_installed():
            raise UsageError(f"--on {on} needs Ray: pip install 'foretell[ray]'")
        set_environment()
        import ray

        self._is_ours = not ray.is_initialized()
        self._unfit_since: dict[Room, float] = {}
        if self._is_ours:
            _connect(_address(on), n_cpus)
        self.address: str = ray.get_runtime_context().gcs_address

    def name_of(self, key: str) -> str:
        """Return the name of a node, be it alive or lost."""
        import ray

        return next((_name(node) for node in ray.nodes() if node["NodeID"] == key), key)

    @property
    def n_cpus(self) -> int:
        """How many CPUs all nodes have."""
        return int(sum(node.room.cpus for node in alive_nodes()))

    def still_has_room(self, asked: Room, n_parts: int = 1) -> bool:
        """Say what check_room says; raise only if lost nodes are not replaced for a while."""
        now = time.monotonic()
        if _n_fitting(alive_nodes(), asked) >= n_parts:
            self._unfit_since.pop(asked, None)
            return True
        if now > self._unfit_since.setdefault(asked, now) + _GRACE_S:
            check_room(asked, n_parts)
        return False

    def ask_each(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call a function once on every node; return what it says by the node's name.

        A node that is lost meanwhile is left out. One that cannot run our code is an error now,
        rather than in the midst of the work.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        remote = ray.remote(num_cpus=0, max_retries=0)(function)
        asked = {
            remote.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.key, soft=False)
            ).remote(*arguments): node.name
            for node in alive_nodes()
        }
        ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=_START_S)
        if late:
            raise UsageError(f"node {asked[late[0]]} of the Ray cluster does not answer")
        answers = {}
        for reference in ready:
            try:
                answers[asked[reference]] = ray.get(reference)
            except losses():
                continue
            except Exception as error:
                raise UsageError(
                    f"node {asked[reference]} of the Ray cluster cannot run foretell: "
                    f"{_last_line(error)}. Install the same version there."
                ) from None
        return answers

    def close(self) -> None:
        """Leave the cluster; what we still run there ends."""
        if self._is_ours:
            import ray

            ray.shutdown()


def alive_nodes() -> list[Node]:
    """Return the nodes of the cluster we are connected to that are alive."""
    import ray

    return [
        Node(
            key=node["NodeID"],
            name=_name(node),
            room=Room(
                cpus=node["Resources"].get("CPU", 0.0),
                gpus=node["Resources"].get("GPU", 0.0),
                memory_bytes=int(node["Resources"].get("memory", 0)),
            ),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]


def check_room(asked: Room, n_parts: int = 1) -> None:
    """Raise a UsageError if the cluster can never hold this: Ray would wait forever.

    A job of several parts asks for so much for each of them, on any nodes.
    """
    nodes = alive_nodes()
    if _n_fitting(nodes, asked) < n_parts:
        lacking = f"no node of the Ray cluster has {asked}"
        if n_parts > 1:
            lacking = f"the Ray cluster has no room for {n_parts} workers with {asked} each"
        raise UsageError(f"{lacking}. {_listed(nodes)}")


def losses() -> tuple[type[BaseException], ...]:
    """Return the exceptions that tell of a lost worker or node, and not of the task."""
    from ray import exceptions

    return (
        exceptions.WorkerCrashedError,
        exceptions.NodeDiedError,
        exceptions.OutOfMemoryError,
        exceptions.ObjectLostError,
        exceptions.ObjectFetchTimedOutError,
        exceptions.TaskUnschedulableError,
    )


def first_line(error: BaseException) -> str:
    """Say in one line what Ray says in many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def versions() -> dict[str, str]:
    """Return the versions that decide the last digits of a result."""
    found = {"foretell": code_digest()}
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def code_digest() -> str:
    """Name the foretell of a node by what decides its results."""
    return f"{__version__} (results version {RESULTS_VERSION})"


def check_versions(here: Mapping[str, str], there: Mapping[str, Mapping[str, str]]) -> None:
    """Raise a UsageError if a node would compute something else than this machine."""
    for node, found in there.items():
        for name, version in here.items():
            if found.get(name) != version:
                raise UsageError(
                    f"node {node} of the Ray cluster has {name} {found.get(name, 'not')}, and "
                    f"here it is {version}: results would differ. Install the same version there."
                )


def _address(on: str) -> str | None:
    """Return the address to connect to; None is a new cluster on this machine."""
    if on == "local":
        return None
    if on != ANY:
        check_cluster(on, f"--on {on}")
        return on
    given = os.environ.get("RAY_ADDRESS")
    if given == "local":
        return None
    if given and given != "auto":
        check_cluster(given, f"RAY_ADDRESS={given}")
        return given
    from ray._private.services import find_bootstrap_address

    found: str | None = find_bootstrap_address(None)
    if found is None:
        return None
    try:
        check_cluster(found, found)
    except UsageError:
        return None  # it was not shut down in order, and left its address behind
    return found


def _connect(address: str | None, n_cpus: int | None) -> None:
    import ray

    options: dict[str, Any] = {"address": address}
    if address is None:
        options = {
            "address": "local",
            "num_cpus": n_cpus or n_cores(),
            "include_dashboard": False,
            "object_store_memory": _LOCAL_STORE_BYTES,
        }
    _hush()
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except (Exception, SystemExit) as error:
        where = "here" if address is None else f"at {address}"
        raise UsageError(f"Ray {where} cannot be used: {_last_line(error)}") from None


def _hush() -> None:
    """Let Ray log what it says of lost nodes: it prints it where our results go.

    It has no option for that. If it changes inside, its remarks are printed again, no more.
    """
    from ray._private import worker

    def log(data: Mapping[str, Any], ignore_prefix: bool = False) -> None:
        logging.getLogger("ray").warning("%s", "\n".join(map(str, data["lines"])))

    worker.print_to_stdstream = log


def _name(node: Mapping[str, Any]) -> str:
    return str(node["NodeName"] or node["NodeManagerAddress"])


def _n_fitting(nodes: Sequence[Node], asked: Room) -> int:
    return sum(node.room.n_fitting(asked) for node in nodes)


def _listed(nodes: Sequence[Node]) -> str:
    told = listing((f"{node.name} with {node.room}" for node in nodes), most=8)
    return f"It has {told}." if nodes else "It has no node at all."


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__
