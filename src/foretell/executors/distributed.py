"""Executors for a Ray cluster: tasks that run on its nodes, and tasks that use it from here."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from foretell.closeable import Closeable
from foretell.errors import UsageError, error_lines
from foretell.executors._base import ONE_CORE, Done, Executor, Work
from foretell.executors._retries import RetryQueue, Ticket
from foretell.executors.cluster import Cluster, alive_nodes, check_versions, losses, versions
from foretell.executors.cores import limit_threads
from foretell.machines import Needs

_POLL_S = 2.0
_ROOM_POLL_S = 0.5
#: A task that lost its worker more often than this is what ends it.
_MOST_LOSSES = 4

_held: tuple[str, Any] | None = None  # each worker's copy of the shared state, and its key


def open_for_fits(
    state: Any, n_workers: int | None, on: str, log: logging.Logger | None = None
) -> RayExecutor:
    """Open an executor for work whose results must be the same, bit for bit, on every node."""
    cluster = Cluster(on, n_workers)
    try:
        cluster.check([ONE_CORE])
        check_versions(versions(), cluster.ask_each(versions))
        n_workers = n_workers or max(1, cluster.n_cpus)
        return RayExecutor(cluster, state, n_workers, log=log, prepare=limit_threads)
    except BaseException:
        cluster.close()
        raise


class ClusterExecutor(Executor):
    """Queues tasks for a cluster, and queues them again when a node is lost.

    Parameters
    ----------
    cluster
        The connection, which is closed with the executor.
    log, name
        Where losses are logged, and what a task is called there.
    """

    def __init__(
        self,
        cluster: Cluster,
        state: Any,
        n_workers: int,
        *,
        log: logging.Logger | None = None,
        name: Callable[[Any], str] = lambda task: "a worker",
    ) -> None:
        super().__init__(state, n_workers)
        self._cluster = cluster
        self._queue = RetryQueue(_MOST_LOSSES, log, name)
        self._running: dict[Any, Any] = {}

    @property
    def n_pending(self) -> int:
        """How many tasks run, or wait for their turn."""
        return len(self._queue) + len(self._running)

    def check(self, needs: Iterable[Needs]) -> None:
        """Raise a UsageError if the cluster has no room for a task: Ray would wait forever."""
        self._cluster.check(needs)

    def submit(self, work: Work, task: Any, needs: Needs = ONE_CORE) -> None:
        """Let one task wait for its turn."""
        self._queue.append(Ticket(work, task, needs))
        self._send()

    def close(self) -> None:
        """End what still runs, and leave the cluster."""
        self._queue.clear()
        self._running.clear()
        self._cluster.close()

    def _send(self) -> None:
        """Start the tasks whose turn it is."""
        while self._queue and len(self._running) < self.n_workers:
            self._start(self._queue.popleft())

    @abstractmethod
    def _start(self, ticket: Ticket) -> None:
        """Start one task."""


class RayExecutor(ClusterExecutor):
    """Sends the state once to each worker of a cluster, and then only tasks.

    What runs on a worker or a node that is lost runs again elsewhere. Ray's own retries are off:
    they have no limit where memory runs out, and would hide the losses.

    Parameters
    ----------
    prepare
        Called once in each worker, before its first task.
    """

    def __init__(
        self,
        cluster: Cluster,
        state: Any,
        n_workers: int,
        *,
        prepare: Callable[[], Any] | None = None,
        **logging_options: Any,
    ) -> None:
        import ray

        super().__init__(cluster, state, n_workers, **logging_options)
        self._state = ray.put((state, prepare))
        self._remote = ray.remote(max_retries=0)(_run)

    def wait(self) -> Done:
        """Wait for the next task to end."""
        import ray

        while True:
            self._send()
            ended, _ = ray.wait(list(self._running), timeout=_POLL_S)
            if not ended:
                for needs in {ticket.needs for ticket in self._running.values()}:
                    self._cluster.still_has_room(needs)
                continue
            ticket = self._running.pop(ended[0])
            try:
                node, result = ray.get(ended[0])
            except losses() as error:
                if (done := self._queue.lost(ticket, error_lines(error)[0])) is not None:
                    return done
            except ray.exceptions.RayTaskError as error:
                return Done(ticket.task, error.cause or error, n_lost=ticket.n_lost)
            except ray.exceptions.RayError as error:
                raise UsageError(f"the Ray cluster failed: {error}") from None
            else:
                return Done(ticket.task, result, self._cluster.name_of(node), ticket.n_lost)

    def close(self) -> None:
        """Cancel what still runs, and leave the cluster."""
        import ray

        for reference in self._running:
            ray.cancel(reference, force=True)
        super().close()

    def _start(self, ticket: Ticket) -> None:
        needed = ticket.needs.each
        remote = self._remote.options(
            num_cpus=needed.cpus,
            num_gpus=needed.gpus,
            memory=needed.memory_bytes or None,
            resources=dict(needed.custom) or None,
        )
        # Inside a list, the state is not fetched again for each task.
        self._running[remote.remote([self._state], ticket.work, ticket.task)] = ticket


def _run(states: list[Any], work: Work, task: Any) -> tuple[str, Any]:
    """Run a task on the node that this is called on; return the key of the node, too."""
    import ray

    result = work(_state_of(states[0]), task)
    return ray.get_runtime_context().get_node_id(), result


def _state_of(reference: Any) -> Any:
    """Return this worker's copy of the state, which is as writable as the original."""
    global _held
    if _held is None or _held[0] != reference.hex():
        import copy

        import ray

        if _held is not None and isinstance(_held[1], Closeable):
            _held[1].close()
        state, prepare = ray.get(reference)
        if prepare is not None:
            prepare()
        _held = (reference.hex(), copy.deepcopy(state))
    return _held[1]


class DriverExecutor(ClusterExecutor):
    """Runs tasks on this machine that ask the cluster for what they need.

    A task starts when the cluster has room for all its parts. One that fails while a node is lost
    runs again.

    Parameters
    ----------
    local
        Runs the tasks on this machine; it is closed with the executor.
    failure
        Returns why a result is a failure, which may be that of a node; None if it is none.
    """

    def __init__(
        self,
        cluster: Cluster,
        local: Executor,
        failure: Callable[[Any], str | None],
        **logging_options: Any,
    ) -> None:
        super().__init__(cluster, local.state, local.n_workers, **logging_options)
        self._local, self._failure = local, failure

    def wait(self) -> Done:
        """Wait for the next task to end."""
        while True:
            self._send()
            done = self._local.wait()
            ticket, nodes = self._running.pop(id(done.task))
            failure = self._failure(done.result)
            is_lost = failure is not None and self._cluster.has_lost(nodes)
            if is_lost and self._queue.lost(ticket, str(failure)) is None:
                continue
            return Done(done.task, done.result, "", ticket.n_lost)

    def close(self) -> None:
        """End what still runs, and leave the cluster."""
        self._local.close()
        super().close()

    def _start(self, ticket: Ticket) -> None:
        while not self._cluster.still_has_room(ticket.needs):
            time.sleep(_ROOM_POLL_S)
        self._running[id(ticket.task)] = (ticket, set(alive_nodes()))
        self._local.submit(ticket.work, ticket.task)
