"""The engine: keeps workers busy, journals finished work, and watches the time limit."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, zip_longest
from statistics import fmean, median

from foretell.executors import Executor
from foretell.files.journal import Journal
from foretell.model.campaigns.study import Study, Trial
from foretell.model.campaigns.work import Outcome, Task, run_task
from foretell.model.run_options import Clock, Progress

#: Each fit after the search is judged to take this much longer than a fold did: it sees more rows,
#: its hyperparameters are seldom the cheapest, and the model has to be written.
_CLOSING_MARGIN = 3.0
_RECENT = 50


class Engine:
    """Runs studies and tasks on an executor.

    ``report``: called after each finished task of a search.
    """

    def __init__(
        self,
        executor: Executor,
        journal: Journal,
        clock: Clock,
        log: logging.Logger,
        *,
        report: Callable[[Progress], None] | None = None,
    ) -> None:
        self._executor = executor
        self._journal = journal
        self._clock = clock
        self._log = log
        self._report = report
        #: Finished trials by key: a journaled one, or an equal one, is not run again.
        known = [Trial.from_json(r["trial"]) for r in journal.records if r["kind"] == "trial"]
        self.finished: dict[str, Trial] = {trial.key: trial for trial in known}
        self._fold_s: dict[str, deque[float]] = {}  # how long folds of each technique took lately
        for trial in self.finished.values():
            self._time(trial)
        log.info("%d trials taken from the journal", len(self.finished))

    def search(self, studies: list[Study], *, n_closing: int, is_optional: bool = False) -> bool:
        """Run studies to their end; return whether the time limit cut them short.

        Parameters
        ----------
        n_closing
            How many fits of each technique must follow the search.
        is_optional
            Whether the time limit may leave nothing of it. Otherwise the search goes on until one
            technique has a winner on every outer split, however long that takes.
        """
        self._run_studies(studies, n_closing, is_optional)
        is_cut = not all(study.is_over for study in studies)
        for study in studies:
            if not study.is_over:
                study.stop()
        return is_cut

    def _run_studies(self, studies: list[Study], n_closing: int, is_optional: bool) -> None:
        # In turns, so that a time limit leaves every technique something.
        first = ([(study, task) for task in study.advance()] for study in studies)
        turns = chain.from_iterable(zip_longest(*first))
        queue: deque[tuple[Study, Task]] = deque(turn for turn in turns if turn is not None)
        self._tell(studies)
        running: dict[int, Study] = {}  # by identity: executors return the very task
        while queue or running:
            while queue and self._executor.has_room:
                if self._is_due(n_closing) and not _pull_needed(queue, studies, is_optional):
                    break
                study, task = queue.popleft()
                running[id(task)] = study
                self._executor.submit(run_task, task)
            if not running:
                break
            task, result, *_ = self._executor.wait()
            study = running.pop(id(task))
            self._record(study.receive(task, _outcomes(task, result)))
            queue.extend((study, t) for t in study.advance())
            self._tell(studies)

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Outcome]]:
        """Run single-member tasks, yielding each as it ends."""
        for task, result, *_ in self._executor.run(run_task, tasks):
            yield task, _outcomes(task, result)[0]

    def _record(self, trials: list[Trial]) -> None:
        lasting = [t for t in trials if not t.is_transient]  # the others get another chance
        if lasting:
            self._journal.append({"kind": "trial", "trial": t.to_json()} for t in lasting)
        for trial in trials:
            self._time(trial)
            if trial.reason is not None:
                self._log.warning("%s %s failed: %s", trial.technique, trial.params, trial.reason)

    def _time(self, trial: Trial) -> None:
        if trial.is_complete:
            seconds = trial.seconds / len(trial.folds)
            self._fold_s.setdefault(trial.technique, deque(maxlen=_RECENT)).append(seconds)

    def _is_due(self, n_closing: int) -> bool:
        if self._clock.limit_s is None:
            return False
        # Medians: the first fold in each worker also imports the technique's library.
        folds_s = [median(seconds) for seconds in self._fold_s.values()]
        running_s = self._executor.n_pending * max(folds_s, default=0.0)
        ahead_s = running_s + _CLOSING_MARGIN * n_closing * sum(folds_s)
        return self._clock.elapsed_s + ahead_s / self._executor.n_workers > self._clock.limit_s

    def _left_s(self, studies: list[Study]) -> float | None:
        """Estimate the rest of a search: each technique's trials as long as its trials so far."""
        if not self._fold_s:
            return None
        known = {name: fmean(seconds) for name, seconds in self._fold_s.items()}
        unknown = fmean(known.values())
        work_s = sum(
            (s.n_trials - s.n_finished) * s.n_folds * known.get(s.technique, unknown)
            for s in studies
        )
        return work_s / self._executor.n_workers

    def _tell(self, studies: list[Study]) -> None:
        if self._report is None:
            return
        self._report(
            Progress(
                n_done=sum(s.n_finished for s in studies),
                n_total=sum(s.n_trials for s in studies),
                best_error=min(s.least_error for s in studies),
                score_name=studies[0].score_name,
                left_s=self._left_s(studies),
            )
        )


def _pull_needed(queue: deque[tuple[Study, Task]], studies: list[Study], is_optional: bool) -> bool:
    """Move a task that every result depends on to the front; return whether there was one."""
    needed = [] if is_optional else _missing(studies)
    for position, (study, _) in enumerate(queue):
        if study in needed:
            queue.rotate(-position)
            return True
    return False


def _missing(studies: list[Study]) -> list[Study]:
    """Find what the technique nearest to a winner on every outer split lacks; maybe nothing."""
    by_technique: dict[str, dict[str, list[Study]]] = {}
    for study in studies:
        by_technique.setdefault(study.technique, {}).setdefault(study.outer, []).append(study)
    nearest: list[list[Study]] | None = None
    for splits in by_technique.values():
        lacking = [g for g in splits.values() if all(s.least_error == math.inf for s in g)]
        is_hopeless = any(all(study.is_over for study in group) for group in lacking)
        if not is_hopeless and (nearest is None or len(lacking) < len(nearest)):
            nearest = lacking
    return [study for group in nearest or [] for study in group]


def _outcomes(task: Task, result: object) -> list[Outcome]:
    if isinstance(result, BaseException):
        return [Outcome.failed(result)] * len(task.batch)
    assert isinstance(result, list)
    return result
