"""The callback of Ray Tune: stores what trials report, and tells the time left and the reasons."""

from __future__ import annotations

import logging
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ray import tune

from foretell.decide.tuning.rungs import Rules
from foretell.decide.tuning.search import Search
from foretell.decide.tuning.space import Space
from foretell.errors import Option, UsageError, error_lines
from foretell.spaces.quantities import duration
from foretell.tune.hook.clock import Measured
from foretell.tune.hook.policy import Choice, Moment
from foretell.tune.hook.steadiness import Steadiness
from foretell.tune.models import Known, Model, given
from foretell.tune.ray.others import Others
from foretell.tune.ray.recognized import ITERATIONS, base_of, recognized, slots_of_cluster
from foretell.tune.store import EpochRow, Store, open_store
from foretell.tune.store.rows import LEASE, LEFT_OUT, STEADY, WARM_UP, plain_values
from foretell.tune.time_left import TimeLeft

LOG = logging.getLogger("foretell.tune")
#: Ray shows its own log while a search runs; what users asked for belongs there.
SHOWN = logging.getLogger("ray.tune.foretell")


class Watch(Protocol):
    """Takes note of epochs, and tells the time left; ``foretell.tune.TimeLeft`` is one."""

    def epoch(
        self, trial: str, epoch: int, seconds: float, *,
        configuration: Mapping[str, Any] | None = None, value: float | None = None,
    ) -> None:  # fmt: skip
        """Take note of a finished epoch."""

    def ended(self, trial: str) -> None:
        """Take note that a trial will train no more."""

    def left(self) -> tuple[float, float, float]:
        """Return the median and the ends of a 90 % interval of the time left, in seconds."""


@dataclass
class _Run:
    """What belongs to one run of a search, and is lost with it."""

    n_trials: int = 1
    max_epochs: int | None = None
    start_s: float = field(default_factory=time.monotonic)
    left: Watch | None = None
    is_given_up: bool = False
    n_listed: int = 0
    ended: set[str] = field(default_factory=set)
    own_rows: set[str] = field(default_factory=set)
    steadiness: dict[str, Steadiness] = field(default_factory=lambda: defaultdict(Steadiness))
    others: Others = field(default_factory=Others)


class Callback(tune.Callback):  # type: ignore[misc]
    """Stores the epochs of all trials and where trials end; tells the time left, and the reasons.

    Trials with the three lines store their epochs themselves, under more precise times; for those
    the callback only adds where they ended, from which later searches learn the rungs, and tells
    what was changed and why. Of others it stores epochs of this machine that are typical.

    Parameters
    ----------
    store
        The file of the store, or an open store; see ``open_store``.
    job
        The name of the job, as in the three lines.
    scheduler
        The scheduler of the search, or its name as for ``foretell tune eta``; with it, or with
        `max_epochs`, the time left is told after each trial. Under one that is not known all trials
        are taken to train to the end.
    max_epochs
        How long a trial trains at most, if neither the scheduler nor what stops trials says so, or
        if that is less than the scheduler says.
    n_slots
        How many trials run at the same time; by default as many as the cluster has room for.
    metric, mode
        What trials are compared by, and whether that is ``max`` or ``min``; by default those of the
        scheduler.
    eta, min_epochs
        The rules of a scheduler that is given by its name.
    space, model, share
        The space and a model of epoch times, if there are any. Of a store, the epochs of the same
        job are used, those of other machines if they are shared.
    time_left
        Makes what tells the time left in another way, when a search starts; it gets the number of
        trials.
    tell
        Takes a line of text; by default it goes to the log of Ray.
    """

    def __init__(  # noqa: PLR0913 - all but the first two by name
        self, store: str | Path | Store | None = None, job: str = "ray", *,
        scheduler: Any = None, max_epochs: int | None = None, n_slots: int | None = None,
        metric: str | None = None, mode: str | None = None, eta: float = 3, min_epochs: int = 1,
        space: Space | Mapping[str, Any] | str | None = None, model: Model | None = None,
        share: bool = False, time_left: Callable[[int], Watch] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        is_asked = scheduler is not None or max_epochs is not None
        _check(scheduler, (max_epochs, eta, min_epochs), n_slots, mode)
        if model is not None and space is None:
            raise UsageError(
                "a model needs to know what the search chooses from",
                option=Option("model"),
                remedy=("give a space with ", Option("space", "...")),
            )
        if time_left is not None and is_asked:
            raise UsageError(
                "the time left is told in one way; leave the scheduler and max_epochs out, or this",
                option=Option("time_left"),
            )
        self.store, self.job = open_store(store), job
        self._scheduler, self._rules = scheduler, (max_epochs, eta, min_epochs)
        self._n_slots, self._metric, self._mode = n_slots, metric, mode
        self._space, self._model, self._share = space, model, share
        self._known: Known | None = given(space, model, job, share=share)
        self._is_asked, self._make_left, self._tell = is_asked, time_left, tell
        self._run = _Run()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to one run of the search: Ray keeps callbacks in a file."""
        return {**vars(self), "_run": _Run(), "_known": None}

    def setup(self, stop: Any = None, num_samples: int | None = None,
              total_num_samples: int | None = None, **info: Any) -> None:  # fmt: skip
        """Begin to tell the time left."""
        at_most = stop.get(ITERATIONS) if isinstance(stop, Mapping) else None
        self._run = _Run(int(total_num_samples or num_samples or 1), self._rules[0] or at_most)
        if self._make_left is not None:
            self._guarded(self._start)

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any,
                        result: dict[str, Any], **info: Any) -> None:  # fmt: skip
        """Store an epoch, unless the trial has done so."""
        n, seconds = _n_epochs(result), float(result.get("time_this_iter_s") or 0.0)
        if n >= 1 and seconds > 0:
            self._guarded(self._keep, trials, trial, result)
            self._guarded(self._watch, trials, trial, result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note after how many epochs a trial ended."""
        self._guarded(self._end, trial, "stopped")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note after how many epochs a trial failed."""
        self._guarded(self._end, trial, "error")

    # Storing

    def _keep(self, trials: list[Any], trial: Any, result: Mapping[str, Any]) -> None:
        """Store an epoch of this machine, and whether it says how long such epochs take."""
        run, name, n = self._run, str(trial.trial_id), _n_epochs(result)
        if result.get("hostname", platform.node()) != platform.node():
            return  # each machine has a store of its own
        if name in run.own_rows or self.store.has_own_rows(self.job, name):
            run.own_rows.add(name)
            return
        seconds = float(result["time_this_iter_s"])
        n_siblings = sum(t.status == "RUNNING" for t in trials if t is not trial)
        is_first = int(result.get("iterations_since_restore") or n) == 1
        needs = trial.placement_group_factory.required_resources
        choice = Choice({LEASE: float(needs.get("CPU", 1))}, WARM_UP if is_first else STEADY)
        moment = Moment(n - 1, None, 0, is_first, n_siblings > 0)
        load = run.others.since(name, result.get("pid"), seconds)
        measured = Measured(seconds, 0.0, load, n_siblings)
        why_not = run.steadiness[name].refusal(choice, moment, measured)
        run.steadiness[name].add(choice, moment, measured)
        row = EpochRow(
            self.job, name, n - 1, choice.phase if why_not is None else LEFT_OUT,
            plain_values(trial.config), choice.setting, seconds, load_others=load,
            n_siblings=n_siblings,
        )  # fmt: skip
        self.store.add_epochs([row])

    # The time left

    def _start(self) -> None:
        assert self._make_left is not None
        self._run.left = self._make_left(self._run.n_trials)

    def _watch(self, trials: list[Any], trial: Any, result: Mapping[str, Any]) -> None:
        """Tell what knows the time left of an epoch."""
        run = self._run
        if run.left is None and self._is_asked and not run.is_given_up:
            run.is_given_up = True  # unless it works: one warning is enough
            run.left = self._time_left(trial)
        if run.left is None:
            return
        self._catch_up(trials, run.left)
        metric = self._metric or getattr(base_of(self._scheduler), "_metric", None)
        run.left.epoch(
            str(trial.trial_id), _n_epochs(result), float(result["time_this_iter_s"]),
            configuration=plain_values(trial.config),
            value=result.get(metric) if metric else None,
        )  # fmt: skip

    def _time_left(self, trial: Any) -> TimeLeft:
        """Make what tells the time left, by the needs of a first trial."""
        if self._known is None:  # Ray has read this callback from its file
            self._known = given(self._space, self._model, self.job, share=self._share)
        needs = trial.placement_group_factory.required_resources
        name, rules = recognized(self._scheduler, self._run.max_epochs, *self._rules[1:])
        n_slots = self._n_slots or slots_of_cluster(needs)
        mode = self._mode or getattr(base_of(self._scheduler), "_mode", None) or "max"
        search = Search(name, self._run.n_trials, rules, n_slots)
        space, times = self._known
        return TimeLeft(search, space=space, model=times, mode=mode, start_s=self._run.start_s)

    def _catch_up(self, trials: list[Any], left: Watch) -> None:
        """Take note of new trials, in their order, and of those that an earlier run has ended."""
        run = self._run
        for other in trials[run.n_listed :]:
            name = str(other.trial_id)
            if isinstance(left, TimeLeft):
                left.planned(name, plain_values(other.config))
            if other.status in ("TERMINATED", "ERROR") and name not in run.ended:
                run.ended.add(name)
                if isinstance(left, TimeLeft):
                    left.ended(name, at_s=run.start_s)
                else:
                    left.ended(name)
        run.n_listed = len(trials)

    def _end(self, trial: Any, reason: str) -> None:
        """Note the end of a trial; tell why its settings were chosen, and the time left."""
        name, left = str(trial.trial_id), self._run.left
        self.store.add_end(self.job, name, _n_epochs(trial.last_result or {}), reason)
        reasons = self.store.reasons(self.job, name)
        if reasons:
            told = "; ".join(f"epoch {epoch}: {why}" for epoch, why in reasons)
            self._say(f"{self.job}: {name}: {told}")
        if left is None:
            return
        if name not in self._run.ended:
            self._run.ended.add(name)
            left.ended(name)
        median, low, high = left.left()
        if median > 0:
            self._say(
                f"{self.job}: about {duration(median)} left ({duration(low)} – {duration(high)})"
            )

    def _say(self, line: str) -> None:
        (self._tell or SHOWN.info)(line)

    def _guarded(self, step: Callable[..., None], *args: Any) -> None:
        """Run a step; a search never stops because of it."""
        try:
            step(*args)
        except Exception as error:
            LOG.warning("%s: the callback could not take note: %s", self.job, error_lines(error)[0])


def _n_epochs(result: Mapping[str, Any]) -> int:
    return int(result.get(ITERATIONS) or 0)


def _check(
    scheduler: Any, rules: tuple[int | None, float, int], n_slots: int | None, mode: str | None
) -> None:
    """Refuse options that no search can have, before it starts."""
    max_epochs, eta, min_epochs = rules
    if mode not in (None, "max", "min"):
        raise UsageError(f"must be max or min, not {mode!r}", option=Option("mode"))
    slots = 1 if n_slots is None else n_slots
    if isinstance(scheduler, str):
        least = min_epochs if max_epochs is None else max_epochs
        Search(scheduler, 1, Rules(least, eta, min_epochs), slots)
    else:
        Search("random", 1, Rules(1 if max_epochs is None else max_epochs), slots)
