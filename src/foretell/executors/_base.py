"""What an executor is: tasks go in, results come out as they finish."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from foretell.closeable import Closeable

#: Module-level function of the shared state and one task.
Work = Callable[[Any, Any], Any]


class WorkerDied(Exception):  # noqa: N818 - it is a result, not a mistake
    """The process that ran a task ended before the task did."""


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

    @abstractmethod
    def submit(self, work: Work, task: Any) -> None:
        """Accept one task."""

    @abstractmethod
    def collect(self) -> tuple[Any, Any]:
        """Wait for any task to end; return it with its result or the exception it ended in."""

    @abstractmethod
    def close(self) -> None:
        """Stop at once, abandoning what still runs."""
