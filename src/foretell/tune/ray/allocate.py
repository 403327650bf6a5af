"""Leases: how many CPUs a trial of Ray Tune has; changed only if that makes up for the restart."""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ray.tune import PlacementGroupFactory

from foretell.decide.tuning.epoch_process import EpochProcess, Epochs
from foretell.decide.tuning.probing import (
    RESTART_FACTOR,
    Expected,
    epochs_to_rung,
    is_worth_restarting,
    next_probe,
)
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
_NOTHING_KNOWN = (
    "leases stay as they are until epochs with other numbers of threads are known; long trials try "
    "more CPUs while some are free"
)


class Allocate:
    """The allocation function of a ResourceChangingScheduler, by predicted epoch times.

    While trials wait, a lease changes if that saves core-seconds; else if it saves seconds. Where
    nothing is known of a larger lease and CPUs are free, a trial tries it if that should pay.

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
        self._promised: dict[str, _Promise] = {}
        self._seen: dict[str, dict[int, float]] = {}
        self._told: set[str] = set()

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
        factory = trial.placement_group_factory
        if trial.checkpoint is None:
            self._tell_once("trials report no checkpoints, and leases stay as they are")
            return None
        if len(factory.bundles) != 1 or factory.head_bundle_is_empty:
            self._tell_once("trials have several bundles of resources, and leases stay as they are")
            return None
        has, epoch_s = factory.required_resources.get("CPU", 0), _epoch_s(result)
        now = max(1, int(has))  # Ray gives Torch at least one thread
        if self._learn_restart(trial, epoch_s):  # the first epoch of a process takes longer
            return None
        seen = self._seen.setdefault(trial.trial_id, {})
        if int(result.get("training_iteration", 0)) > 1:
            seen[now] = min(epoch_s, seen.get(now, epoch_s))
        comparison = _Comparison(
            now, seen.get(now, epoch_s), self._n_left(trial, result, scheduler),
            self.store.restart_s(PRIOR_RESTART_S),
        )  # fmt: skip
        _, process = known_epochs(self.store, self.job, self.cpus)
        hyper = plain_values(trial.config)
        known = self._known(process, hyper, comparison) | seen
        is_waiting, n_free = self._pool(controller)
        choices = [c for c in self.cpus if c != now and c - has <= n_free]
        best = comparison.best({c: known[c] for c in choices if c in known}, is_waiting=is_waiting)
        if best is None and now in seen and not is_waiting:
            larger = [c for c in choices if c > now and c not in known]
            best = comparison.worth_trying(process, hyper, larger)
        if best is None:
            if not known.keys() - {now}:
                self._tell_once(_NOTHING_KNOWN)
            return None
        self._promised[trial.trial_id] = _Promise(best, time.time())
        LOG.info("%s: %s: %s", self.job, trial, comparison.words(best, known.get(best)))
        return PlacementGroupFactory([{**factory.bundles[0], "CPU": best}], factory.strategy)

    def _pool(self, controller: Any) -> tuple[bool, float]:
        """Return whether trials wait for CPUs, and how many CPUs are neither used nor promised."""
        is_waiting, used = False, 0.0
        for trial in controller.get_live_trials():
            has = trial.placement_group_factory.required_resources.get("CPU", 0)
            promise = self._promised.get(trial.trial_id)
            if promise is not None:  # it may be starting anew, and has its CPUs nevertheless
                used += max(promise.cpus, has)
            elif trial.status == "RUNNING":
                used += has
            else:
                is_waiting = is_waiting or trial.status == "PENDING"
        return is_waiting, controller._resource_updater.get_num_cpus() - used

    def _known(
        self, process: EpochProcess, hyper: Mapping[str, float | str], now: _Comparison
    ) -> dict[int, float]:
        """Return how long epochs take with other CPUs, as far as the store knows."""
        ratios = {c: known_ratio(process, hyper, c, now.cpus) for c in self.cpus if c != now.cpus}
        return {c: now.epoch_s * ratio for c, ratio in ratios.items() if ratio is not None}

    def _learn_restart(self, trial: Any, epoch_s: float) -> bool:
        """Note how long a restart took; return whether there was one before this epoch."""
        promise = self._promised.pop(trial.trial_id, None)
        if promise is None:
            return False
        self.store.add_restart(max(0.1, time.time() - promise.at_s - epoch_s))
        return True

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
        if text not in self._told:
            self._told.add(text)
            LOG.warning("%s: %s", self.job, text)


class _Promise(NamedTuple):
    """How many CPUs a trial gets that starts anew for them, and when it was told."""

    cpus: int
    at_s: float


@dataclass(frozen=True)
class _Comparison:
    """What a trial has now, against which other leases are compared.

    Attributes
    ----------
    cpus, epoch_s
        Its CPUs, and how long an epoch takes.
    n_left
        Epochs to the next rung.
    """

    cpus: int
    epoch_s: float
    n_left: int
    restart_s: float

    def best(self, known: Mapping[int, float], *, is_waiting: bool) -> int | None:
        """Return the lease that saves most, by its epoch times; None if none is worth a restart."""
        now = self.cpus
        seconds = {now: self.epoch_s, **known}
        weights = {c: c if is_waiting else 1 for c in seconds}
        best = min(seconds, key=lambda c: seconds[c] * weights[c])
        is_worth = best != now and is_worth_restarting(
            self.epoch_s * weights[now], seconds[best] * weights[best],
            n_left=self.n_left, restart_s=self.restart_s * weights[now],
        )  # fmt: skip
        return best if is_worth else None

    def worth_trying(
        self, process: EpochProcess, hyper: Mapping[str, float | str], choices: Sequence[int]
    ) -> int | None:
        """Return the lease whose trial should pay, though the trial may go back from it."""
        expected: dict[int, Expected[int]] = {}
        for c in choices:
            ratio = process.ratio(hyper, {"threads": c}, {"threads": self.cpus})
            expected[c] = Expected(c, ratio.low, ratio.high)
        best = next_probe(list(expected.values()), 1.0, n_left=self.n_left, n_probes_left=1)
        if best is None:
            return None
        saved_s, lost_s = (
            share * self.epoch_s for share in (expected[best].gain(1.0), expected[best].loss(1.0))
        )
        is_worth = is_worth_restarting(
            self.epoch_s, self.epoch_s - saved_s,
            n_left=self.n_left - 1, restart_s=2 * self.restart_s + lost_s,
        )  # fmt: skip
        return best if is_worth else None

    def words(self, cpus: int, epoch_s: float | None) -> str:
        """Tell what a trial gets, and why."""
        rest = f"{self.n_left} epochs to the next rung"
        if epoch_s is None:
            return (
                f"tries {cpus} CPUs instead of {self.cpus}, as some are free: {rest} should make "
                f"up for two restarts of {self.restart_s:.1f} s"
            )
        return (
            f"gets {cpus} CPUs instead of {self.cpus}: {epoch_s:.1f} s per epoch instead of "
            f"{self.epoch_s:.1f} s (predicted); {rest} save more than {RESTART_FACTOR} times a "
            f"restart of {self.restart_s:.1f} s"
        )


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
