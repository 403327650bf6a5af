"""The executor that runs tasks in threads of this process, for work that mostly waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from foretell.executors._base import ONE_CORE, Done, Executor, Work
from foretell.machines import Needs


class ThreadExecutor(Executor):
    """Runs several tasks at once, each in a thread.

    Parameters
    ----------
    stop
        Called on closing: a thread cannot be ended from outside, so this must make the work end.
    """

    def __init__(self, state: Any, n_workers: int, stop: Callable[[], None]) -> None:
        super().__init__(state, n_workers)
        self._stop = stop
        self._pool = ThreadPoolExecutor(n_workers)
        self._tasks: dict[Future[Any], Any] = {}

    @property
    def n_pending(self) -> int:
        """How many tasks run or wait."""
        return len(self._tasks)

    def submit(self, work: Work, task: Any, needs: Needs = ONE_CORE) -> None:
        """Start one task, or let it wait for a thread."""
        self._tasks[self._pool.submit(work, self.state, task)] = task

    def wait(self) -> Done:
        """Wait for the next task to end."""
        ended, _ = wait(self._tasks, return_when=FIRST_COMPLETED)
        future = ended.pop()
        task = self._tasks.pop(future)
        return Done(task, future.exception() or future.result())

    def close(self) -> None:
        """Start no more tasks, and make those end that run."""
        self._tasks.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._stop()
        self._pool.shutdown(wait=True)
