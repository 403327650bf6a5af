"""The executor that runs tasks in this process, one after another."""

from __future__ import annotations

from collections import deque
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
