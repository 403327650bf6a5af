"""The executor that runs tasks on the nodes of a Ray cluster, one core each."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Any

from foretell.errors import UsageError
from foretell.executors._base import Executor, Work, WorkerDied
from foretell.executors.cluster import (
    Cluster,
    Room,
    check_room,
    check_versions,
    first_line,
    losses,
    versions,
)
from foretell.executors.threads import limit_threads

_POLL_S = 2.0
#: A task that lost its worker so often is what ends it.
_MOST_LOSSES = 4
_ONE_CORE = Room(cpus=1.0)

_held: tuple[str, Any] | None = None  # each worker's copy of the shared state, and its key


@dataclass
class _Ticket:
    work: Work
    task: Any
    n_lost: int = 0


class RayExecutor(Executor):
    """Sends the state once to each worker of a cluster, and then only tasks.

    What runs on a worker or a node that is lost runs again elsewhere. Ray's own retries are off:
    they have no bound where memory runs out.

    Parameters
    ----------
    n_workers
        How many tasks run at once; by default one on each CPU of the cluster.
    log
        Is told of every loss.
    """

    def __init__(
        self,
        state: Any,
        n_workers: int | None,
        on: str,
        log: logging.Logger | None = None,
    ) -> None:
        self._log = log or logging.getLogger(__name__)
        self._cluster = Cluster(on, n_workers)
        self._waiting: deque[_Ticket] = deque()
        self._running: dict[Any, _Ticket] = {}
        try:
            import ray

            super().__init__(state, n_workers or max(1, self._cluster.n_cpus))
            check_room(_ONE_CORE)
            check_versions(versions(), self._cluster.ask_each(versions))
            self._state = ray.put(state)
            self._remote = ray.remote(num_cpus=1, max_retries=0)(_run)
        except BaseException:
            self._cluster.close()
            raise

    @property
    def n_pending(self) -> int:
        """How many tasks run, or wait for their turn."""
        return len(self._waiting) + len(self._running)

    def submit(self, work: Work, task: Any) -> None:
        """Send one task, or let it wait while enough others run."""
        self._waiting.append(_Ticket(work, task))
        self._send()

    def collect(self) -> tuple[Any, Any]:
        """Wait for the next task to end."""
        import ray

        while True:
            self._send()
            ended, _ = ray.wait(list(self._running), timeout=_POLL_S)
            if not ended:
                self._cluster.still_has_room(_ONE_CORE)
                continue
            ticket = self._running.pop(ended[0])
            try:
                return ticket.task, ray.get(ended[0])
            except losses() as error:
                ticket.n_lost += 1
                self._log.warning("a worker was lost: %s", first_line(error))
                if ticket.n_lost > _MOST_LOSSES:
                    return ticket.task, WorkerDied(
                        f"the worker died {ticket.n_lost} times; it may have run out of memory"
                    )
                self._waiting.appendleft(ticket)
            except ray.exceptions.RayTaskError as error:
                return ticket.task, error.cause or error
            except ray.exceptions.RayError as error:
                raise UsageError(f"the Ray cluster failed: {error}") from None

    def close(self) -> None:
        """Cancel what still runs, and leave the cluster."""
        self._waiting.clear()
        if self._running:
            import ray

            for reference in self._running:
                ray.cancel(reference, force=True)
            self._running.clear()
        self._cluster.close()

    def _send(self) -> None:
        while self._waiting and len(self._running) < self.n_workers:
            ticket = self._waiting.popleft()
            # In a list, the state is not fetched for each task anew.
            reference = self._remote.remote([self._state], ticket.work, ticket.task)
            self._running[reference] = ticket


def _run(states: list[Any], work: Work, task: Any) -> Any:
    return work(_state_of(states[0]), task)


def _state_of(reference: Any) -> Any:
    """Return this worker's copy of the state, which is as writable as the original."""
    global _held
    if _held is None or _held[0] != reference.hex():
        import copy

        import ray

        limit_threads()
        _held = (reference.hex(), copy.deepcopy(ray.get(reference)))
    return _held[1]
