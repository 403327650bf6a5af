"""A Ray cluster: find or start one, know what its nodes have, and tell a loss from an error."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from foretell._version import NUMERIC_LIBRARIES, RESULTS_VERSION, __version__, library_versions
from foretell.errors import Option, UsageError, error_lines, listing
from foretell.executors.cores import n_cores
from foretell.machines import Needs, Node, NodeType, Resources

#: How the option ``on`` names any cluster: that of RAY_ADDRESS, one that runs here, or a new one.
ANY = "ray"

_REACH_S, _LOGIN_S = 5.0, 30.0
#: Ray prints less, and does not report over the network that it was used.
_ENVIRONMENT = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
_ANSWER_S = 90.0
#: How long a cluster may lack a node that a task fits on: lost nodes are often replaced.
_GRACE_S = 30.0
_LOCAL_STORE_BYTES = 512 * 2**20
#: Amounts in Ray's list of a node that are not custom resources; neither is its ``node:ADDRESS``.
_NOT_CUSTOM = {"CPU", "GPU", "memory", "object_store_memory"}


class Cluster:
    """A connection to Ray, ended by ``close``; one that existed before is left open.

    Parameters
    ----------
    on
        ``ray``, or the address of a cluster.
    n_cpus
        How many CPUs a cluster started here offers; by default the cores of this machine.
    """

    def __init__(self, on: str, n_cpus: int | None = None) -> None:
        if not is_installed():
            raise UsageError("needs Ray: pip install 'foretell[ray]'", option=Option("on", on))
        set_environment()
        import ray

        self._is_ours = not ray.is_initialized()
        self._unfit_since: dict[Needs, float] = {}
        self._names: dict[str, str] = {}
        if self._is_ours:
            _keep_off_standard_output()
            local = {"num_cpus": n_cpus or n_cores(), "object_store_memory": _LOCAL_STORE_BYTES}
            connect(_address(on), local=local, log_to_driver=False, logging_level=logging.ERROR)
        self.address: str = ray.get_runtime_context().gcs_address

    def name_of(self, key: str) -> str:
        """Return the name of a node, alive or lost."""
        if key not in self._names:
            import ray

            self._names = {node["NodeID"]: _name(node) for node in ray.nodes()}
        return self._names.get(key, key)

    @property
    def n_cpus(self) -> int:
        """How many CPUs all nodes have."""
        return int(sum(node.type.capacity.cpus for node in alive_nodes().values()))

    def check(self, needs: Iterable[Needs]) -> None:
        """Raise a UsageError if the cluster can never run tasks with such needs."""
        for one in dict.fromkeys(needs):
            check_room(one)

    def still_has_room(self, needs: Needs) -> bool:
        """Say whether the cluster can hold a task; raise only if it could not for a while."""
        now = time.monotonic()
        if _has_room(alive_nodes(), needs):
            self._unfit_since.pop(needs, None)
            return True
        if now > self._unfit_since.setdefault(needs, now) + _GRACE_S:
            check_room(needs)
        return False

    def has_lost(self, keys: Collection[str]) -> bool:
        """Whether one of these nodes is lost.

        A task that uses several nodes may fail before Ray notices that one of them is gone. So
        every node is asked for an answer; one that is gone has none.
        """
        if len(keys) < 2:  # the only node is the one that we are on
            return False
        answers, _ = _ask(alive_nodes(), _answer)
        return not set(keys) <= set(answers)

    def ask_each(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call a function once on every node; return what it returns by the node's name.

        A node that is lost meanwhile is left out. One that cannot run our code is an error now,
        rather than in the middle of the work.
        """
        nodes = alive_nodes()
        answers, late = _ask(nodes, function, *arguments)
        if late:
            raise UsageError(f"node {nodes[late[0]].name} of the Ray cluster does not answer")
        for key, answer in answers.items():
            if isinstance(answer, Exception):
                raise UsageError(
                    f"node {nodes[key].name} of the Ray cluster cannot run foretell: "
                    f"{error_lines(answer)[-1].rstrip('.')}. Install the same version there."
                )
        return {nodes[key].name: answer for key, answer in answers.items()}

    def close(self) -> None:
        """Leave the cluster; what we still run there ends."""
        if self._is_ours:
            import ray

            ray.shutdown()


def _answer() -> bool:
    return True


def _ask(
    nodes: Mapping[str, Node], function: Callable[..., Any], *arguments: Any
) -> tuple[dict[str, Any], list[str]]:
    """Call a function on nodes; return what it returned or raised by key, and who is late.

    Nodes that are lost are in neither.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote = ray.remote(num_cpus=0, max_retries=0)(function)
    sent = [ray.put(argument) for argument in arguments]  # once for all nodes
    asked = {
        remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(key, soft=False)).remote(
            *sent
        ): key
        for key in nodes
    }
    ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=_ANSWER_S)
    answers: dict[str, Any] = {}
    for reference in ready:
        try:
            answers[asked[reference]] = ray.get(reference)
        except losses():
            continue
        except Exception as error:
            answers[asked[reference]] = error
    return answers, [asked[reference] for reference in late]


def alive_nodes() -> dict[str, Node]:
    """Return the nodes that are alive of the cluster we are connected to, by Ray's keys."""
    import ray

    return {node["NodeID"]: _node(node) for node in ray.nodes() if node["Alive"]}


def _node(found: Mapping[str, Any]) -> Node:
    amounts: Mapping[str, float] = found["Resources"]
    capacity = Resources(
        cpus=amounts.get("CPU", 0.0),
        gpus=amounts.get("GPU", 0.0),
        memory_bytes=int(amounts.get("memory", 0)),
        custom={
            name: n
            for name, n in amounts.items()
            if name not in _NOT_CUSTOM and not name.startswith("node:")
        },
    )
    return Node(_name(found), NodeType(_name(found), capacity))


def check_room(needs: Needs) -> None:
    """Raise a UsageError if the cluster can never hold this: Ray would wait forever."""
    nodes = alive_nodes()
    if not _has_room(nodes, needs):
        lacking = f"no node of the Ray cluster has {needs}"
        if needs.n_parts > 1:
            lacking = f"the Ray cluster has no room for {needs}"
        there = (f"{node.name} with {node.type.capacity}" for node in nodes.values())
        raise UsageError(f"{lacking}. It has {listing(there, most=8) or 'no nodes'}.")


def losses() -> tuple[type[BaseException], ...]:
    """Return the exceptions that mean a lost worker or node, and not an error of the task."""
    from ray import exceptions

    return (
        exceptions.WorkerCrashedError,
        exceptions.NodeDiedError,
        exceptions.OutOfMemoryError,
        exceptions.ObjectLostError,
        exceptions.ObjectFetchTimedOutError,
        exceptions.TaskUnschedulableError,
    )


def versions() -> dict[str, str]:
    """Return the versions that decide the last digits of a result."""
    return {"foretell": foretell_version(), **library_versions(NUMERIC_LIBRARIES)}


def foretell_version() -> str:
    """Name the foretell of a node by what decides its results."""
    return f"{__version__} (results version {RESULTS_VERSION})"


def check_versions(here: Mapping[str, str], there: Mapping[str, Mapping[str, str]]) -> None:
    """Raise a UsageError if a node would compute something else than this machine."""
    for node, found in there.items():
        for name, version in here.items():
            if found.get(name) != version:
                has = f"has {name} {found[name]}" if name in found else f"does not have {name}"
                raise UsageError(
                    f"node {node} of the Ray cluster {has}, and here it is {version}: results "
                    "would differ. Install the same version there."
                )


def _address(on: str) -> str | None:
    """Return the address to connect to; None means a new cluster on this machine."""
    if on == "local":
        return None
    if on != ANY:
        check_cluster(on, option=Option("on", on))
        return on
    given = os.environ.get("RAY_ADDRESS")
    if given == "local":
        return None
    if given and given != "auto":
        check_cluster(given, variable="RAY_ADDRESS")
        return given
    found = _running_here()
    if found is None:
        return None
    try:
        check_cluster(found)
    except UsageError:
        return None  # it was not shut down in order, and left its address behind
    return found


def _running_here() -> str | None:
    """Return the address of a cluster that runs on this machine.

    Ray looks it up for ``ray.init("auto")``, which tries for over a minute if the cluster is gone,
    and has no public function that only looks. Where a version of Ray lacks this one, ``ray``
    means a new cluster, and an address must be given to use one that runs.
    """
    try:
        from ray._private.services import find_bootstrap_address
    except ImportError:
        return None
    found: str | None = find_bootstrap_address(None)
    return found


def connect(address: str | None, *, local: Mapping[str, Any], **always: Any) -> None:
    """Connect to a cluster, or start one on this machine; raise a UsageError if that fails.

    Parameters
    ----------
    local, always
        Options of ``ray.init``: for a cluster that is started here, and for any.
    """
    import ray

    options = {"include_dashboard": False, **local} if address is None else {}
    try:
        ray.init(address or "local", **options, **always)
    except (Exception, SystemExit) as error:
        where = "here" if address is None else f"at {address}"
        reason = error_lines(error)[-1].rstrip(".")
        raise UsageError(f"Ray {where} cannot be used: {reason}") from None


def _keep_off_standard_output() -> None:
    """Let Ray log its remarks on lost nodes, which it prints where our results go.

    It has no option for that. Where a version of Ray lacks this function, it prints them.
    """
    try:
        from ray._private import worker
    except ImportError:
        return

    def log(data: Mapping[str, Any], ignore_prefix: bool = False) -> None:
        logging.getLogger("ray").warning("%s", "\n".join(map(str, data["lines"])))

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = log


def _name(node: Mapping[str, Any]) -> str:
    return str(node["NodeName"] or node["NodeManagerAddress"])


def _has_room(nodes: Mapping[str, Node], needs: Needs) -> bool:
    n_fitting = sum(node.type.capacity.n_fitting(needs.each) for node in nodes.values())
    return n_fitting >= needs.n_parts


def set_environment(more: Mapping[str, str] | None = None) -> None:
    """Set what Ray reads when it is imported, unless the user has set it."""
    for name, value in {**_ENVIRONMENT, **(more or {})}.items():
        os.environ.setdefault(name, value)


def is_installed(name: str = "ray") -> bool:
    """Whether a library is there, without importing it."""
    return importlib.util.find_spec(name) is not None


def check_cluster(address: str, *, variable: str = "", option: Option | None = None) -> None:
    """Raise a UsageError unless a Ray cluster answers there, and lets us in.

    Ray itself tries for 80 seconds and then ends the process, so it is tried in another one.

    Parameters
    ----------
    variable, option
        What the address was given by, for the message.
    """
    try:
        _check_listening(address)
        _check_answering(address)
    except UsageError as error:
        named = f"{variable}={address}" if variable else address
        text = error.text if option else f"{named}: {error.text}"
        raise UsageError(text, option=option) from None


def _check_listening(address: str) -> None:
    """Raise a UsageError unless something listens at an address of the form host:port."""
    if address.startswith("ray://"):
        raise UsageError("run this on a node of the cluster, and give its host:port")
    parts = re.fullmatch(r"(\[[^\]]+\]|[^\[\]:/]+):(\d{1,5})", address)
    if parts is None or int(parts[2]) > 65535:
        raise UsageError("must be 'ray', or an address such as 10.0.0.5:6379")
    try:
        socket.create_connection((parts[1].strip("[]"), int(parts[2])), _REACH_S).close()
    except OSError as error:
        raise UsageError(
            f"no Ray cluster can be reached there ({error.strerror or error}). Start one with: "
            f"ray start --head --port={parts[2]}"
        ) from None


def _check_answering(address: str) -> None:
    code = "import ray, sys; ray.init(sys.argv[1], log_to_driver=False)"
    try:
        tried = subprocess.run(  # noqa: S603 - our own line of code
            [sys.executable, "-c", code, address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LOGIN_S,
            env={**os.environ, "RAY_BACKEND_LOG_LEVEL": "warning"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError("something answers there, but not a Ray cluster") from None
    if tried.returncode != 0:
        raise UsageError(_refusal(tried.stderr))


def _refusal(text: str) -> str:
    if "AuthToken" in text or "AuthenticationError" in text:
        return (
            "the Ray cluster does not accept our token; set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH "
            "to a file that holds that of the cluster"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"Ray refuses: {lines[-1] if lines else 'it does not say why'}"
