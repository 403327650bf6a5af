"""A live cluster: its state kept up to date by watches, and its models by their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretell.adapters.kubernetes.client import Api, check_access, connect
from foretell.adapters.kubernetes.foresight import Foresight
from foretell.adapters.kubernetes.metrics import SchedulerMetrics
from foretell.adapters.kubernetes.nodes import described_types
from foretell.adapters.kubernetes.reloading import ModelFiles
from foretell.adapters.kubernetes.state import State, open_state
from foretell.adapters.kubernetes.state_handler import StateHandler
from foretell.adapters.kubernetes.watching import NAMESPACES, NODES, PODS, Watch, Watches
from foretell.closeable import Closeable
from foretell.decide.placement.choose import PolicyChoice
from foretell.decide.placement.cluster import Cluster
from foretell.errors import UsageError

_PATHS = {"nodes": NODES, "pods": PODS, "namespaces": NAMESPACES}
_SYNC_S = 60.0


@dataclass(frozen=True)
class Connection:
    """How the API server is reached: by the service account of a pod, or a kubeconfig file."""

    kubeconfig: Path | None = None
    context: str | None = None


class Live(Closeable):
    """The state of a live cluster, which follows all changes until it is closed.

    Attributes
    ----------
    file
        The cluster file; None if the cluster is described by a dict.
    """

    def __init__(
        self,
        source: Path | str | Mapping[str, Any] | Cluster,
        connection: Connection | None = None,
        policy: str | PolicyChoice | None = None,
        *,
        seed: int = 0,
    ) -> None:
        to = connection or Connection()
        self.file = Path(source) if isinstance(source, str | Path) else None
        self.state: State = open_state(source, policy, seed=seed)
        self.api: Api = connect(to.kubeconfig, to.context)
        check_access(self.api, _PATHS)
        self.metrics = SchedulerMetrics()
        failed = self.metrics.errors.labels("model")
        self.models = ModelFiles(
            self.state.cluster, self.state.chooser.estimates, self.state.lock, failed.inc
        )
        self.watches = Watches(
            [Watch(self.api, path, StateHandler(self.state, kind)) for kind, path in _PATHS.items()]
        )
        self.foresight = Foresight(self.state)
        self.metrics.watch(
            lambda: self.watches.are_current, self.models.changed_s, self.state.n_by_type
        )

    def start(self) -> None:
        """Begin to follow changes; return once everything is known."""
        self.watches.start()
        if not self.watches.wait(_SYNC_S):
            raise UsageError(
                f"the API server at {self.api.host} did not list nodes, pods and namespaces within "
                f"{_SYNC_S:g} s; see the messages above"
            )
        with self.state.lock:
            self.state.check_types()
        self.models.start()
        self.foresight.start()

    def described_types(self) -> str:
        """Say how many nodes there are of each type, and which have none."""
        return described_types(self.state.n_by_type(), self.state.without_type())

    def close(self) -> None:
        """Stop following."""
        self.foresight.stop()
        self.models.stop()
        self.watches.stop()
        self.api.close()
