"""Completed pods, stored with predicted and actual time and energy, for maintenance of models."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from datetime import datetime

from foretell.adapters.kubernetes.client import Object
from foretell.adapters.kubernetes.moves.history import History
from foretell.adapters.kubernetes.nodes import NO_TYPE
from foretell.adapters.kubernetes.pods import ENERGY, MOVES, Pod, read_pod_task
from foretell.adapters.kubernetes.state import State
from foretell.adapters.kubernetes.watching import LOG
from foretell.closeable import Closeable
from foretell.cluster.maintenance.completed import (
    CompletedTask,
    CompletedTasks,
    Ending,
    completed_task,
)
from foretell.errors import ForetellError

_FLUSH_S = 1.0
_MOST_KNOWN = 200_000  # pods that are remembered, so that none is stored twice


class Recorder(Closeable):
    """Stores pods that succeed, in a thread of its own.

    A pod is not stored if no time can be predicted for it, if a container was restarted, or if it
    went on with the work of another pod: then its time is not that of the whole task.
    """

    def __init__(self, state: State, store: CompletedTasks) -> None:
        self.state, self._store = state, store
        self._known: OrderedDict[str, None] = OrderedDict()
        self._waiting: list[CompletedTask] = []
        self.n_stored = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="completed pods", daemon=True)

    def start(self, since_s: float, until_s: float) -> None:
        """Begin to store; pods that are in the store already are not stored again."""
        for task in self._store.read(since_s, until_s):
            self._remember(task.uid)
        with self.state.lock:
            self.state.listeners.append(self.listen)
        self._thread.start()

    def close(self) -> None:
        """Store what waits, and end."""
        with self.state.lock:
            if self.listen in self.state.listeners:
                self.state.listeners.remove(self.listen)
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._flush()
        self._store.close()

    def listen(self, pod: Pod, item: Object | None) -> None:
        """Take news of a pod; the lock is held."""
        if item is None or pod.phase != "Succeeded" or pod.uid in self._known:
            return
        self._remember(pod.uid)
        task = self._completed(pod, item)
        if task is not None:
            self._waiting.append(task)

    def _completed(self, pod: Pod, item: Object) -> CompletedTask | None:
        node, span = self.state.nodes.get(pod.node), run_span(item)
        is_part = History.read(pod.annotations.get(MOVES), 0.0, 0.0).share < 1
        if node is None or node.type.name == NO_TYPE or span is None or is_part:
            return None
        task, _ = read_pod_task(pod, self.state.namespaces.get(pod.namespace, {}))
        ending = Ending(pod.uid, span[1], pod.node, span[1] - span[0], measured_energy(pod))
        found = completed_task(self.state.chooser.estimates, node.type, task, ending)
        return found if math.isfinite(found.predicted_time_s) else None

    def _remember(self, uid: str) -> None:
        self._known[uid] = None
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def _run(self) -> None:
        while not self._stopping.wait(_FLUSH_S):
            self._flush()

    def _flush(self) -> None:
        with self.state.lock:
            tasks, self._waiting = self._waiting, []
        if not tasks:
            return
        try:
            self._store.append(tasks)
        except ForetellError as error:  # the disk may be full; scheduling goes on
            LOG.warning("%d completed pods are not stored: %s", len(tasks), error)
            with self.state.lock:
                self._waiting = [*tasks, *self._waiting][-_MOST_KNOWN:]
        else:
            self.n_stored += len(tasks)


def run_span(item: Object) -> tuple[float, float] | None:
    """Return when the containers of a pod began and ended, in seconds since 1970.

    None if that is not known, if one was restarted, or if it took no time: Kubernetes tells times
    in whole seconds.
    """
    starts, ends = [], []
    for status in (item.get("status") or {}).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated") or {}
        begin, end = _seconds(ended.get("startedAt")), _seconds(ended.get("finishedAt"))
        if status.get("restartCount") or begin is None or end is None:
            return None
        starts.append(begin)
        ends.append(end)
    if not starts or max(ends) <= min(starts):
        return None
    return min(starts), max(ends)


def measured_energy(pod: Pod) -> float | None:
    """Return the energy that was measured for a pod, if an annotation says it."""
    try:
        found = float(pod.annotations.get(ENERGY, ""))
    except ValueError:
        return None
    return found if 0 < found < math.inf else None


def _seconds(moment: object) -> float | None:
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return None
