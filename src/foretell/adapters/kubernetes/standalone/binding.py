"""Binding pods to nodes: in the background, and with care about requests whose end is unknown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from foretell.adapters.kubernetes.client import Api, ApiError
from foretell.adapters.kubernetes.records import Record
from foretell.adapters.kubernetes.state import State
from foretell.adapters.kubernetes.watching import LOG
from foretell.closeable import Closeable

#: How a binding ended: done, refused since the pod is gone or has a node, failed, or not tried.
Outcome = Literal["bound", "refused", "failed", "dropped"]
_REFUSED = (404, 409)
_N_THREADS = 8


@dataclass(frozen=True, eq=False)
class Binding:
    """A pod and the node that it is to be bound to."""

    record: Record
    node: str

    @property
    def path(self) -> str:
        """Where the pod is."""
        return f"/api/v1/namespaces/{self.record.pod.namespace}/pods/{self.record.pod.name}"


class Binder(Closeable):
    """Binds pods that the state assumes to be on a node; takes that back when a binding fails.

    Parameters
    ----------
    may_bind
        Whether this process may bind pods at this moment.
    on_end
        Told how each binding ended.
    """

    def __init__(
        self,
        api: Api,
        state: State,
        may_bind: Callable[[], bool],
        on_end: Callable[[Binding, Outcome, str], None],
        *,
        timeout_s: float = 5.0,
    ) -> None:
        self.api, self.state, self.timeout_s = api, state, timeout_s
        self._may_bind, self._on_end = may_bind, on_end
        self._pool = ThreadPoolExecutor(_N_THREADS, thread_name_prefix="bind")
        self._lock = threading.Lock()
        self._doubtful: list[Binding] = []

    def submit(self, binding: Binding) -> None:
        """Bind a pod, in another thread."""
        self._pool.submit(self._bind, binding)

    def close(self) -> None:
        """Wait for bindings under way; those that have not begun are dropped."""
        self._pool.shutdown(cancel_futures=True)

    @property
    def n_doubtful(self) -> int:
        """Bindings of which it is not known whether the server made them."""
        return len(self._doubtful)

    def resolve(self) -> None:
        """Ask the server about bindings whose end is not known; it may take several attempts."""
        with self._lock:
            asked, self._doubtful = self._doubtful, []
        for binding in asked:
            self._pool.submit(self._resolve, binding)

    def _bind(self, binding: Binding) -> None:
        try:
            self._end(binding, *self._try(binding))
        except Exception:  # a mistake of ours must not leave the pod without a node for ever
            LOG.exception("binding %s failed", binding.record.pod.title)
            self._end(binding, "failed", "see the log")

    def _try(self, binding: Binding) -> tuple[Outcome | None, str]:
        """Send the request; None if it is not known whether the server made the binding."""
        pod = binding.record.pod
        if why := self._why_not(binding):
            return "dropped", why
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            # Servers from 1.24 on refuse a new pod of the same name, which has another id.
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
        try:
            self.api.post(f"{binding.path}/binding", body, timeout_s=self.timeout_s)
        except ApiError as error:
            if error.status is None or error.status >= 500:
                LOG.warning("binding %s: %s; asking whether it was made", pod.title, error)
                return None, str(error)
            return ("refused" if error.status in _REFUSED else "failed"), str(error)
        return "bound", ""

    def _why_not(self, binding: Binding) -> str:
        """Say why a pod must not be bound after all; empty if it may be."""
        state, record = self.state, binding.record
        with state.lock:
            if not self._may_bind():
                return "another replica has the lease"
            if state.records.get(record.pod.uid) is not record or record.pod.is_deleting:
                return "it is being deleted"
            if record.pod.node or record.assumed != binding.node:
                return "it has a node"
            node = state.nodes.get(binding.node)
            if node is None or not node.is_ready:
                return f"node {binding.node} is gone or not ready"
        return ""

    def _resolve(self, binding: Binding) -> None:
        try:
            self._end(binding, *self._found(binding))
        except Exception:  # a mistake of ours must not leave the room taken for ever
            LOG.exception("asking about %s failed", binding.record.pod.title)
            self._end(binding, None, "see the log")

    def _found(self, binding: Binding) -> tuple[Outcome | None, str]:
        """Ask how a binding ended; None if that is not known yet."""
        try:
            found = self.api.get(binding.path)
        except ApiError as error:
            return ("refused" if error.status == 404 else None), str(error)
        if found["metadata"].get("uid") != binding.record.pod.uid:
            return "refused", "a new pod has its name"
        if found.get("spec", {}).get("nodeName"):
            return "bound", ""
        return "failed", "the request was lost"

    def _end(self, binding: Binding, outcome: Outcome | None, why: str) -> None:
        if outcome is None:
            with self._lock:
                self._doubtful.append(binding)
            return
        if outcome != "bound":
            with self.state.lock:
                if binding.record.assumed == binding.node:
                    self.state.forget(binding.record)
        self._on_end(binding, outcome, why)
