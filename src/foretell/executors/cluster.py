"""A Ray cluster: find one or start one, know what its nodes have, and tell a loss from a fault."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from foretell.errors import UsageError, listing
from foretell.executors.threads import n_cores

#: How ``--on`` names any cluster: that of RAY_ADDRESS, one that runs here, or a new one here.
ANY = "ray"

_REACH_S = 5.0
_ANSWER_S = 30.0
_START_S = 90.0
#: How long a cluster may lack a node that a task fits on: lost nodes are often replaced.
_GRACE_S = 30.0
_LOCAL_STORE_BYTES = 512 * 2**20
#: Ray is quiet, and tells nobody that it was used.
_ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
#: Libraries whose version shows in the last digits of a model.
_LIBRARIES = ("numpy", "pandas", "scipy", "scikit-learn", "optuna", "xgboost-cpu", "xgboost")


@dataclass(frozen=True)
class Room:
    """What a task asks for, or a node has for tasks."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory_bytes: int = 0

    def holds(self, asked: Room) -> bool:
        """Whether a task fits when nothing else runs."""
        return (
            self.cpus >= asked.cpus
            and self.gpus >= asked.gpus
            and self.memory_bytes >= asked.memory_bytes
        )

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
        if importlib.util.find_spec("ray") is None:
            raise UsageError(f"--on {on} needs Ray: pip install 'foretell[ray]'")
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        import ray

        self._is_ours = not ray.is_initialized()
        self._unfit_since: dict[Room, float] = {}
        if self._is_ours:
            _connect(_address(on), n_cpus)
        self.address: str = ray.get_runtime_context().gcs_address

    def nodes(self) -> list[Node]:
        """Return the nodes that are alive."""
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

    def name_of(self, key: str) -> str:
        """Return the name of a node, be it alive or lost."""
        import ray

        return next((_name(node) for node in ray.nodes() if node["NodeID"] == key), key)

    @property
    def n_cpus(self) -> int:
        """How many CPUs all nodes have."""
        return int(sum(node.room.cpus for node in self.nodes()))

    def check_room(self, asked: Room, *, is_spread: bool = False) -> None:
        """Raise a UsageError if the cluster can never hold this: Ray would wait forever.

        One node must hold it, unless it is spread over all of them.
        """
        nodes = self.nodes()
        if is_spread and _sum(nodes).holds(asked):
            return
        if not any(node.room.holds(asked) for node in nodes):
            who = "the Ray cluster does not have" if is_spread else "no node of the Ray cluster has"
            raise UsageError(f"{who} {asked}. {_listed(nodes)}")

    def check_still_room(self, asked: Room) -> None:
        """Do the same while a task waits, but give lost nodes a while to be replaced."""
        now = time.monotonic()
        if any(node.room.holds(asked) for node in self.nodes()):
            self._unfit_since.pop(asked, None)
        elif now > self._unfit_since.setdefault(asked, now) + _GRACE_S:
            self.check_room(asked)

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
            for node in self.nodes()
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
    """Return the versions that decide the last digits of a result; our own is a digest."""
    found = {"foretell": code_digest()}
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def code_digest() -> str:
    """Tell one foretell from another, even of the same version."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for source in sorted(package.rglob("*.py")):
        digest.update(str(source.relative_to(package)).encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


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
        return _checked(on, f"--on {on}")
    given = os.environ.get("RAY_ADDRESS")
    if given and given != "auto":
        return None if given == "local" else _checked(given, f"RAY_ADDRESS={given}")
    from ray._private.services import find_bootstrap_address

    found: str | None = find_bootstrap_address(None)
    if found is None:
        return None
    try:
        return _checked(found, found)
    except UsageError:
        return None  # it was not shut down in order, and left its address behind


def _checked(address: str, named: str) -> str:
    """Return an address at which a Ray cluster answers; raise a UsageError within bounded time.

    Ray itself tries for 80 seconds and then ends the process, so it is tried in another one.
    """
    if address.startswith("ray://"):
        raise UsageError(f"{named}: run this on a node of the cluster, and give its host:port")
    parts = re.fullmatch(r"(\[[^\]]+\]|[^\[\]:/]+):(\d{1,5})", address)
    if parts is None or int(parts[2]) > 65535:
        raise UsageError(f"{named}: must be 'ray', or an address such as 10.0.0.5:6379")
    try:
        socket.create_connection((parts[1].strip("[]"), int(parts[2])), _REACH_S).close()
    except OSError as error:
        raise UsageError(
            f"{named}: no Ray cluster can be reached there ({error.strerror or error}). Start one "
            f"with: ray start --head --port={parts[2]}"
        ) from None
    code = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False)"
    try:
        tried = subprocess.run(  # noqa: S603 - our own line of code
            [sys.executable, "-c", code, address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            env={**os.environ, "RAY_BACKEND_LOG_LEVEL": "warning"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"{named}: something answers there, but it is no Ray cluster") from None
    if tried.returncode != 0:
        raise UsageError(f"{named}: {_refusal(tried.stderr)}")
    return address


def _refusal(text: str) -> str:
    if "AuthToken" in text or "AuthenticationError" in text:
        return (
            "the Ray cluster does not accept our token; set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH "
            "to a file that holds that of the cluster"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"Ray refuses: {lines[-1] if lines else 'it does not say why'}"


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


def _sum(nodes: Sequence[Node]) -> Room:
    rooms = [node.room for node in nodes]
    return Room(
        sum(room.cpus for room in rooms),
        sum(room.gpus for room in rooms),
        sum(room.memory_bytes for room in rooms),
    )


def _listed(nodes: Sequence[Node]) -> str:
    told = listing((f"{node.name} with {node.room}" for node in nodes), most=8)
    return f"It has {told}." if nodes else "It has no node at all."


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__
