"""Events and conditions of pods: what users see with `kubectl describe pod`."""

from __future__ import annotations

import queue
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from foretell.adapters.kubernetes.client import STRATEGIC_MERGE, Api, ApiError, Object
from foretell.adapters.kubernetes.pods import Pod
from foretell.adapters.kubernetes.watching import LOG
from foretell.closeable import Closeable
from foretell.wording import plain

Kind = Literal["Normal", "Warning"]
SCHEDULED, FAILED = "Scheduled", "FailedScheduling"
WRONG_ANNOTATION, NO_PREDICTION = "WrongAnnotation", "NoPrediction"
_MOST_WAITING = 10_000
_MOST_TEXT = 1_000  # the API server takes 1,024 characters
_GONE = (404, 409)  # the pod is gone, or has changed since


class Events(Closeable):
    """Writes events in a thread of its own; what cannot be written is dropped, never waited for."""

    def __init__(self, api: Api, component: str) -> None:
        self.api, self.component = api, component
        self.n_dropped = 0
        self._queue: queue.Queue[Callable[[], object] | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Write what waits, for a short time, and end."""
        if self._thread.is_alive():
            self._put(None)
            self._thread.join(2.0)

    def tell(self, pod: Pod, reason: str, message: str, kind: Kind = "Normal") -> None:
        """Write an event about a pod."""
        body = _event(pod, reason, plain(message, _MOST_TEXT), kind, self.component)
        self._put(lambda: self.api.post(f"/api/v1/namespaces/{pod.namespace}/events", body))

    def set_unschedulable(self, pod: Pod, message: str) -> None:
        """Set the condition that a pod has no node, unless the pod has changed meanwhile."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                     "message": plain(message, _MOST_TEXT),
                     "lastTransitionTime": _now("%Y-%m-%dT%H:%M:%SZ")}  # fmt: skip
        body = {"metadata": {"uid": pod.uid, "resourceVersion": pod.version},
                "status": {"conditions": [condition]}}  # fmt: skip
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        self._put(lambda: self.api.patch(path, body, STRATEGIC_MERGE))

    def _put(self, write: Callable[[], object] | None) -> None:
        try:
            self._queue.put_nowait(write)
        except queue.Full:
            self.n_dropped += 1

    def _run(self) -> None:
        while (write := self._queue.get()) is not None:
            try:
                write()
            except ApiError as error:
                if error.status not in _GONE:
                    LOG.warning("an event was not written: %s", error)
            except Exception:  # a mistake of ours must not end the thread
                LOG.exception("an event was not written")


def _event(pod: Pod, reason: str, message: str, kind: Kind, component: str) -> Object:
    now = _now("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pod.name[:200]}.{uuid.uuid4().hex[:16]}",
                     "namespace": pod.namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace,
                           "name": pod.name, "uid": pod.uid},
        "reason": reason,
        "message": message,
        "type": kind,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": component},
        "reportingComponent": component,
    }  # fmt: skip


def _now(form: str) -> str:
    return datetime.now(UTC).strftime(form)
