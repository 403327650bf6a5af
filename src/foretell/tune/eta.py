"""How long a search will take, for users: simulated over predicted epochs, and what would save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from foretell.decide.tuning.epoch_times import EpochTimes, PredictedEpochs
from foretell.decide.tuning.rungs import Rules
from foretell.decide.tuning.schedulers import SCHEDULERS
from foretell.decide.tuning.search import Search, slots_of
from foretell.decide.tuning.space import THREADS, Space, check_columns, read_space
from foretell.errors import Option, UsageError, listing
from foretell.spaces.values import Range, listed
from foretell.tune.draws import (
    N_DRAWS,
    PlayedDraws,
    Pool,
    Range90,
    play_draws,
    spread_over,
    with_epochs,
)
from foretell.tune.models import Model, epoch_times_of, store_in
from foretell.wording import rough_percent

_MOST_PARTS = 3  # of the space that are shown as left out
_WORTH = 0.03  # what leaving a part out must save to be shown


@dataclass(frozen=True)
class Change:
    """What another search would take.

    Attributes
    ----------
    kind
        ``threads``, ``epochs`` or ``space``.
    saves
        The share of the predicted time that is saved; negative if it takes longer.
    """

    kind: str
    text: str
    time: Range90
    saves: float


@dataclass(frozen=True, eq=False)
class SearchForecast:
    """How long a search will take.

    Attributes
    ----------
    time
        From the start to the end of the last trial.
    n_epochs, most_epochs
        How many epochs will be trained, and how many there were without stopping any trial.
    changes
        What other threads, fewer rungs or a smaller space would take.
    notes
        What to know about the figures.
    """

    search: Search
    threads: int
    cores: int
    time: Range90
    n_epochs: float
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def most_epochs(self) -> int:
        """How many epochs there were without stopping any trial."""
        return self.search.n_trials * self.search.rules.max_epochs

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        search = self.search
        return {
            "time_s": self.time.median_s,
            "lower_s": self.time.lower_s,
            "upper_s": self.time.upper_s,
            "interval": 0.9,
            "label": "simulated",
            "scheduler": search.scheduler,
            "trials": search.n_trials,
            "max_epochs": search.rules.max_epochs,
            "min_epochs": search.rules.min_epochs,
            "eta": search.rules.eta,
            "cores": self.cores,
            "threads": self.threads,
            "at_a_time": search.n_slots,
            "start_up_s": search.start_up_s,
            "epochs": self.n_epochs,
            "most_epochs": self.most_epochs,
            "changes": [
                {
                    "kind": c.kind, "change": c.text, "time_s": c.time.median_s,
                    "lower_s": c.time.lower_s, "upper_s": c.time.upper_s, "saves": c.saves,
                }
                for c in self.changes
            ],
            "notes": list(self.notes),
        }  # fmt: skip

    def __str__(self) -> str:
        from foretell.tune.eta_text import forecast_text

        return forecast_text(self)


def predict_search(  # noqa: PLR0913 - all but the first by name
    space: Path | str | Mapping[str, Any] | Space,
    *,
    model: Model,
    trials: int,
    max_epochs: int,
    cores: int,
    scheduler: str = "asha",
    eta: float = 3,
    min_epochs: int = 1,
    start_up_s: float | None = None,
    job: str | None = None,
    share: bool = False,
    study: str | None = None,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> SearchForecast:
    """Predict how long a hyperparameter search will take, with a 90 % interval.

    Parameters
    ----------
    space
        A space file, or a dict of its shape.
    model
        Predicts the time of an epoch: a model, a folder with one, or a store of epochs.
    trials, max_epochs
        How many configurations are tried, and how long the longest trains.
    cores
        On which trials run, each on as many as it has threads.
    scheduler
        ``asha`` or ``hyperband`` as in Ray Tune, ``random`` without stopping, ``optuna-halving``,
        ``optuna-halving-auto`` or ``optuna-hyperband`` as the pruners of Optuna.
    eta
        One of so many trials goes on to the next rung.
    min_epochs
        No trial is stopped before it: the grace period of ASHA, ``min_resource`` of Optuna.
    start_up_s
        What passes between a free slot and the first epoch of a trial; by default that of the
        space.
    job
        Which job of a store is meant.
    share
        Use epochs of other machines in a store, too.
    study
        The name of the Optuna study, which decides the brackets of trials; else they are drawn.
    n_draws, seed
        How many searches are simulated, and the seed of that.
    """
    given = read_space(space)
    rules = Rules(max_epochs, eta, min_epochs)
    start_up_s = given.start_up_s if start_up_s is None else start_up_s
    if not 0 <= start_up_s < float("inf"):
        raise UsageError(f"must be at least 0, not {start_up_s:g}", option=Option("start_up_s"))
    n_slots = slots_of(cores, given.threads)
    search = Search(scheduler, trials, rules, n_slots, start_up_s, study)
    _check_choice(given)
    if study is not None and not SCHEDULERS.get(scheduler).has_study:
        raise UsageError(
            f"the name of a study decides nothing with {scheduler}",
            option=Option("study", study),
            remedy=("leave it out, or set ", Option("scheduler", "optuna-hyperband")),
        )
    if not (isinstance(model, str | Path) and store_in(Path(model))):
        _refuse_of_store(job=job is not None, share=share)
    times = epoch_times_of(model, job, share=share)
    check_columns(given, times.columns, "the model")
    if isinstance(times, PredictedEpochs):
        _check_numbers(given, times)
    return _Question(given, search, times, cores, (n_draws, seed)).answer()


def _check_choice(space: Space) -> None:
    """Refuse a space with nothing to choose."""
    for values in space.hyperparameters.values():
        is_open = isinstance(values, Range) and values.is_continuous and values.start < values.stop
        if is_open or (not _is_continuous(values) and len(set(listed(values))) > 1):
            return
    only = listing(f"{n}={_first(v)}" for n, v in space.hyperparameters.items())
    raise UsageError(
        f"the space has one configuration ({only}), and a search needs at least two to choose "
        "from; list more values under [hyperparameters]"
    )


def _refuse_of_store(**is_given: bool) -> None:
    """Refuse options that only a store of epochs has."""
    for name in (name for name, given in is_given.items() if given):
        raise UsageError(
            "is of a store of epochs, and the model is none; leave it out", option=Option(name)
        )


def _check_numbers(space: Space, times: PredictedEpochs) -> None:
    """Refuse words among the values of what a model knows as a number."""
    for name, values in {**space.hyperparameters, **space.system, **space.fixed}.items():
        if name not in times.model.ranges or isinstance(values, Range):
            continue
        words = [v for v in listed(values) if isinstance(v, str)]
        if words:
            raise UsageError(
                f"the space lists '{words[0]}' for {name}, of which the model knows numbers; write "
                "numbers there"
            )


def _is_continuous(values: Any) -> bool:
    return isinstance(values, Range) and values.is_continuous


def _first(values: Any) -> Any:
    return values.draw(0.0) if isinstance(values, Range) else listed(values)[0]


class _Question:
    """One search and its alternatives, drawn with the same chances."""

    def __init__(
        self, space: Space, search: Search, times: EpochTimes, cores: int, draws: tuple[int, int]
    ) -> None:
        self.space, self.search, self.times, self.cores = space, search, times, cores
        self.n_draws, self.seed = draws
        if self.n_draws < 20:
            raise UsageError(f"must be at least 20, not {self.n_draws}", option=Option("n_draws"))
        if self.seed < 0:
            raise UsageError(f"must be at least 0, not {self.seed}", option=Option("seed"))
        self.spread = spread_over(space, times, self.seed)

    def answer(self) -> SearchForecast:
        pool = Pool.of(self.space, self.times, self.seed)
        base = self.play(self.search, pool)
        changes = [*self.threads(base), *self.epochs(base, pool), *self.parts(base, pool)]
        return SearchForecast(
            self.search, self.space.threads, self.cores, Range90.of(base.end_s),
            float(base.n_epochs.mean()), tuple(changes), tuple(self.notes()),
        )  # fmt: skip

    def play(self, search: Search, pool: Pool) -> PlayedDraws:
        return play_draws(search, pool, self.spread, self.n_draws, self.seed)

    def change(self, kind: str, text: str, base: PlayedDraws, other: PlayedDraws) -> Change:
        time = Range90.of(other.end_s)
        return Change(kind, text, time, 1 - time.median_s / Range90.of(base.end_s).median_s)

    def threads(self, base: PlayedDraws) -> Iterator[Change]:
        """Try other threads per trial: those of the space, or half and twice as many."""
        if THREADS not in self.times.columns:
            return
        given = [int(n) for n in listed(self.space.system.get(THREADS, 1))]
        others = given[1:] or [given[0] // 2, given[0] * 2]
        for n in sorted(set(others) - {given[0]}):
            if not 1 <= n <= self.cores:
                continue
            space = self.space.with_system(THREADS, n)
            search = replace(self.search, n_slots=self.cores // n)
            found = self.play(search, Pool.of(space, self.times, self.seed))
            text = f"{n} thread{'s' if n > 1 else ''} per trial"
            yield self.change("threads", text, base, found)

    def epochs(self, base: PlayedDraws, pool: Pool) -> Iterator[Change]:
        """Try one rung fewer: trials that end at the rung before the last."""
        rules = self.search.rules
        fewer = int(rules.max_epochs / rules.eta)
        has_rungs = SCHEDULERS.get(self.search.scheduler).has_eta
        if not has_rungs or fewer < max(rules.min_epochs, 1):
            return
        found = self.play(with_epochs(self.search, fewer), pool)
        yield self.change("epochs", f"one rung fewer (at most {fewer} epochs)", base, found)

    def parts(self, base: PlayedDraws, pool: Pool) -> list[Change]:
        """Try the space without the values that make epochs long, the most expensive first."""
        parts = self.space.parts(self.times.columns)
        pools = [Pool.of(self.space.without(p), self.times, self.seed) for p in parts]
        usual = pool.epoch_s.mean()
        order = sorted(range(len(parts)), key=lambda i: float(pools[i].epoch_s.mean()))
        found = [
            self.change("space", f"without {parts[i].text}", base, self.play(self.search, pools[i]))
            for i in order[:_MOST_PARTS]
            if pools[i].epoch_s.mean() < (1 - _WORTH) * usual
        ]
        return [change for change in found if change.saves >= _WORTH]

    def notes(self) -> Iterator[str]:
        """Say where the model is asked outside its data, and what it does not know."""
        if isinstance(self.times, PredictedEpochs):
            share, where = self.times.outside(
                self.space.draw(200, np.random.default_rng(self.seed))
            )
            if share:
                yield (
                    f"Trust: {rough_percent(share)} of the configurations are far outside the data "
                    f"of the model, such as {where}. Times there may be far off; measure some."
                )
            if not self.times.model.has_intervals:
                yield "The model has no intervals; epochs are taken to be off by 20 %."
            yield from self.times.notes
        if THREADS in self.space.system and THREADS not in self.times.columns:
            yield "The model does not know threads, so that other numbers of them are not compared."
