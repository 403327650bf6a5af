"""The engine: keeps workers busy, journals what is finished, and minds the clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from foretell.executors import Executor
from foretell.model.journal import Journal
from foretell.model.study import Study, Trial
from foretell.model.work import Outcome, Task, reason_of, run_task

#: What remains after the search is judged to take this much longer than its folds did: the last
#: fits see more rows than those of the search.
_CLOSING_MARGIN = 1.5


@dataclass(frozen=True)
class Progress:
    """How far a search is, for a bar or a line."""

    n_done: int
    n_total: int
    best_error: float
    elapsed_s: float


@dataclass(frozen=True)
class Clock:
    """When the work started, and when the user wants it to end."""

    started: float
    limit_s: float | None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started


class Engine:
    """Runs studies and tasks on an executor.

    Parameters
    ----------
    report
        Called after each finished task of a search.
    """

    def __init__(
        self,
        executor: Executor,
        journal: Journal,
        clock: Clock,
        *,
        report: Callable[[Progress], None] | None = None,
    ) -> None:
        self._executor = executor
        self._journal = journal
        self._clock = clock
        self._report = report
        #: Finished trials by key: a journaled one, or an equal one, is not run again.
        self.finished: dict[str, Trial] = {
            trial.key: trial
            for trial in (
                Trial.from_json(r["trial"]) for r in journal.records if r["kind"] == "trial"
            )
        }
        self._fold_s: dict[str, float] = {}  # the longest fold of each technique so far
        for trial in self.finished.values():
            self._time(trial)

    def search(self, studies: list[Study], *, n_closing: int) -> bool:
        """Run studies to their end; return whether the time limit cut them short.

        Parameters
        ----------
        n_closing
            How many fits of each technique must follow the search.
        """
        queue: deque[tuple[Study, Task]] = deque()
        for study in studies:
            queue.extend((study, task) for task in study.advance())
        self._tell(studies)
        running: dict[int, Study] = {}  # by identity: executors return the very task
        while queue or running:
            while queue and self._executor.has_room and not self._is_due(n_closing):
                study, task = queue.popleft()
                running[id(task)] = study
                self._executor.submit(run_task, task)
            if not running:
                break
            task, result = self._executor.collect()
            study = running.pop(id(task))
            self._record(study.receive(task, _outcomes(task, result)))
            queue.extend((study, t) for t in study.advance())
            self._tell(studies)
        is_cut = not all(study.is_over for study in studies)
        for study in studies:
            if not study.is_over:
                study.stop()
        return is_cut

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Run single-member tasks, yielding each as it ends."""
        queue = deque(tasks)
        n_running = 0
        while queue or n_running:
            while queue and self._executor.has_room:
                self._executor.submit(run_task, queue.popleft())
                n_running += 1
            task, result = self._executor.collect()
            n_running -= 1
            yield task, _outcomes(task, result)[0]

    def _record(self, trials: list[Trial]) -> None:
        if trials:
            self._journal.append({"kind": "trial", "trial": t.to_json()} for t in trials)
        for trial in trials:
            self._time(trial)

    def _time(self, trial: Trial) -> None:
        if trial.is_complete:
            longest = self._fold_s.get(trial.technique, 0.0)
            self._fold_s[trial.technique] = max(longest, trial.seconds / len(trial.folds))

    def _is_due(self, n_closing: int) -> bool:
        if self._clock.limit_s is None or not self._fold_s:
            return False  # a result needs one trial at least, however long it takes
        closing_s = _CLOSING_MARGIN * n_closing * sum(self._fold_s.values())
        return self._clock.elapsed_s + closing_s / self._executor.n_workers > self._clock.limit_s

    def _tell(self, studies: list[Study]) -> None:
        if self._report is None:
            return
        self._report(
            Progress(
                n_done=sum(s.n_finished for s in studies),
                n_total=sum(s.n_trials for s in studies),
                best_error=min(s.least_error for s in studies),
                elapsed_s=self._clock.elapsed_s,
            )
        )


def _outcomes(task: Task, result: object) -> list[Outcome]:
    if isinstance(result, BaseException):
        return [Outcome(0.0, reason=reason_of(result))] * len(task.batch)
    assert isinstance(result, list)
    return result
