"""Running one trial: rung by rung, until its goal is reached or it cannot win any more."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from foretell.errors import UsageError, error_lines
from foretell.tune.budgets import Budget
from foretell.tune.onefold.goal import Goal, ms
from foretell.tune.onefold.inference import Inference, InferenceCache, is_within
from foretell.tune.onefold.system import applied
from foretell.tune.onefold.trials import (
    FAILED,
    KEPT,
    SPENT,
    STOPPED,
    Progress,
    Rung,
    Trial,
    checked,
)
from foretell.wording import counted, number, plain

#: Trains one trial for one budget: the settings, the budget, and the state of the rung before.
Train = Callable[[dict[str, Any], Budget, Any], "Progress | float"]


class Judge(Protocol):
    """Compares a trial with others at the same rung."""

    def report(self, score: float, step: int) -> None:
        """Take the score of a rung."""

    def should_prune(self) -> bool:
        """Whether the trial is worse than others at this rung."""


class _CallError(UsageError):
    """The call of the search is wrong: every other trial would end the same way."""


class _StoppedError(Exception):
    """Ends a trial before its budget does; its text says why."""


@dataclass
class Attempt:
    """A trial that is under way."""

    number: int
    config: dict[str, Any]
    judge: Judge
    rungs: list[Rung] = field(default_factory=list)
    inference: Inference | None = None
    state: Any = None
    score: float | None = None

    def ended(self, status: str, why: str) -> Trial:
        """Return the trial as it ended."""
        rungs = tuple(self.rungs)
        return Trial(self.number, self.config, status, why, rungs, self.inference)


@dataclass
class TrialRunner:
    """Runs trials one after another.

    Attributes
    ----------
    best
        The best trial that keeps all limits, and the state that its training left; a state of an
        earlier process is lost.
    """

    train: Train
    goal: Goal
    budgets: list[Budget]
    cache: InferenceCache
    system: tuple[str, ...] = ()
    is_anew: bool = False
    best: Trial | None = None
    best_state: Any = None
    has_state: bool = False
    rungs_s: dict[int, list[float]] = field(default_factory=dict)

    def remember(self, trial: Trial) -> None:
        """Take a trial of an earlier process."""
        if trial.inference is not None:
            self.cache.remember(trial.config, trial.inference)
        self._note(trial, None, has_state=False)

    def run(self, attempt: Attempt) -> Trial:
        """Run a trial to its end; an error of its training is its result."""
        try:
            trial = self._run(attempt)
        except _StoppedError as stopped:
            trial = attempt.ended(STOPPED, str(stopped))
        except _CallError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {plain(error_lines(error)[0], 300)}"
            trial = attempt.ended(FAILED, why)
        self._note(trial, attempt.state, has_state=True)
        return trial

    def retrain(self, trial: Trial) -> Any:
        """Train a trial again, rung by rung, as it was trained; return its state."""
        state = None
        for budget in self.budgets[: len(trial.rungs)]:
            state = self._trained(dict(trial.config), budget, state)[0].state
        return state

    def _run(self, attempt: Attempt) -> Trial:
        for budget in self.budgets:
            self._check_inference(attempt, is_needed=self._is_due(attempt, budget))
            self._climb(attempt, budget)
            accuracy = attempt.rungs[-1].accuracy
            is_last = budget is self.budgets[-1] or self.goal.is_reached(accuracy)
            if is_last:
                return self._finished(attempt)
            score = self.goal.score(attempt.rungs, attempt.inference, is_last=False)
            attempt.judge.report(score, budget.iteration)
            if attempt.judge.should_prune() and not self._may_be_the_only_one(attempt):
                raise _StoppedError(f"behind others after {budget}")
            self._check_time(attempt)
        raise AssertionError("a search has at least one rung")

    def _may_be_the_only_one(self, attempt: Attempt) -> bool:
        """Whether it keeps all limits and no trial did so far: those ahead may break one."""
        return self.best is None and self.goal.is_kept(attempt.ended(STOPPED, "behind others"))

    def _climb(self, attempt: Attempt, budget: Budget) -> None:
        """Train one rung."""
        progress, train_s = self._trained(attempt.config, budget, attempt.state)
        attempt.state = progress.state
        attempt.rungs.append(
            Rung(
                rung=budget.rung,
                iteration=budget.iteration,
                epochs=len(budget.epochs),
                share=budget.share,
                accuracy=progress.accuracy,
                train_s=train_s,
                energy_j=progress.energy_j,
            )
        )
        if self.goal.objective == "energy-ratio" and progress.energy_j is None:
            raise _CallError(
                "a ratio of energies needs that of training: return a Progress with energy_j"
            )

    def _trained(
        self, config: Mapping[str, Any], budget: Budget, state: Any
    ) -> tuple[Progress, float]:
        with applied(config, self.system):
            started = time.perf_counter()
            returned = self.train(dict(config), budget, None if self.is_anew else state)
            return checked(returned), time.perf_counter() - started

    def _finished(self, attempt: Attempt) -> Trial:
        accuracy = attempt.rungs[-1].accuracy
        if not self.goal.violations(accuracy, None):
            self._check_inference(attempt, is_needed=True)
        attempt.score = self.goal.score(attempt.rungs, attempt.inference, is_last=True)
        broken = self.goal.violations(accuracy, attempt.inference)
        if broken:
            return attempt.ended(SPENT, broken[0])
        return attempt.ended(KEPT, "keeps all limits")

    def _check_inference(self, attempt: Attempt, *, is_needed: bool) -> None:
        """Find the latency of the trial's network, and stop if it is over the limit."""
        if attempt.inference is not None:
            return
        measured = self.cache.measured if is_needed else self.cache.find
        found = attempt.inference = measured(attempt.config)
        if found is None:
            return
        if self.goal.objective == "energy-ratio" and found.energy_j is None:
            raise _CallError(
                "a ratio of energies needs that of inference, and the deployable tells none; give "
                "Deployable the watts of this machine, idle and busy: power='20W,65W'"
            )
        if not is_within(found.p99_s, self.goal.p99_s):
            raise _StoppedError(f"p99 {ms(found.p99_s)} is over {ms(self.goal.p99_s)}")

    def _check_time(self, attempt: Attempt) -> None:
        """Stop a trial that took longer than the best one in all."""
        if self.goal.is_ratio or self.best is None:
            return
        spent_s = sum(rung.train_s for rung in attempt.rungs)
        if spent_s >= self.best.train_s:
            took = f"{number(self.best.train_s, 3)} s of trial {self.best.number}"
            raise _StoppedError(
                f"slower after {counted(len(attempt.rungs), 'rung')} than the {took} in all"
            )

    def _is_due(self, attempt: Attempt, budget: Budget) -> bool:
        """Whether to find the latency before a rung: if that is cheaper than training it in vain.

        How long it takes is learnt with the first network that survives a rung.
        """
        if self.goal.is_ratio or self.goal.p99_s is None:
            return self.goal.is_ratio
        cost_s = self.cache.cost_s
        return budget.rung > 0 if cost_s is None else cost_s <= self._expected_s(attempt, budget)

    def _expected_s(self, attempt: Attempt, budget: Budget) -> float:
        """Return how long a rung will take: as in other trials, or by the rung before."""
        seen = self.rungs_s.get(budget.rung)
        if seen:
            return statistics.median(seen)
        if not attempt.rungs:
            return 0.0
        last = attempt.rungs[-1]
        return last.train_s * len(budget.epochs) * budget.share / (last.epochs * last.share)

    def _rank(self, trial: Trial) -> tuple[float, float, float]:
        """Order trials, the best first: of equals the more accurate one, and then the faster."""
        p99_s = math.inf if trial.inference is None else trial.inference.p99_s
        return self.goal.value(trial), -(trial.accuracy or 0.0), p99_s

    def _note(self, trial: Trial, state: Any, *, has_state: bool) -> None:
        for rung in trial.rungs:
            self.rungs_s.setdefault(rung.rung, []).append(rung.train_s)
        if trial.status != KEPT:
            return
        if self.best is None or self._rank(trial) < self._rank(self.best):
            self.best, self.best_state, self.has_state = trial, state, has_state
