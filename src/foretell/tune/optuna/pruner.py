"""A pruner that compares trials at equal elapsed time, and prunes what would not end in time."""

from __future__ import annotations

import math
from datetime import datetime

import numpy as np
import optuna
from optuna.pruners import BasePruner
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from foretell.errors import Option, UsageError
from foretell.tune.optuna.elapsed import elapsed_by_step, note_step


class TimePruner(BasePruner):
    """Prunes trials that are behind others after the same time, or that would not end in time.

    Others are compared after as many seconds, not after as many steps: a trial with quick epochs
    is not held back by one with slow ones.

    Parameters
    ----------
    wrapped
        Another pruner, which prunes as well.
    deadline_s
        How long the study may take, from the start of its first trial. A trial whose predicted
        rest would go beyond it is pruned.
    max_epochs
        How many steps a trial has; by default as many as trials that were completed.
    n_startup_trials
        No trial is compared before so many are completed.
    warm_up
        No trial is compared before this share of the usual time of a trial.

    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.ERROR)
    >>> study = optuna.create_study(pruner=TimePruner(deadline_s=3600))
    >>> study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    """

    def __init__(
        self,
        wrapped: BasePruner | None = None,
        *,
        deadline_s: float | None = None,
        max_epochs: int | None = None,
        n_startup_trials: int = 5,
        warm_up: float = 0.1,
    ) -> None:
        if wrapped is not None and not isinstance(wrapped, BasePruner):
            raise UsageError(
                f"must be a pruner such as optuna.pruners.MedianPruner(), not {wrapped!r}",
                option=Option("wrapped"),
            )
        if deadline_s is not None and not deadline_s > 0:
            raise UsageError(f"must be above 0, not {deadline_s:g}", option=Option("deadline_s"))
        if max_epochs is not None and max_epochs < 1:
            raise UsageError(f"must be at least 1, not {max_epochs}", option=Option("max_epochs"))
        if n_startup_trials < 1:
            raise UsageError(
                f"must be at least 1, not {n_startup_trials}", option=Option("n_startup_trials")
            )
        if not 0 <= warm_up < 1:
            raise UsageError(f"must be from 0 to 1, not {warm_up:g}", option=Option("warm_up"))
        self._wrapped_pruner, self._deadline_s, self._max_epochs = wrapped, deadline_s, max_epochs
        self._n_startup_trials, self._warm_up = n_startup_trials, warm_up

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Tell whether a trial should end after the step that it has reported."""
        elapsed = note_step(study, trial)
        is_wrapped_out = self._wrapped_pruner is not None and self._wrapped_pruner.prune(
            study, trial
        )
        step = trial.last_step
        if step is None or is_wrapped_out:
            return is_wrapped_out
        if math.isnan(trial.intermediate_values[step]):
            return True
        trials = study.get_trials(deepcopy=False)
        done = [t for t in trials if t.state == TrialState.COMPLETE and elapsed_by_step(t)]
        now_s = elapsed[step]
        return self._is_late(trials, done, trial, now_s) or self._is_behind(
            study, done, trial, now_s
        )

    def _is_late(
        self, trials: list[FrozenTrial], done: list[FrozenTrial], trial: FrozenTrial, now_s: float
    ) -> bool:
        """Tell whether the rest of a trial would go beyond the time of the study."""
        starts = [t.datetime_start for t in trials if t.datetime_start is not None]
        if self._deadline_s is None or not starts:
            return False
        n_steps = len(trial.intermediate_values)
        most = self._max_epochs
        if most is None:
            most = int(np.median([len(t.intermediate_values) for t in done])) if done else n_steps
        rest_s = max(most - n_steps, 0) * now_s / n_steps
        spent_s = (datetime.now() - min(starts)).total_seconds()
        return spent_s + rest_s > self._deadline_s

    def _is_behind(
        self, study: optuna.Study, done: list[FrozenTrial], trial: FrozenTrial, now_s: float
    ) -> bool:
        """Tell whether a trial is below the median of completed ones after the same time."""
        if len(done) < self._n_startup_trials:
            return False
        usual_s = float(np.median([max(elapsed_by_step(t).values()) for t in done]))
        if now_s < self._warm_up * usual_s:
            return False
        sign = 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0
        others = [best_after(t, now_s, sign) for t in done]
        known = [v for v in others if not math.isnan(v)]
        own = best_after(trial, math.inf, sign)
        return len(known) >= self._n_startup_trials and own < float(np.median(known))


def best_after(trial: FrozenTrial, seconds: float, sign: float) -> float:
    """Return the best value of a trial after some seconds, so that larger is better; else NaN."""
    elapsed = elapsed_by_step(trial)
    values = [
        sign * value
        for step, value in trial.intermediate_values.items()
        if elapsed.get(step, 0.0 if math.isinf(seconds) else math.inf) <= seconds
        and not math.isnan(value)
    ]
    return max(values, default=math.nan)
