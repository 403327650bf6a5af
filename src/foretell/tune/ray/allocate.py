"""Leases: how many CPUs a trial of Ray Tune has; changed only if that makes up for the restart."""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ray.tune import PlacementGroupFactory

from foretell.decide.tuning.epoch_process import EpochProcess, Epochs
from foretell.decide.tuning.probing import RESTART_FACTOR, epochs_to_rung, is_worth_restarting
from foretell.errors import Option, UsageError
from foretell.tune.hook.product import groups
from foretell.tune.knobs.threads import ThreadsKnob
from foretell.tune.store import Store, open_store
from foretell.tune.store.rows import plain_values

LOG = logging.getLogger("foretell.tune")

#: How long a restart is taken to be before one was seen.
PRIOR_RESTART_S = 5.0
_MOST_ROWS, _MOST_GROUPS = 2000, 150
#: How a function reports by itself, as `tune.report` or `train.report`.
_REPORTS = ".report("


class Allocate:
    """The allocation function of a ResourceChangingScheduler, by predicted epoch times.

    While trials wait, a lease changes if that saves core-seconds; else if it saves seconds.

    Parameters
    ----------
    store
        The file of the store, or an open store; see ``open_store``.
    job
        The name of the job, as in the three lines.
    cpus
        How many CPUs a trial may have.
    trainable
        The function or class that trains. One that shows that it saves no checkpoint is refused
        here: a lease that changes starts its process anew. What does not show is seen with the
        first result, and leases then stay as they are.
    max_epochs, rungs
        How many epochs a trial has at most, and after how many it may be stopped; by default
        those of the scheduler, where it has them.
    """

    def __init__(
        self, store: str | Path | Store | None = None, job: str = "ray", *,
        cpus: Sequence[int] = (1, 2), trainable: Any = None, max_epochs: int | None = None,
        rungs: Sequence[int] = (),
    ) -> None:  # fmt: skip
        if not cpus or any(int(c) != c or c < 1 for c in cpus):
            raise UsageError(
                f"a lease is a whole number of CPUs from 1 on, not {list(cpus)}",
                option=Option("cpus", "..."),
            )
        if trainable is not None and not saves_checkpoints(trainable):
            raise UsageError(
                f"{_name(trainable)} never saves a checkpoint, and would begin again whenever "
                "its lease changes; report a checkpoint after each epoch",
                option=Option("trainable"),
            )
        self.store, self.job, self.cpus = open_store(store), job, tuple(int(c) for c in cpus)
        self._max_epochs, self._rungs = max_epochs, tuple(rungs)
        self._leaving: dict[str, float] = {}
        self._has_told = False

    def __call__(
        self, controller: Any, trial: Any, result: dict[str, Any], scheduler: Any
    ) -> PlacementGroupFactory | None:
        """Return the lease of a trial from its next epoch on; None if it stays."""
        if getattr(controller, "_reuse_actors", False):
            raise UsageError(
                "leases cannot change while actors are reused",
                option=Option("reuse_actors", "True"),
                remedy=("set ", Option("reuse_actors", "False"), " in tune.TuneConfig"),
            )
        try:
            return self._lease(controller, trial, result, scheduler)
        except Exception as error:  # a search never stops because of it
            LOG.warning("%s: leases are left alone: %s", self.job, error)
            return None

    def _lease(
        self, controller: Any, trial: Any, result: dict[str, Any], scheduler: Any
    ) -> PlacementGroupFactory | None:
        self._learn_restart(trial, result)
        now = int(trial.placement_group_factory.required_resources.get("CPU", 1))
        if trial.checkpoint is None:
            self._tell_once("trials report no checkpoints, and leases stay as they are")
            return None
        is_waiting, n_free = _pool(controller)
        choices = [c for c in self.cpus if c != now and c - now <= n_free]
        n_left = self._n_left(trial, result, scheduler)
        seconds = {now: _epoch_s(result)}
        _, process = known_epochs(self.store, self.job, self.cpus)
        hyper = plain_values(trial.config)
        for c in choices:
            ratio = known_ratio(process, hyper, c, now)
            if ratio is not None:  # a lease that must be tried takes two restarts
                seconds[c] = seconds[now] * ratio
        best = min(seconds, key=lambda c: seconds[c] * (c if is_waiting else 1))
        restart_s = self.store.restart_s(PRIOR_RESTART_S)
        weights = (now, best) if is_waiting else (1, 1)
        costs = [seconds[c] * w for c, w in zip((now, best), weights, strict=True)]
        if best == now or not is_worth_restarting(
            costs[0], costs[1], n_left=n_left, restart_s=restart_s * weights[0]
        ):
            return None
        LOG.info(
            "%s: %s gets %d CPUs instead of %d: %.1f s per epoch instead of %.1f s (predicted), "
            "%d epochs to the next rung, more than %.1f times a restart of %.1f s",
            self.job, trial, best, now, seconds[best], seconds[now], n_left, RESTART_FACTOR,
            restart_s,
        )  # fmt: skip
        self._leaving[trial.trial_id] = time.time()
        return PlacementGroupFactory([{"CPU": best}])

    def _learn_restart(self, trial: Any, result: dict[str, Any]) -> None:
        left_s = self._leaving.pop(trial.trial_id, None)
        if left_s is not None:
            self.store.add_restart(max(0.1, time.time() - left_s - _epoch_s(result)))

    def _n_left(self, trial: Any, result: dict[str, Any], scheduler: Any) -> int:
        """Return how many epochs are left to the next rung.

        Schedulers keep rungs to themselves: where one has none that are known here, the end counts.
        """
        base = getattr(scheduler, "_base_scheduler", None)
        bracket = getattr(base, "_trial_info", {}).get(trial.trial_id)
        own = [int(rung[0]) for rung in getattr(bracket, "_rungs", [])]
        most = self._max_epochs or getattr(base, "_max_t", None)
        n_done = int(result.get("training_iteration", 0))
        return epochs_to_rung(n_done, int(most or n_done), [*self._rungs, *own])

    def _tell_once(self, text: str) -> None:
        if not self._has_told:
            self._has_told = True
            LOG.warning("%s: %s", self.job, text)


def known_epochs(store: Store, job: str, cpus: Sequence[int]) -> tuple[list[Epochs], EpochProcess]:
    """Return what is known of epochs by threads: Ray gives Torch one thread per CPU."""
    rows = groups(store.rows(job, most=_MOST_ROWS), ("threads",))[-_MOST_GROUPS:]
    knob, first = ThreadsKnob(), min(cpus)
    priors: dict[tuple[str, float | str], tuple[float, float]] = {
        ("threads", c): knob.prior(c, first) for c in cpus if c != first
    }
    return rows, EpochProcess(rows, priors)


def known_ratio(
    process: EpochProcess, hyper: Mapping[str, float | str], threads: int, than: int
) -> float | None:
    """Return how epoch times compare where both were measured, alone or beside other trainings."""
    for is_shared in (False, True):
        found = process.ratio(hyper, {"threads": threads}, {"threads": than}, is_shared=is_shared)
        if found.is_inside:
            return math.sqrt(found.low * found.high)
    return None


def _pool(controller: Any) -> tuple[bool, float]:
    """Return whether trials wait for CPUs, and how many CPUs are free."""
    trials = controller.get_live_trials()
    used = sum(
        t.placement_group_factory.required_resources.get("CPU", 0)
        for t in trials
        if t.status == "RUNNING"
    )
    is_waiting = any(t.status == "PENDING" for t in trials)
    return is_waiting, controller._resource_updater.get_num_cpus() - used


def _epoch_s(result: dict[str, Any]) -> float:
    return max(float(result.get("time_this_iter_s") or 0.0), 1e-6)


def saves_checkpoints(trainable: Any) -> bool:
    """Tell whether a trainable may save checkpoints, as far as its source shows.

    A function that reports through another one may do so there.
    """
    from ray.tune import Trainable

    if inspect.isclass(trainable) and issubclass(trainable, Trainable):
        return any("save_checkpoint" in vars(c) for c in trainable.__mro__ if c is not Trainable)
    try:
        source = inspect.getsource(inspect.unwrap(trainable))
    except (OSError, TypeError):
        return True  # it cannot be known
    return "checkpoint" in source or "**" in source or _REPORTS not in source


def _name(trainable: Any) -> str:
    return str(getattr(trainable, "__name__", type(trainable).__name__))
