"""Search for a model and its deployment at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from foretell.errors import NothingUsableError, Option, UsageError
from foretell.tune.budgets import Budgets, read_budgets
from foretell.tune.onefold.found import Found
from foretell.tune.onefold.goal import Goal, Objective
from foretell.tune.onefold.inference import InferenceCache, Servable, architecture_names
from foretell.tune.onefold.running import Attempt, Train, TrialRunner
from foretell.tune.onefold.space import Space, read_space
from foretell.tune.onefold.study import SearchStudy, opened
from foretell.tune.onefold.trials import FAILED, KEPT, Trial


def search(  # noqa: PLR0913 - all but the first two by name
    train: Train,
    hyper: Mapping[str, Any],
    *,
    system: Mapping[str, Any] | None = None,
    accuracy: float | None = None,
    p99_s: float | None = None,
    objective: Objective = "time",
    deployable: Servable | None = None,
    architecture: Sequence[str] | None = None,
    budget: str | Budgets = "multi",
    trials: int = 32,
    stop_after: int | None = None,
    time_limit_s: float | None = None,
    seed: int = 0,
    storage: str | Path | None = None,
    progress: Callable[[Trial], None] | None = None,
) -> Found:
    """Search hyperparameters, settings of the system and the deployment of a network at once.

    Parameters
    ----------
    train
        Trains one trial for one budget: ``train(config, budget, state) -> Progress``. It trains
        ``budget.epochs`` on ``budget.subset(labels)``, from the state of the rung before, which
        is None in the first.
    hyper, system
        What to search: for each name a list of values, a range such as ``{"from": 0.001, "to":
        0.1, "spacing": "log"}``, or a distribution of Optuna.
    accuracy, p99_s
        Limits: the least accuracy, and the longest time for 99 % of the answers.
    objective
        ``time``: least training time within the limits. ``ratio``: least training time x
        inference time / accuracy. ``energy-ratio``: the same of energies.
    deployable
        Tells how fast a network answers, such as `foretell.Deployable`.
    architecture
        The settings that the network is built from; by default those that the deployable's
        function takes.
    budget
        ``multi``, ``epochs``, ``data``, or `Budgets` with other numbers.
    trials
        How many to run. The same call with the same `storage` goes on where it stopped.
    stop_after
        End the search when this many trials keep all limits.
    storage
        A file or a URL of Optuna that keeps the trials.
    progress
        Called with each `Trial` that ended.

    >>> def train(config, budget, state):
    ...     return min(0.5 + 0.1 * config["size"] + 0.02 * budget.epochs.stop, 1.0)
    >>> found = search(train, {"size": [1, 2, 3]}, accuracy=0.9, trials=3)
    >>> found.best.accuracy >= 0.9
    True
    """
    started = time.perf_counter()
    goal = Goal(objective, accuracy, p99_s)
    space = read_space(hyper, system)
    budgets = read_budgets(budget)
    _check(goal, deployable, trials)
    _check_limits(stop_after, time_limit_s)
    names = None if architecture is None else tuple(architecture)
    cache = InferenceCache(deployable, architecture_names(deployable, names, space.names))
    rungs = budgets.rungs(seed)
    runner = TrialRunner(train, goal, rungs, cache, space.system, budgets.is_anew)
    limits = _Limits(trials, stop_after, time_limit_s)
    what = _what(space, goal, budgets, seed) | _where(cache)
    with opened(storage, space, what, _hyperband(budgets)) as study:
        for earlier in study.ended():
            runner.remember(earlier)
        notes = _loop(study, runner, limits, progress)
        ended = study.ended()
    if not ended:
        raise NothingUsableError("No trial ended within the limits.")
    if all(trial.status == FAILED for trial in ended):
        raise NothingUsableError(
            f"All {len(ended)} trials failed. Trial {ended[0].number}: {ended[0].why}"
        )
    if runner.best is not None and not runner.has_state:
        runner.best_state = runner.retrain(runner.best)
        notes.append(f"Trial {runner.best.number} is of an earlier run, and was trained again.")
    return Found(
        goal=goal,
        system=space.system,
        trials=tuple(ended),
        best=runner.best,
        model=runner.best_state,
        search_s=time.perf_counter() - started,
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class _Limits:
    """When a search ends."""

    trials: int
    kept: int | None
    time_s: float | None

    def note(self, ended: Sequence[Trial], spent_s: float) -> str | None:
        """Say why the search ends now; nothing if it goes on."""
        if len(ended) >= self.trials:
            return ""
        if self.kept is not None and sum(t.status == KEPT for t in ended) >= self.kept:
            return ""
        if self.time_s is not None and spent_s >= self.time_s:
            return f"Ended by its time limit after {len(ended)} of {self.trials} trials."
        return None


def _loop(
    study: SearchStudy,
    runner: TrialRunner,
    limits: _Limits,
    progress: Callable[[Trial], None] | None,
) -> list[str]:
    """Run trials until a limit; return remarks on the end."""
    started = time.perf_counter()
    while (note := limits.note(study.ended(), time.perf_counter() - started)) is None:
        asked = study.ask()
        if asked is None:
            return ["No settings are left that were not tried."]
        attempt = Attempt(asked.trial.number, asked.config, asked)
        ended = runner.run(attempt)
        study.end(asked, ended, attempt.score, runner.goal.over(ended.inference))
        if progress is not None:
            progress(ended)
    return [note] if note else []


def _check(goal: Goal, deployable: Servable | None, trials: int) -> None:
    if trials < 1:
        raise UsageError("must be at least 1", option=Option("trials", str(trials)))
    if deployable is not None:
        return
    remedy = ("give a network to measure with ", Option("deployable", "..."))
    if goal.p99_s is not None:
        raise UsageError(
            "no latency is known", option=Option("p99_s", str(goal.p99_s)), remedy=remedy
        )
    if goal.is_ratio:
        raise UsageError(
            "inference is part of a ratio, and none is known",
            option=Option("objective", goal.objective),
            remedy=remedy,
        )


def _check_limits(stop_after: int | None, time_limit_s: float | None) -> None:
    if stop_after is not None and stop_after < 1:
        raise UsageError("must be at least 1", option=Option("stop_after", str(stop_after)))
    if time_limit_s is not None and not time_limit_s > 0:
        raise UsageError("must be positive", option=Option("time_limit_s", str(time_limit_s)))


def _what(space: Space, goal: Goal, budgets: Budgets, seed: int) -> dict[str, Any]:
    """Return what trials depend on, for the study."""
    return {"space": space.to_json(), "goal": asdict(goal), "budget": asdict(budgets), "seed": seed}


def _where(cache: InferenceCache) -> dict[str, Any]:
    """Return what times depend on, of training and of inference, for the study."""
    from foretell.measure.running.machine import describe_machine

    machine = describe_machine()
    served = getattr(cache.servable, "depends_on", {})
    return {
        **{f"{name} of the deployable": str(value) for name, value in served.items()},
        "architecture": list(cache.architecture),
        "machine": {name: machine[name] for name in ("cpu", "n_usable", "architecture")},
    }


def _hyperband(budgets: Budgets) -> dict[str, int]:
    return {
        "min_resource": 1,
        "max_resource": budgets.last_iteration,
        "reduction_factor": budgets.eta,
    }
