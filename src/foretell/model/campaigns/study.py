"""One search in progress: a technique on the training rows of one outer split."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np

from foretell.model.campaigns.search.searches import Search
from foretell.model.campaigns.validation.scores import Scores
from foretell.model.campaigns.validation.splits import OuterSplit
from foretell.model.campaigns.work import Outcome, Task

Params = dict[str, Any]
Groups = Callable[[str, Sequence[Params], str], list[tuple[Params, ...]]]

#: How much worse than the best a trial may be after one fold; after k folds, a k-th of it. One fold
#: says less than several, even on the same rows.
_RACING_MARGIN = 0.01


@dataclass
class Trial:
    """One technique with one set of hyperparameters, scored on the selection splits.

    Attributes
    ----------
    outer
        The key of the outer split whose training rows the trial lives in.
    search
        Which search of the technique it belongs to: each races against its own best.
    folds
        The scores on the selection splits done so far.
    estimate
        What a race that stopped the trial expects its error to be, or None.
    is_transient
        Whether it failed for lack of memory or a similar reason, so that it may be run again.
    """

    outer: str
    technique: str
    params: Params
    search: int = 0
    folds: list[Scores] = field(default_factory=list)
    seconds: float = 0.0
    reason: str | None = None
    estimate: float | None = None
    is_transient: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the trial ran on all its folds without failing: only then can it win."""
        return self.reason is None and self.estimate is None and bool(self.folds)

    @property
    def key(self) -> str:
        """What makes two trials equal."""
        return trial_key(self.outer, self.technique, self.params, self.search)

    def error(self, score_name: str, n_folds: int | None = None) -> float:
        """Return the mean error over the folds; infinity for a failed trial."""
        if self.reason is not None:
            return math.inf
        if self.estimate is not None and n_folds is None:
            return self.estimate
        return float(np.mean([getattr(s, score_name) for s in self.folds[:n_folds]]))

    def to_json(self) -> dict[str, Any]:
        """Return the trial as plain values."""
        folds = [s.to_json() for s in self.folds]
        values = {**vars(self), "folds": folds, "seconds": round(self.seconds, 6)}
        del values["is_transient"]  # such trials are never kept
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Trial:
        """Rebuild a trial from plain values."""
        folds = [Scores.from_json(s) for s in values["folds"]]
        return cls(**{**values, "folds": folds})


def trial_key(outer: str, technique: str, params: Params, search: int) -> str:
    """Name a trial by what it does."""
    return json.dumps([outer, technique, params, search], sort_keys=True)


class Study:
    """Drives one search: turns its proposals into tasks, and their outcomes into trials.

    Parameters
    ----------
    number
        Which search of the technique on this split it is.
    finished
        Trials known already, by key: those of the journal, and equal ones.
    groups
        Groups hyperparameters of a technique whose fits on a split have much in common.
    """

    def __init__(  # noqa: PLR0913 - all but the first three by name
        self,
        split: OuterSplit,
        technique: str,
        search: Search,
        *,
        number: int,
        score_name: str,
        is_racing: bool,
        finished: dict[str, Trial],
        groups: Groups,
    ) -> None:
        self.outer = split.key
        self.technique = technique
        self.trials: list[Trial] = []
        self.n_finished = 0
        self.least_error = math.inf
        self.is_over = False
        self._search = search
        self._number = number
        self._split_keys = split.selection_keys
        self.score_name = score_name
        self._is_racing = is_racing and len(split.selection_keys) > 1
        self._finished = finished
        self._groups = groups
        #: The complete trial with the least error of all finished batches, the first of equals.
        self.best: Trial | None = None
        self._batch: list[str] = []  # the keys of what was proposed last, in its order
        self._open: dict[str, Trial] = {}  # what the batch still needs folds of, equal ones once
        self._out: dict[str, set[int]] = {}  # the folds that open trials wait for
        self._results: dict[tuple[str, int], Outcome] = {}

    @property
    def n_trials(self) -> int:
        """How many trials the search makes."""
        return self._search.n_trials

    def stop(self) -> None:
        """Give up the rest of the search; trials that are finished stay."""
        self._close_batch()
        self._open, self._out = {}, {}
        self.is_over = True

    @property
    def n_folds(self) -> int:
        """How many selection splits a trial is scored on."""
        return len(self._split_keys)

    def advance(self) -> list[Task]:
        """Return the tasks to run next; none while some are out, or when the search is over."""
        while not (self.is_over or self._out):
            if self._open:
                return self._tasks()
            if self._batch:
                self._search.tell([self._error(t) for t in self._close_batch()])
            self._propose()
        return []

    def receive(self, task: Task, outcomes: Sequence[Outcome]) -> list[Trial]:
        """Take in the outcomes of a task; return the trials that are finished by it."""
        fold = self._split_keys.index(task.split_key)
        done = []
        for params, outcome in zip(task.batch, outcomes, strict=True):
            key = self._key(params)
            self._results[key, fold] = outcome
            self._out[key].remove(fold)
            if self._out[key]:
                continue
            del self._out[key]
            if self._close_stage(key):
                self._finished[key] = self._open.pop(key)
                done.append(self._finished[key])
        self._count(done)
        return done

    def _error(self, trial: Trial) -> float:
        return trial.error(self.score_name)

    def _key(self, params: Params) -> str:
        return trial_key(self.outer, self.technique, params, self._number)

    def _propose(self) -> None:
        proposed = self._search.propose()
        self.is_over = not proposed
        self._batch = [self._key(params) for params in proposed]
        self._open = {
            key: Trial(self.outer, self.technique, params, self._number)
            for key, params in zip(self._batch, proposed, strict=True)
            if key not in self._finished
        }
        self._count(self._finished[key] for key in self._batch if key in self._finished)

    def _count(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self.n_finished += 1
            if trial.is_complete:
                self.least_error = min(self.least_error, self._error(trial))

    def _close_batch(self) -> list[Trial]:
        """Keep what is finished of the batch; equal trials share one result."""
        finished = [self._finished[key] for key in self._batch if key in self._finished]
        self.trials += finished
        self.n_finished = len(self.trials)
        self._batch = []
        complete = [t for t in [self.best, *finished] if t is not None and t.is_complete]
        self.best = min(complete, key=self._error, default=None)
        return finished

    def _tasks(self) -> list[Task]:
        first = min(len(t.folds) for t in self._open.values())
        # A race goes one fold, two more, four more: the longer it lasts, the more run side by side.
        end = 2 * first + 1 if self._is_racing else len(self._split_keys)
        folds = range(first, min(end, len(self._split_keys)))
        self._out = {key: set(folds) for key in self._open}
        space = [trial.params for trial in self._open.values()]
        of_folds = [
            [Task(self.technique, batch, key) for batch in self._groups(self.technique, space, key)]
            for key in (self._split_keys[fold] for fold in folds)
        ]
        # A few hyperparameters on all folds, then the next: so trials end one after the other.
        return [task for tasks in zip_longest(*of_folds) for task in tasks if task is not None]

    def _close_stage(self, key: str) -> bool:
        """Enter a trial's results in fold order and race it; say whether it is finished."""
        trial = self._open[key]
        for fold in range(len(trial.folds), len(self._split_keys)):
            outcome = self._results.pop((key, fold), None)
            if outcome is not None and trial.reason is None:
                self._enter(trial, outcome)
        if trial.reason is not None or len(trial.folds) == len(self._split_keys):
            return True
        # The best of earlier batches, whatever ended first in this one: the order never matters.
        return self.best is not None and self._loses(trial, self.best)

    def _enter(self, trial: Trial, outcome: Outcome) -> None:
        trial.seconds += outcome.seconds
        if outcome.test is None:
            trial.reason, trial.is_transient = outcome.reason, outcome.is_transient
        elif not math.isfinite(getattr(outcome.test, self.score_name)):
            trial.reason = f"{self.score_name} is not finite"
        else:
            trial.folds.append(outcome.test)

    def _loses(self, trial: Trial, incumbent: Trial) -> bool:
        """Stop a trial that is worse than the incumbent on the same rows; estimate its error."""
        n_done = len(trial.folds)
        error = trial.error(self.score_name, n_done)
        reference = incumbent.error(self.score_name, n_done)
        if error <= (1 + _RACING_MARGIN / n_done) * reference:
            return False
        trial.estimate = error
        if reference > 0:
            trial.estimate *= self._error(incumbent) / reference
        return True
