"""Executors inside this process: one task after another, or several at once in threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from foretell.executors._base import ONE_CORE, Done, Executor, Work
from foretell.machines import Needs


class SerialExecutor(Executor):
    """Runs each task when its result is asked for."""

    def __init__(self, state: Any) -> None:
        super().__init__(state, n_workers=1)
        self._waiting: deque[tuple[Work, Any]] = deque()

    @property
    def n_pending(self) -> int:
        """How many tasks wait."""
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        """Whether no task waits."""
        return not self._waiting

    def submit(self, work: Work, task: Any, needs: Needs = ONE_CORE) -> None:
        """Accept one task."""
        self._waiting.append((work, task))

    def wait(self) -> Done:
        """Run the oldest waiting task."""
        work, task = self._waiting.popleft()
        try:
            return Done(task, work(self.state, task))
        except Exception as error:
            return Done(task, error)

    def close(self) -> None:
        """Forget what waits."""
        self._waiting.clear()


class ThreadExecutor(Executor):
    """Runs several tasks at once, each in a thread, for work that mostly waits.

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
