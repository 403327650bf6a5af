"""A callback for `study.optimize`: tells the time left after each trial."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import optuna
from optuna.pruners import BasePruner, HyperbandPruner, NopPruner, SuccessiveHalvingPruner
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from foretell.decide.tuning.rungs import Rules
from foretell.decide.tuning.search import Search
from foretell.decide.tuning.space import Space
from foretell.errors import error_lines
from foretell.spaces.quantities import duration
from foretell.tune.models import Model, given
from foretell.tune.optuna.costs import plain, space_of
from foretell.tune.optuna.elapsed import elapsed_by_step
from foretell.tune.time_left import TimeLeft

LOG = logging.getLogger("foretell.tune")
_UNKNOWN = (math.nan, math.nan, math.nan)
_ALL = -1  # of a trial that has ended, and whose epochs are all told


class Callback:
    """Tells how long a study will still take, after each trial; better with each of them.

    Parameters
    ----------
    n_trials, n_jobs
        As they are given to ``study.optimize``; if several processes work on the study, the sums
        over all of them.
    max_epochs
        How many steps a trial reports at most; 1 if it reports none.
    scheduler, eta, min_epochs
        The rules of the pruner; by default those of Optuna's own pruners are recognized, and
        trials under others are taken to train to the end.
    space, model
        The space and a model of epoch times, if there are any; without, both are learnt. A model
        that needs more than trials choose is only of use with a space that has it.
    job, share
        If the model is a store of epochs: which job is meant, and whether those of other machines
        count.
    tell
        Takes a line of text; by default it goes to the log of Optuna.

    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.ERROR)
    >>> lines = []
    >>> study = optuna.create_study()
    >>> callback = Callback(n_trials=3, tell=lines.append)
    >>> study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=3, callbacks=[callback])
    >>> lines[-1]
    '3 of 3 trials ended.'
    """

    def __init__(  # noqa: PLR0913 - all but the first two by name
        self,
        n_trials: int,
        max_epochs: int = 1,
        *,
        n_jobs: int = 1,
        scheduler: str | None = None,
        eta: float = 3,
        min_epochs: int = 1,
        space: Space | Mapping[str, Any] | str | None = None,
        model: Model | None = None,
        job: str | None = None,
        share: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        rules = Rules(max_epochs, eta, min_epochs)
        n_slots = n_jobs if n_jobs > 0 else _n_cores()
        self._recognizes = scheduler is None
        if scheduler is None:  # the pruner has rules of its own
            self._search = Search("random", n_trials, Rules(max_epochs), n_slots)
        else:
            self._search = Search(scheduler, n_trials, rules, n_slots)
        self._space, self._times = given(space, model, job, share=share)
        self._tell = optuna.logging.get_logger("optuna.foretell").info if tell is None else tell
        self._left: TimeLeft | None = None
        self._fed: dict[int, int] = {}
        self._start_s, self._created = time.monotonic(), datetime.now()
        self._lock = threading.Lock()

    def __call__(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Take note of a trial that has ended, and tell the time left."""
        with self._lock:
            try:
                line = self._line(study, trial)
                if line is not None:
                    self._tell(line)
            except Exception as error:  # it would end the study
                _warn(error)

    def _line(self, study: optuna.Study, trial: FrozenTrial) -> str | None:
        left = self._time_left(study)
        self._feed(left, study, trial)
        n, most = left.n_ended, left.n_trials
        median, lower, upper = left.left()
        if n >= most:
            return f"{n} of {most} trials ended."
        if math.isnan(median):
            return None
        return (
            f"{n} of {most} trials ended; about {duration(median)} left "
            f"({duration(lower)} – {duration(upper)})."
        )

    def left(self) -> tuple[float, float, float]:
        """Return the median and the ends of a 90 % interval of the time left, in seconds."""
        with self._lock:
            try:
                return _UNKNOWN if self._left is None else self._left.left()
            except Exception as error:
                _warn(error)
                return _UNKNOWN

    def _time_left(self, study: optuna.Study) -> TimeLeft:
        if self._left is None:
            if self._recognizes:
                self._search = recognized(study.pruner, self._search)
            self._search = replace(self._search, study=study.study_name)
            is_max = len(study.directions) == 1 and study.direction == StudyDirection.MAXIMIZE
            self._left = TimeLeft(
                self._search,
                space=self._space,
                model=self._times,
                mode="max" if is_max else "min",
                start_s=self._start_s,
            )
        return self._left

    def _feed(self, left: TimeLeft, study: optuna.Study, trial: FrozenTrial) -> None:
        """Tell what trials reported since the last time, those of other processes too."""
        if not left.knows_space:
            space = space_of(trial.distributions)
            if space is not None:
                left.use_space(space)
        offset_s = time.monotonic() - datetime.now().timestamp()
        for other in study.get_trials(deepcopy=False):
            start = other.datetime_start
            is_known = self._fed.get(other.number) == _ALL
            if is_known or start is None or self._is_of_before(other, start):
                continue
            self._feed_epochs(left, other, start.timestamp() + offset_s)
            if other.state.is_finished():
                end = other.datetime_complete or datetime.now()
                left.ended(other.number, at_s=end.timestamp() + offset_s)
                self._fed[other.number] = _ALL

    def _is_of_before(self, trial: FrozenTrial, start: datetime) -> bool:
        """Tell whether a trial began before this callback, and is not known to have ended since."""
        return start < self._created and (trial.datetime_complete or start) < self._created

    def _feed_epochs(self, left: TimeLeft, trial: FrozenTrial, start_s: float) -> None:
        values: dict[int, float | None] = dict(sorted(trial.intermediate_values.items()))
        if trial.state == TrialState.COMPLETE and not values:
            values = {0: trial.values[0]}
        elif not values:
            return
        params = {name: plain(value) for name, value in trial.params.items()}
        fed, at_s = self._fed.get(trial.number, 0), start_s
        seconds = _seconds(trial, list(values))
        for n, (step, value) in enumerate(values.items(), start=1):
            if step not in seconds:
                return
            at_s += seconds[step]
            if n > fed:
                left.epoch(
                    trial.number, n, seconds[step], configuration=params, value=value, at_s=at_s
                )
                self._fed[trial.number] = n


def _seconds(trial: FrozenTrial, steps: list[int]) -> dict[int, float]:
    """Return the seconds of each step: as noted by a TimePruner, or parts of the whole."""
    elapsed = elapsed_by_step(trial)
    if steps and all(step in elapsed for step in steps):
        times = [0.0, *(elapsed[step] for step in steps)]
        return {s: max(b - a, 0.0) for s, a, b in zip(steps, times, times[1:], strict=False)}
    if not steps or trial.duration is None:
        return {}
    return dict.fromkeys(steps, trial.duration.total_seconds() / len(steps))


def recognized(pruner: BasePruner, search: Search) -> Search:
    """Return the search under one of Optuna's pruners, as far as it is known here."""
    rules = search.rules
    if isinstance(pruner, SuccessiveHalvingPruner | HyperbandPruner):
        least = getattr(pruner, "_min_resource", None)
        eta = getattr(pruner, "_reduction_factor", rules.eta)
        skipped = getattr(pruner, "_min_early_stopping_rate", 0)
        first = int(least * eta**skipped) if isinstance(least, int) else 1
        rules = replace(rules, eta=eta, min_epochs=min(first, rules.max_epochs))
        name = "optuna-halving" if isinstance(least, int) else "optuna-halving-auto"
        if isinstance(pruner, HyperbandPruner):
            name = "optuna-hyperband"
        return replace(search, scheduler=name, rules=rules)
    wrapped = getattr(pruner, "_wrapped_pruner", None)
    if isinstance(wrapped, BasePruner) and not isinstance(wrapped, NopPruner):
        return recognized(wrapped, search)
    return search


def _warn(error: Exception) -> None:
    LOG.warning("the time left is not known: %s", error_lines(error)[0])


def _n_cores() -> int:
    from foretell.executors import n_cores

    return n_cores()
