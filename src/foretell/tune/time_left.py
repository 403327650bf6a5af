"""The time left of a search that runs: told after every epoch, better with each trial."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.decide.tuning.draws import Along
from foretell.decide.tuning.epoch_law import EpochLaw, Features, Prior, Seen, frame_of
from foretell.decide.tuning.epoch_times import EpochTimes
from foretell.decide.tuning.schedulers import PAUSE, STOP, Scheduler
from foretell.decide.tuning.search import Search
from foretell.decide.tuning.space import Space
from foretell.decide.tuning.start_ups import StartUps
from foretell.errors import Option, UsageError
from foretell.simulate.search import DrawnTrials, Underway, play_search
from foretell.spaces.values import Scalar
from foretell.tune.draws import spread_over
from foretell.tune.models import Model, given
from foretell.tune.scores import RungLog

Array = NDArray[np.float64]
LOG = logging.getLogger("foretell.tune")
_POOL = 1_000
_LEAST_LEFT = 0.1  # of an epoch that should be over by now


@dataclass
class _Trial:
    """What one trial did so far.

    Attributes
    ----------
    is_off
        Whether it has no slot: it ended, or it waits at a rung.
    """

    number: int
    configuration: dict[str, Scalar] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    epochs: int = 0
    at_s: float = 0.0
    is_off: bool = False
    has_ended: bool = False

    @property
    def epoch_s(self) -> float:
        """Its mean time of an epoch, without the first, which is often longer."""
        usual = self.seconds[1:] or self.seconds
        return max(sum(usual) / len(usual), 1e-9)


class TimeLeft:
    """Tells how long a search will still run; fed with finished epochs and trials.

    With a space and a model, it knows something before the first epoch. Without, it learns from the
    epochs themselves. It can be used by several threads.

    Parameters
    ----------
    search
        The scheduler, how many trials there will be, and how many run at the same time.
    space
        The space of the search, if it is known: a space file, or a dict of its shape.
    model
        Predicts the time of an epoch: a model, a folder with one, or a store of epochs.
    job, share
        Which job of a store is meant, and whether epochs of other machines count.
    mode
        Whether larger values are better (``max``) or smaller ones (``min``).
    clock, start_s
        Returns the seconds of a clock; what it showed when the search began, by default now.

    >>> from foretell.decide.tuning.rungs import Rules
    >>> now = [0.0]
    >>> left = TimeLeft(Search("random", 4, Rules(max_epochs=2)), clock=lambda: now[0])
    >>> for epoch in (1, 2):
    ...     now[0] += 10.0
    ...     left.epoch("a", epoch, 10.0)
    >>> left.ended("a")
    >>> 50 < left.left()[0] < 70
    True
    """

    def __init__(  # noqa: PLR0913 - all but the first by name
        self,
        search: Search,
        *,
        space: Space | Mapping[str, Any] | str | None = None,
        model: Model | None = None,
        job: str | None = None,
        share: bool = False,
        mode: str = "max",
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
        start_s: float | None = None,
    ) -> None:
        if mode not in ("max", "min"):
            raise UsageError(f"must be max or min, not {mode!r}", option=Option("mode"))
        self.search, self._seed, self._clock = search, seed, clock
        self._sign = 1.0 if mode == "max" else -1.0
        self._space, self._times = given(space, model, job, share=share)
        self._pool: _Pool | None = None
        self._trials: dict[Hashable, _Trial] = {}
        self._log = RungLog(search)
        self._start_s = clock() if start_s is None else start_s
        self._free: deque[float] = deque([self._start_s] * search.n_slots)
        self._start_ups: list[float] = []
        self._lock = threading.RLock()

    @property
    def knows_space(self) -> bool:
        """Whether the space of the search is known."""
        return self._space is not None

    def use_space(self, space: Space) -> None:
        """Learn from now on how epoch times depend on the hyperparameters of a space.

        A model that needs more than a search chooses is left out.
        """
        with self._lock:
            needed = [] if self._times is None else self._times.columns
            missing = [name for name in needed if name not in space.names]
            if missing:
                LOG.warning(
                    "the model of epoch times is left out: it needs %s, which the search does not "
                    "choose; give a space that has it under [fixed] or [system]",
                    " and ".join(missing),
                )
                self._times = None
            self._space, self._pool = space, None

    def planned(self, trial: Hashable, configuration: Mapping[str, Any]) -> None:
        """Take note of a trial that will run and of its hyperparameters, in the order of trials."""
        with self._lock:
            self._known(trial).configuration = dict(configuration)

    def epoch(
        self,
        trial: Hashable,
        epoch: int,
        seconds: float,
        *,
        configuration: Mapping[str, Any] | None = None,
        value: float | None = None,
        at_s: float | None = None,
    ) -> None:
        """Take note of a finished epoch.

        Parameters
        ----------
        trial
            What tells this trial from others.
        epoch
            How many epochs the trial has now behind it: 1 after its first.
        seconds
            How long the epoch took.
        configuration, value
            The hyperparameters of the trial, and what it is compared by, if they are known.
        at_s
            What the clock showed then; by default what it shows now.
        """
        with self._lock:
            now = self._clock() if at_s is None else at_s
            found = self._known(trial)
            if configuration is not None:
                found.configuration = dict(configuration)
            if (found.is_off or not found.seconds) and self._free:
                # It took the slot that was free the longest.
                self._start_ups.append(max(now - self._free.popleft() - seconds, 0.0))
            found.is_off = False
            found.seconds.append(max(float(seconds), 1e-9))
            before, found.epochs, found.at_s = found.epochs, max(epoch, found.epochs + 1), now
            decision = self._log.add(
                found.number, before, found.epochs, None if value is None else self._sign * value
            )
            if decision in (PAUSE, STOP):
                self._give_up(found, now)

    def ended(self, trial: Hashable, *, at_s: float | None = None) -> None:
        """Take note that a trial will train no more."""
        with self._lock:
            found = self._known(trial)
            if not found.seconds and self._free:  # it failed in a slot
                self._free.popleft()
            if not found.has_ended:
                self._give_up(found, self._clock() if at_s is None else at_s)
            found.has_ended = True

    def _known(self, trial: Hashable) -> _Trial:
        if trial not in self._trials:
            self._trials[trial] = _Trial(len(self._trials))
        return self._trials[trial]

    def _give_up(self, trial: _Trial, now: float) -> None:
        if not trial.is_off:
            trial.is_off = True
            self._free.append(now)

    def left(self, n_draws: int = 100) -> tuple[float, float, float]:
        """Return the median and the ends of a 90 % interval of the time left, in seconds.

        All are NaN while nothing is known: before the first epoch, without a model and the space
        that it predicts for.
        """
        with self._lock:
            n_ended = sum(t.has_ended for t in self._trials.values())
            if n_ended >= self.n_trials:
                return 0.0, 0.0, 0.0
            can_predict = self._times is not None and self._space is not None
            if not can_predict and not any(t.seconds for t in self._trials.values()):
                return math.nan, math.nan, math.nan
            ends = _Draws(self, self._clock()).play(n_draws)
        lower, median, upper = np.quantile(ends, (0.05, 0.5, 0.95))
        return float(median), float(lower), float(upper)

    def elapsed(self) -> float:
        """Return how long the search has run, in seconds."""
        return self._clock() - self._start_s

    @property
    def n_trials(self) -> int:
        """How many trials there are in all: as many as were said, unless more have come."""
        with self._lock:
            return max(self.search.n_trials, len(self._trials))

    @property
    def n_ended(self) -> int:
        """How many trials have ended."""
        with self._lock:
            return sum(t.has_ended for t in self._trials.values())

    def pool(self) -> _Pool:
        """Return configurations of trials to come, with what is predicted of them."""
        if self._pool is None:
            self._pool = _Pool(self._space, self._times, self._seed)
        return self._pool


class _Pool:
    """Configurations of trials to come: predicted times, features, and how far off those may be."""

    def __init__(self, space: Space | None, times: EpochTimes | None, seed: int) -> None:
        self.times = times
        if space is None:
            self.features: Features | None = None
            self.matrix, self.log_s = np.zeros((1, 0)), np.zeros(1)
        else:
            frame = space.draw(_POOL, np.random.default_rng(seed))
            self.features = Features(frame)
            self.matrix, self.log_s = self.features.matrix(frame), self._predicted(frame)
        self.fixed = {} if space is None else _constants(space)
        self.prior = Prior.of_nothing()
        if times is not None and space is not None:
            self.prior = Prior.of_model(spread_over(space, times, seed))

    def _predicted(self, frame: Any) -> Array:
        if self.times is None:
            return np.zeros(len(frame))
        return np.log(np.asarray(self.times.mean_s(frame)))

    def of(self, trials: list[_Trial]) -> tuple[Array, Array]:
        """Return features and predicted logarithms of trials; those of the middle if unknown."""
        usual = float(np.median(self.log_s))
        matrix, logs = np.zeros((len(trials), self.matrix.shape[1])), np.full(len(trials), usual)
        known = [i for i, t in enumerate(trials) if t.configuration]
        if self.features is None or not known:
            return matrix, logs
        frame = frame_of([{**self.fixed, **trials[i].configuration} for i in known])
        matrix[known] = self.features.matrix(frame)
        if self.times is not None and set(self.times.columns) <= set(frame.columns):
            logs[known] = self._predicted(frame)
        return matrix, logs


def _constants(space: Space) -> dict[str, Scalar]:
    row = space.draw(1, np.random.default_rng(0)).to_dict("records")[0]
    return {str(k): v for k, v in row.items() if k not in space.hyperparameters}


class _Draws:
    """The rest of a search, drawn many times from what is known at one moment."""

    def __init__(self, left: TimeLeft, now: float) -> None:
        self.now, self.left = now, left
        self.search = replace(left.search, n_trials=left.n_trials)
        self.pool = left.pool()
        self.trials = list(left._trials.values())
        self.seen = [t for t in self.trials if t.seconds]
        self.matrix, self.logs = self.pool.of(self.seen)
        self.starts = StartUps(self.search.start_up_s, left._start_ups)
        self.first_s, ratios = self._ratios()
        n_epochs = np.array([max(len(t.seconds) - 1, 0.5) for t in self.seen])
        self.known = Seen(self.matrix, ratios, n_epochs)
        self.law = EpochLaw.learn(self.pool.prior, self.matrix.shape[1], self.known)
        self.planned = [t for t in self.trials if not t.seconds and t.configuration]
        self.planned_matrix, self.planned_logs = self.pool.of(self.planned)
        self.scores = left._log.scores()
        self.along = self._along()

    def _ratios(self) -> tuple[float, Array]:
        """Return how much longer a first epoch takes, and how far off predictions were."""
        extra = [t.seconds[0] - t.epoch_s for t in self.seen if len(t.seconds) > 1]
        first_s = max(float(np.median(extra)), 0.0) if extra else 0.0
        times = [
            t.epoch_s if len(t.seconds) > 1 else max(t.epoch_s - first_s, 0.1 * t.epoch_s)
            for t in self.seen
        ]
        return first_s, np.log(times) - self.logs if times else np.zeros(0)

    def _along(self) -> Along:
        pairs = [
            (self.logs[i] + self.known.ratios[i], self.scores[t.number])
            for i, t in enumerate(self.seen)
            if t.number in self.scores
        ]
        along = Along()
        return along.learn(*np.array(pairs).T) if pairs else along

    def play(self, n: int) -> Array:
        """Simulate what is left, many times."""
        coefficients = self.law.draw(n, np.random.default_rng(self.left._seed))
        return np.array(
            [
                self.end_s(coefficients[d], np.random.default_rng([self.left._seed, d]))
                for d in range(n)
            ]
        )

    def end_s(self, coefficients: Array, random: np.random.Generator) -> float:
        logs = self.draw_logs(coefficients, random)
        values = self.along.draw(logs, random)
        for number, score in self.scores.items():
            values[number] = score
        drawn = DrawnTrials(np.exp(logs).tolist(), values.tolist())
        scheduler = self.left._log.replay(self.search.make(int(random.integers(2**31))), values)
        start_up_s = self.starts.draw(random) + self.first_s
        underway = self.underway(scheduler, drawn, start_up_s)
        played = play_search(
            scheduler, drawn, n_slots=self.search.n_slots, start_up_s=start_up_s,
            underway=underway, behind={t.number: t.epochs for t in self.seen},
        )  # fmt: skip
        return played.end_s

    def draw_logs(self, coefficients: Array, random: np.random.Generator) -> Array:
        """Draw the logarithm of the epoch time of every trial."""
        n = self.search.n_trials
        rows = random.integers(len(self.pool.log_s), size=n)
        logs, matrix = self.pool.log_s[rows], self.pool.matrix[rows]
        numbers = [t.number for t in self.planned]
        logs[numbers], matrix[numbers] = self.planned_logs, self.planned_matrix
        logs = logs + coefficients[0] + matrix @ coefficients[1:]
        logs += self.law.trial * random.standard_normal(n)
        means, deviations = self.law.own(self.known, coefficients)
        for i, trial in enumerate(self.seen):
            law = self.logs[i] + coefficients[0] + self.matrix[i] @ coefficients[1:]
            logs[trial.number] = law + means[i] + deviations[i] * random.standard_normal()
        found: Array = np.clip(logs, -20.0, 20.0)
        return found

    def underway(
        self, scheduler: Scheduler, drawn: DrawnTrials, start_up_s: float
    ) -> list[Underway]:
        """List what runs now; the scheduler keeps what waits."""
        gone = {t.number for t in self.trials if t.has_ended}
        runs = {t.number: t for t in self.seen if not t.is_off}
        for number in gone:
            scheduler.left(number)
        scheduler.waiting = deque(
            t for t in dict.fromkeys(scheduler.waiting) if t not in gone and t not in runs
        )
        found = []
        for number, trial in runs.items():
            epoch_s = drawn.epoch_s[number]
            rest_s = max(epoch_s - (self.now - trial.at_s), _LEAST_LEFT * epoch_s)
            found.append(Underway(number, trial.epochs, rest_s))
        # Slots that are free have been taken by trials that have not reported yet.
        epochs = {t.number: t.epochs for t in self.seen}
        for since_s in list(self.left._free)[: max(self.search.n_slots - len(runs), 0)]:
            if not scheduler.waiting:
                break
            number = scheduler.waiting.popleft()
            epoch_s = drawn.epoch_s[number]
            rest_s = start_up_s + epoch_s - (self.now - since_s)
            rest_s = max(rest_s, _LEAST_LEFT * epoch_s)
            found.append(Underway(number, epochs.get(number, 0), rest_s))
        return found
