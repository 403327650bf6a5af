"""One search in progress: a technique on the training rows of one outer split."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foretell.model.search import Search
from foretell.model.techniques import TECHNIQUES
from foretell.model.validation import Scores
from foretell.model.work import Outcome, Task

Params = dict[str, Any]

#: Racing: how much worse than the best a trial may be after one fold, and after more, both
#: on the same rows, before it is stopped.
_SLACK_FIRST, _SLACK_LATER = 1.02, 1.0


@dataclass
class Trial:
    """One technique with one set of hyperparameters, scored on the selection splits.

    Attributes
    ----------
    outer
        The key of the outer split whose training rows the trial lives in.
    folds
        The scores on the selection splits done so far.
    reason
        Why the trial failed, or None.
    estimate
        What a race that stopped the trial expects its error to be, or None.
    """

    outer: str
    technique: str
    params: Params
    folds: list[Scores] = field(default_factory=list)
    seconds: float = 0.0
    reason: str | None = None
    estimate: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the trial ran on all its folds without failing: only then can it win."""
        return self.reason is None and self.estimate is None and bool(self.folds)

    @property
    def key(self) -> str:
        """What makes two trials equal."""
        return trial_key(self.outer, self.technique, self.params)

    def error(self, score_name: str, n_folds: int | None = None) -> float:
        """Return the mean error over the folds; infinity for a failed trial."""
        if self.reason is not None:
            return math.inf
        if self.estimate is not None and n_folds is None:
            return self.estimate
        return float(np.mean([getattr(s, score_name) for s in self.folds[:n_folds]]))

    def to_json(self) -> dict[str, Any]:
        """Return the trial as plain values."""
        return {
            "outer": self.outer,
            "technique": self.technique,
            "params": self.params,
            "folds": [s.to_json() for s in self.folds],
            "seconds": round(self.seconds, 6),
            "reason": self.reason,
            "estimate": self.estimate,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Trial:
        """Rebuild a trial from plain values."""
        folds = [scores_from_json(s) for s in values["folds"]]
        return cls(**{**values, "folds": folds})


def scores_from_json(values: dict[str, float | None]) -> Scores:
    """Rebuild scores from plain values, None standing for NaN."""
    return Scores(**{k: math.nan if v is None else v for k, v in values.items()})


def trial_key(outer: str, technique: str, params: Params) -> str:
    """Name a trial by what it does."""
    return json.dumps([outer, technique, params], sort_keys=True)


class Study:
    """Drives one search: turns its proposals into tasks, and their outcomes into trials.

    Parameters
    ----------
    split_keys
        The selection splits every trial is scored on.
    finished
        Trials known already, by key: those of the journal, and equal ones.
    """

    def __init__(
        self,
        outer: str,
        technique: str,
        search: Search,
        *,
        split_keys: Sequence[str],
        score_name: str,
        is_racing: bool,
        finished: dict[str, Trial],
    ) -> None:
        self.outer = outer
        self.technique = technique
        self.trials: list[Trial] = []
        self.n_finished = 0
        self.least_error = math.inf
        self.is_over = False
        self._search = search
        self._split_keys = list(split_keys)
        self._score_name = score_name
        self._is_racing = is_racing and len(split_keys) > 1
        self._finished = finished
        self._batch: list[Trial] = []
        self._waiting: set[tuple[str, int]] = set()
        self._results: dict[tuple[str, int], Outcome] = {}

    @property
    def n_trials(self) -> int:
        """How many trials the search makes."""
        return self._search.n_trials

    def stop(self) -> None:
        """Give up the rest of the search; trials that are finished stay."""
        self.trials += [t for t in self._batch if t.key in self._finished]
        self._batch = []
        self.is_over = True

    def best(self) -> Trial | None:
        """Return the complete trial with the least error so far, the first of equals."""
        complete = [t for t in self.trials if t.is_complete]
        return min(complete, key=self._error, default=None)

    def advance(self) -> list[Task]:
        """Return the tasks to run next; none while some are out, or when the search is over."""
        while not (self.is_over or self._waiting):
            if not self._batch:
                self._propose()
                continue
            tasks = self._tasks()
            if tasks:
                return tasks
            self._search.tell([self._error(t) for t in self._batch])
            self.trials += self._batch
            self.n_finished = len(self.trials)
            self._batch = []
        return []

    def receive(self, task: Task, outcomes: Sequence[Outcome]) -> list[Trial]:
        """Take in the outcomes of a task; return the trials that are finished by it."""
        fold = self._split_keys.index(task.split_key)
        for params, outcome in zip(task.batch, outcomes, strict=True):
            key = trial_key(self.outer, self.technique, params)
            self._waiting.discard((key, fold))
            self._results[key, fold] = outcome
        if self._waiting:
            return []
        return self._close_stage()

    def _error(self, trial: Trial) -> float:
        return trial.error(self._score_name)

    def _propose(self) -> None:
        proposed = self._search.propose()
        self.is_over = not proposed
        self._batch = [
            self._finished.get(trial_key(self.outer, self.technique, params))
            or Trial(self.outer, self.technique, params)
            for params in proposed
        ]
        self._count(t for t in self._batch if t.key in self._finished)

    def _count(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self.n_finished += 1
            if trial.is_complete:
                self.least_error = min(self.least_error, self._error(trial))

    def _live(self) -> dict[str, Trial]:
        """Return the trials of the batch that need more folds, equal ones once."""
        return {t.key: t for t in self._batch if t.key not in self._finished}

    def _tasks(self) -> list[Task]:
        live = self._live()
        if not live:
            # Equal trials of one batch share one result.
            self._batch = [self._finished[t.key] for t in self._batch]
            return []
        first = min(len(t.folds) for t in live.values())
        folds = [first] if self._is_racing else range(first, len(self._split_keys))
        self._waiting = {(key, fold) for key in live for fold in folds}
        return [
            Task(self.technique, batch, self._split_keys[fold])
            for batch in self._path_groups([t.params for t in live.values()])
            for fold in folds
        ]

    def _path_groups(self, params: list[Params]) -> list[tuple[Params, ...]]:
        """Group hyperparameters that one fit serves."""
        path = TECHNIQUES.get(self.technique).path
        groups: dict[str, list[Params]] = {}
        for p in params:
            rest = {k: v for k, v in p.items() if k != path}
            groups.setdefault(json.dumps(rest, sort_keys=True), []).append(p)
        return [tuple(group) for group in groups.values()]

    def _close_stage(self) -> list[Trial]:
        """Enter the results in fold order, race, and finish what is done."""
        incumbent = self.best()
        done = []
        for key, trial in self._live().items():
            for fold in range(len(trial.folds), len(self._split_keys)):
                outcome = self._results.pop((key, fold), None)
                if outcome is None or trial.reason is not None:
                    continue
                self._enter(trial, outcome)
            if self._is_racing and incumbent is not None:
                self._race(trial, incumbent)
            if trial.reason or trial.estimate or len(trial.folds) == len(self._split_keys):
                self._finished[key] = trial
                done.append(trial)
        self._count(done)
        return done

    def _enter(self, trial: Trial, outcome: Outcome) -> None:
        trial.seconds += outcome.seconds
        if outcome.test is None:
            trial.reason = outcome.reason
        elif not math.isfinite(getattr(outcome.test, self._score_name)):
            trial.reason = f"{self._score_name} is not finite"
        else:
            trial.folds.append(outcome.test)

    def _race(self, trial: Trial, incumbent: Trial) -> None:
        n_done = len(trial.folds)
        if trial.reason is not None or n_done == len(self._split_keys):
            return
        reference = incumbent.error(self._score_name, n_done)
        slack = _SLACK_FIRST if n_done == 1 else _SLACK_LATER
        ratio = trial.error(self._score_name, n_done) / max(reference, 1e-300)
        if ratio > slack:
            trial.estimate = ratio * self._error(incumbent)
