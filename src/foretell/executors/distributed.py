"""The executor that runs tasks on the nodes of a Ray cluster that have what the tasks need."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from foretell.closeable import Closeable
from foretell.errors import UsageError, error_lines
from foretell.executors._base import ONE_CORE, Done, Executor, Work
from foretell.executors._retries import RetryQueue, Ticket
from foretell.executors.cluster import Cluster, check_versions, losses, versions
from foretell.executors.cores import limit_threads
from foretell.machines import Needs

_POLL_S = 2.0
#: A task that lost its worker more often than this is what ends it.
MOST_LOSSES = 4

_held: tuple[str, Any] | None = None  # each worker's copy of the shared state, and its key


def open_for_fits(
    state: Any, n_workers: int | None, on: str, log: logging.Logger | None = None
) -> RayExecutor:
    """Open an executor for work whose results must be the same, bit for bit, on every node.

    Parameters
    ----------
    n_workers
        How many tasks run at once; by default one on each CPU of the cluster.
    """
    cluster = Cluster(on, n_workers)
    try:
        cluster.check([ONE_CORE])
        check_versions(versions(), cluster.ask_each(versions))
        n_workers = n_workers or max(1, cluster.n_cpus)
        return RayExecutor(cluster, state, n_workers, log=log, prepare=limit_threads)
    except BaseException:
        cluster.close()
        raise


class RayExecutor(Executor):
    """Sends the state once to each worker of a cluster, and then only tasks.

    What runs on a worker or a node that is lost runs again elsewhere. Ray's own retries are off:
    they have no limit where memory runs out, and would hide the losses.

    Parameters
    ----------
    cluster
        The connection, which is closed with the executor.
    prepare
        Called once in each worker, before its first task.
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
        prepare: Callable[[], Any] | None = None,
    ) -> None:
        import ray

        super().__init__(state, n_workers)
        self._cluster = cluster
        self._queue = RetryQueue(MOST_LOSSES, log, name)
        self._running: dict[Any, Ticket] = {}
        self._state = ray.put((state, prepare))
        self._remote = ray.remote(max_retries=0)(_run)

    @property
    def n_pending(self) -> int:
        """How many tasks run, or wait for their turn."""
        return len(self._queue) + len(self._running)

    def check(self, needs: Iterable[Needs]) -> None:
        """Raise a UsageError if no node has what a task needs: Ray would wait forever."""
        self._cluster.check(needs)

    def submit(self, work: Work, task: Any, needs: Needs = ONE_CORE) -> None:
        """Send one task, or let it wait while enough others run."""
        self._queue.add(work, task, needs)
        self._send()

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
        self._queue.clear()
        if self._running:
            import ray

            for reference in self._running:
                ray.cancel(reference, force=True)
            self._running.clear()
        self._cluster.close()

    def _send(self) -> None:
        while len(self._queue) and len(self._running) < self.n_workers:
            ticket = self._queue.pop()
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
