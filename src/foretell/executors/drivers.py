"""The executor for tasks that use a Ray cluster themselves: started here, they run on its nodes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from foretell.executors._base import ONE_CORE, Done, Executor, Work
from foretell.executors._retries import RetryQueue, Ticket
from foretell.executors.cluster import Cluster, alive_nodes
from foretell.executors.distributed import MOST_LOSSES
from foretell.machines import Needs

_POLL_S = 0.5


class DriverExecutor(Executor):
    """Runs tasks on this machine that ask the cluster for what they need.

    A task starts when the cluster has room for all its parts. One that fails while a node is lost
    runs again.

    Parameters
    ----------
    cluster
        The connection, which is closed with the executor.
    local
        Runs the tasks on this machine; it is closed with the executor.
    failure
        Returns why a result is a failure, which may be that of a node; None if it is none.
    log, name
        Where losses are logged, and what a task is called there.
    """

    def __init__(
        self,
        cluster: Cluster,
        local: Executor,
        failure: Callable[[Any], str | None],
        *,
        log: logging.Logger | None = None,
        name: Callable[[Any], str] = lambda task: "a task",
    ) -> None:
        super().__init__(local.state, local.n_workers)
        self._cluster, self._local, self._failure = cluster, local, failure
        self._queue = RetryQueue(MOST_LOSSES, log, name)
        self._running: dict[int, tuple[Ticket, set[str]]] = {}  # by identity of the task

    @property
    def n_pending(self) -> int:
        """How many tasks run, or wait for their turn."""
        return len(self._queue) + len(self._running)

    def check(self, needs: Iterable[Needs]) -> None:
        """Raise a UsageError if the cluster has no room for all parts of a task."""
        self._cluster.check(needs)

    def submit(self, work: Work, task: Any, needs: Needs = ONE_CORE) -> None:
        """Let one task wait for its turn."""
        self._queue.add(work, task, needs)

    def wait(self) -> Done:
        """Wait for the next task to end."""
        while True:
            while len(self._queue) and len(self._running) < self.n_workers:
                self._start(self._queue.pop())
            done = self._local.wait()
            ticket, nodes = self._running.pop(id(done.task))
            failure = self._failure(done.result)
            is_lost = failure is not None and self._cluster.has_lost(nodes)
            if is_lost and self._queue.lost(ticket, str(failure)) is None:
                continue
            return Done(done.task, done.result, "", ticket.n_lost)

    def close(self) -> None:
        """End what still runs, and leave the cluster."""
        self._queue.clear()
        self._local.close()
        self._cluster.close()

    def _start(self, ticket: Ticket) -> None:
        while not self._cluster.still_has_room(ticket.needs):
            time.sleep(_POLL_S)
        self._running[id(ticket.task)] = (ticket, set(alive_nodes()))
        self._local.submit(ticket.work, ticket.task)
