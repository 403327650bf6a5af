"""Tasks that were submitted: what each waits for, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from foretell.errors import ForetellError, UsageError
from foretell.tasks.declare import TaskFunction
from foretell.tasks.running.threads import Waiter
from foretell.wording import counted

if TYPE_CHECKING:
    from foretell.tasks.data import Dependencies
    from foretell.tasks.graph import Graph

WAITING, READY, RUNNING, DONE, FAILED, SKIPPED, DROPPED = range(7)


class DependencyFailed(ForetellError):  # noqa: N818 - it tells of another error
    """A task did not run, because one that it depends on failed."""


class Task:
    """A call that was submitted: it waits for its predecessors, and then runs."""

    __slots__ = (
        "before", "cause", "children", "cpu_s", "end_s", "error", "function", "graph", "id",
        "is_over", "label", "n_before", "n_children", "parent", "priority", "rank", "size",
        "start_s", "state", "successors", "value", "values", "waited_s", "waiters", "waits_for",
        "worker",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        number: int,
        function: TaskFunction,
        values: tuple[Any, ...],
        parent: Task | None,
    ) -> None:
        self.graph: Graph | None = graph
        self.id, self.function, self.values, self.parent = number, function, values, parent
        self.label = function.label
        self.size = 0.0
        self.priority = 0
        self.rank = 0.0
        self.state = WAITING
        self.n_before = self.n_children = 0
        # Tuples until there is something to hold: Python's collector looks at every list, and
        # with thousands of tasks that takes as long as running them.
        self.before: tuple[int, ...] = ()
        self.successors: list[Task] | tuple[()] = ()
        self.children: Dependencies | None = None
        self.cause: Task | None = None
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        self.start_s = self.end_s = self.cpu_s = self.waited_s = 0.0
        self.worker: int | None = None
        self.waiters: list[Waiter] | None = None
        self.waits_for: dict[int, Sequence[Task]] | None = None  # by the thread that waits

    @property
    def is_ended(self) -> bool:
        """Whether it ran, failed, or never will."""
        return self.state >= DONE

    def result(self) -> Any:
        """Wait for the task, and return what its body returned; raise what it raised."""
        if not self.is_ended:
            if self.graph is None:
                raise UsageError(f"task {self.label} has not ended, and its graph is not open here")
            self.graph.finish(self)
        if self.error is not None:
            raise self.error
        return self.value

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Leave the graph out of copies: in another process there is none to wait in."""
        state = {name: getattr(self, name) for name in self.__slots__}
        return None, state | {"graph": None}

    def __repr__(self) -> str:
        words = ("waiting", "ready", "running", "done", "failed", "skipped", "dropped")
        return f"<task {self.id} {self.label}, {words[self.state]}>"


def is_within(task: Task, own: Task | None) -> bool:
    """Whether a task is part of another, however deep; all are part of the graph."""
    around = task.parent
    while around is not None and around is not own:
        around = around.parent
    return around is own


def give_up(task: Task) -> DependencyFailed:
    """End a task that has not begun; return its error."""
    task.error = error = DependencyFailed(f"'{task.label}' was dropped before it began")
    task.state = DROPPED  # last: whoever sees it takes the error
    return error


def why_skipped(task: Task) -> DependencyFailed:
    """Say why a task has no result: the first that failed, through all that were skipped."""
    first = task.cause
    while first is not None and first.state == SKIPPED and first.cause is not None:
        first = first.cause
    name = "another task" if first is None else f"task {first.id} ('{first.label}')"
    if task.start_s:
        error = DependencyFailed(f"'{task.label}' is not complete: {name}, a part of it, failed")
    else:
        error = DependencyFailed(f"'{task.label}' did not run: it depends on {name}, which failed")
    error.__cause__ = None if first is None else first.error
    return error


def failures_text(failed: Sequence[Task], skipped: Sequence[Task]) -> str:
    """Say how many tasks failed, or did not run after failures that were raised before."""
    if not failed:
        return f"{counted(len(skipped), 'task')} did not run, after failures raised before"
    text = f"{counted(len(failed), 'task')} failed"
    if skipped:
        after = "it" if len(failed) == 1 else "them"
        text += f", and {len(skipped):,} after {after} did not run"
    return text
