"""The callback of Ray Tune: stores what trials report, and tells the time left."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ray import tune

from foretell.tune.store import EpochRow, Store, open_store
from foretell.tune.store.rows import STEADY, WARM_UP, plain_values

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


class Callback(tune.Callback):  # type: ignore[misc]
    """Stores the epochs of all trials and where trials end, and tells the time left.

    Trials with the three lines store their epochs themselves, under more precise times; for those
    the callback only adds where they ended, from which later searches learn the rungs.

    Parameters
    ----------
    store
        The file of the store, or an open store; see ``open_store``.
    job
        The name of the job, as in the three lines.
    time_left
        Makes what tells the time left, such as a ``foretell.tune.TimeLeft``, when a search starts;
        it gets the number of trials.
    metric
        The name of what trials are compared by, for the time left.
    tell
        Takes a line of text; by default it goes to the log of Ray.
    """

    def __init__(
        self, store: str | Path | Store | None = None, job: str = "ray", *,
        time_left: Callable[[int], Watch] | None = None, metric: str | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        self.store, self.job = open_store(store), job
        self._make_left, self._metric, self._tell = time_left, metric, tell
        self._left: Watch | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what belongs to one run of the search: Ray keeps callbacks in a file."""
        return {**vars(self), "_left": None}

    def setup(self, stop: Any = None, num_samples: int | None = None,
              total_num_samples: int | None = None, **info: Any) -> None:  # fmt: skip
        """Begin to tell the time left."""
        if self._make_left is not None:
            self._guarded(self._start, int(total_num_samples or num_samples or 1))

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any,
                        result: dict[str, Any], **info: Any) -> None:  # fmt: skip
        """Store an epoch, unless the trial has done so."""
        self._guarded(self._take, trial, result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note after how many epochs a trial ended."""
        self._guarded(self._end, trial, "stopped")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Note after how many epochs a trial failed."""
        self._guarded(self._end, trial, "error")

    def _start(self, n_trials: int) -> None:
        assert self._make_left is not None
        self._left = self._make_left(n_trials)

    def _take(self, trial: Any, result: Mapping[str, Any]) -> None:
        n, seconds = _n_epochs(result), float(result.get("time_this_iter_s") or 0.0)
        if n < 1 or seconds <= 0:
            return
        resources = trial.placement_group_factory.required_resources
        config = plain_values(trial.config)
        row = EpochRow(
            self.job, str(trial.trial_id), n - 1, WARM_UP if n == 1 else STEADY, config,
            {"cpus": float(resources.get("CPU", 1))}, seconds,
        )  # fmt: skip
        self.store.add_epochs([row])
        if self._left is not None:
            value = result.get(self._metric) if self._metric else None
            self._left.epoch(str(trial.trial_id), n, seconds, configuration=config, value=value)

    def _end(self, trial: Any, reason: str) -> None:
        n = _n_epochs(trial.last_result or {})
        self.store.add_end(self.job, str(trial.trial_id), n, reason)
        if self._left is None:
            return
        self._left.ended(str(trial.trial_id))
        median, low, high = self._left.left()
        if median > 0:
            line = f"{self.job}: about {_time(median)} left ({_time(low)} – {_time(high)})"
            (self._tell or SHOWN.info)(line)

    def _guarded(self, step: Callable[..., None], *args: Any) -> None:
        """Run a step; a search never stops because of it."""
        try:
            step(*args)
        except Exception as error:
            LOG.warning("%s: the callback could not take note: %s", self.job, error)


def _n_epochs(result: Mapping[str, Any]) -> int:
    return int(result.get("training_iteration") or 0)


def _time(seconds: float) -> str:
    from foretell.spaces.quantities import duration

    return duration(seconds)
