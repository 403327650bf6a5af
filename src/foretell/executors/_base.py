"""What an executor is: tasks go in with their needs, results come out as they finish."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from foretell.closeable import Closeable
from foretell.machines import Needs

#: Module-level function of the shared state and one task.
Work = Callable[[Any, Any], Any]

ONE_CORE = Needs()


class WorkerDied(Exception):  # noqa: N818 - it is a result, not a mistake
    """The process that ran a task ended before the task did, more often than it is retried."""


class Done(NamedTuple):
    """A task that has ended.

    Attributes
    ----------
    result
        What the work returned, or the exception it ended in.
    node
        The name of the node it ran on; None where there is only this machine.
    n_lost
        How often its worker or node was lost before.
    """

    task: Any
    result: Any
    node: str | None = None
    n_lost: int = 0


class Executor(Closeable):
    """Runs ``work(state, task)`` somewhere; the state is handed over once, never per task."""

    def __init__(self, state: Any, n_workers: int) -> None:
        self.state = state
        self.n_workers = n_workers

    @property
    @abstractmethod
    def n_pending(self) -> int:
        """How many submitted tasks have not been collected."""

    @property
    def has_room(self) -> bool:
        """Whether another task would start soon; submitting more only fills a queue."""
        return self.n_pending < 2 * self.n_workers

    def check(self, needs: Iterable[Needs]) -> None:
        """Raise a UsageError if tasks with such needs could never run."""

    @abstractmethod
    def submit(self, work: Work, task: Any, needs: Needs = ONE_CORE) -> None:
        """Accept one task."""

    @abstractmethod
    def wait(self) -> Done:
        """Wait until any task has ended, and return it."""

    def run(
        self, work: Work, tasks: Iterable[Any], needs: Callable[[Any], Needs] = lambda _: ONE_CORE
    ) -> Iterator[Done]:
        """Run tasks, and yield each as it ends; the next is asked for only when there is room."""
        waiting = iter(tasks)
        while True:
            while self.has_room and (task := next(waiting, None)) is not None:
                self.submit(work, task, needs(task))
            if not self.n_pending:
                return
            yield self.wait()

    @abstractmethod
    def close(self) -> None:
        """Stop at once, abandoning what still runs."""
