"""The choice for the scenario *server*: requests at random times, batched as they wait."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np

from foretell.decide.deployment.batch_times import OPTIMISTIC, PESSIMISTIC, BatchTimes, Times
from foretell.decide.deployment.formulas import capacity_per_s
from foretell.decide.deployment.question import (
    MOST_LOAD,
    MOST_REPLICAS,
    Choice,
    Play,
    Question,
    best_batches,
    fewest_replicas,
    ranked,
)
from foretell.decide.deployment.settings import Assessed, Choices, Setting
from foretell.decide.deployment.wording import rate_text, threads_text, time_text
from foretell.errors import NothingUsableError, Option

#: Batch sizes for which waits are tried, and settings with as many threads and replicas that are
#: played thoroughly.
_N_WITH_WAITS, _N_CHECKED = 4, 6
#: How often replicas are added where thorough plays break the limit: 1, then 2, 4 and so on more.
_N_ADDED = 5
#: Waits that are tried, as shares of the limit; without one, of the time of one sample.
_WAITS_OF_LIMIT = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
_WAITS_OF_ONE = (0.5, 1.0, 2.0)
_N_HALVINGS = 8


def choose_server(question: Question, times: Times, play: Play) -> Choice:
    """Choose the setting with the fewest cores that keeps up and keeps the limit."""
    _check_limit(question, times)
    search = _Search(question, times, play)
    best = search.run()
    if best is None:
        raise _no_setting(question, times, search, play)
    return _chosen(question, *best, times, play, search.assessed)


class _Search:
    """Looks for the setting on the fewest cores that keeps the limit in thorough plays.

    Settings are compared by rough plays. They say little of a p99 that is close to the limit, so
    that where thorough ones break it, settings with a lower p99 and more replicas are tried.
    """

    def __init__(self, question: Question, times: Times, play: Play) -> None:
        self._question, self._times, self._play = question, times, play
        self._found: dict[int, list[Assessed]] = {}
        self._broken_s: list[float] = []

    @property
    def assessed(self) -> list[Assessed]:
        """All settings with the replicas that were tried last, by threads."""
        return [one for found in self._found.values() for one in found]

    @property
    def closest_s(self) -> float | None:
        """The lowest p99 that breaks the limit; rough ones count where none is thorough."""
        rough = [_p99(a) for a in self.assessed if a.trouble and a.figures is not None]
        return min(self._broken_s or rough, default=None)

    def run(self) -> tuple[Setting, float] | None:
        """Return the best setting, and its p99 with pessimistic times."""
        question = self._question
        most = question.most_replicas or MOST_REPLICAS
        for threads in question.choices.threads:
            fewest = _fewest_replicas(question, self._times[threads], self._play)
            self._found[threads] = self._with_replicas(threads, fewest)
        n_added: Counter[int] = Counter()
        broken: dict[int, int] = {}
        while best := ranked(self.assessed, question.goal, self._times):
            threads, replicas = best[0].setting.threads, best[0].setting.replicas
            chosen = self._played([a for a in best if a.setting.threads == threads])
            if chosen is not None:
                chosen = self._with_fewer(chosen, broken.pop(threads, replicas - 1))
                return self._on_fewer_cores(chosen, broken)
            broken[threads] = replicas
            if replicas < most and n_added[threads] < _N_ADDED:
                more = min(replicas + 2 ** n_added[threads], most)
                n_added[threads] += 1
                self._found[threads] = self._with_replicas(threads, more)
        return None

    def _with_fewer(self, chosen: tuple[Setting, float], broken: int) -> tuple[Setting, float]:
        """Return the setting with the fewest replicas, by halving what was added at once.

        Parameters
        ----------
        broken
            The most replicas known to break the limit.
        """
        threads = chosen[0].threads
        kept = self._found[threads]
        while chosen[0].replicas - broken > 1:
            middle = (broken + chosen[0].replicas) // 2
            self._found[threads] = self._with_replicas(threads, middle)
            group = ranked(self._found[threads], self._question.goal, self._times)
            fewer = self._played(group) if group else None
            if fewer is None:
                broken = middle
            else:
                chosen, kept = fewer, self._found[threads]
        self._found[threads] = kept
        return chosen

    def _on_fewer_cores(
        self, chosen: tuple[Setting, float], broken: dict[int, int]
    ) -> tuple[Setting, float]:
        """Return a setting with other threads on fewer cores, where numbers between were left out.

        Parameters
        ----------
        broken
            By threads, the most replicas known to break the limit.
        """
        for threads, least in broken.items():
            most = (chosen[0].cores - 1) // threads
            if most <= least:
                continue
            self._found[threads] = self._with_replicas(threads, most)
            group = ranked(self._found[threads], self._question.goal, self._times)
            fewer = self._played(group) if group else None
            if fewer is not None:
                chosen = self._with_fewer(fewer, least)
        return chosen

    def _with_replicas(self, threads: int, replicas: int) -> list[Assessed]:
        """Assess batch sizes and waits."""
        question, times, play = self._question, self._times[threads], self._play
        found = _assess_batches(question, times, play, replicas)
        least_s, given = _least_wait(question.choices), question.choices.waits_s
        waits = given if given is not None else _waits(question, times)
        for batch in best_batches(found, question.goal, _N_WITH_WAITS):
            for wait_s in waits:
                if wait_s > least_s and batch > 1:
                    setting = Setting(batch, wait_s, threads, replicas)
                    found.append(_assess(question, setting, times, play))
        return found

    def _played(self, group: list[Assessed]) -> tuple[Setting, float] | None:
        """Play settings thoroughly, the best first, until one keeps the limit.

        Of the others it is noted that they cannot be used.
        """
        limit_s = math.inf if self._question.limit_s is None else self._question.limit_s
        lowest = min(group, key=_p99)
        worse, n_played = 1.0, 0
        for one in group:
            # What breaks the limit even if it is no further off than others were is left out; the
            # one with the lowest p99 is played in any case.
            is_near = worse * _p99(one) > limit_s or n_played >= _N_CHECKED
            if is_near and one is not lowest:
                self._refuse(one, replace(one, trouble=f"p99 too near {time_text(limit_s)}"))
                continue
            figures = self._play(
                one.setting, self._question.scenario, sureness=PESSIMISTIC, is_rough=False
            )
            if figures.p99_s <= limit_s:
                return one.setting, figures.p99_s
            n_played += 1
            worse = max(worse, figures.p99_s / _p99(one))
            self._broken_s.append(figures.p99_s)
            told = f"p99 up to {_above(figures.p99_s, limit_s)}"
            self._refuse(one, Assessed(one.setting, figures, told))
        return None

    def _refuse(self, one: Assessed, refused: Assessed) -> None:
        found = self._found[one.setting.threads]
        found[found.index(one)] = refused


def _p99(one: Assessed) -> float:
    assert one.figures is not None
    return one.figures.p99_s


def _above(p99_s: float, limit_s: float) -> str:
    """Write a p99 that breaks the limit, also where both look the same."""
    told = time_text(p99_s)
    return f"just above {told}" if told == time_text(limit_s) else told


def _chosen(
    question: Question,
    setting: Setting,
    pessimistic_s: float,
    times: Times,
    play: Play,
    found: list[Assessed],
) -> Choice:
    figures = play(setting, question.scenario, sureness=0.0, is_rough=False)
    low = play(setting, question.scenario, sureness=OPTIMISTIC, is_rough=True).p99_s
    holds = _holds_to(question, setting, times[setting.threads], play)
    interval = (min(low, figures.p99_s), max(pessimistic_s, figures.p99_s))
    return Choice(setting, figures, interval, holds, tuple(found))


def _least_wait(choices: Choices) -> float:
    """Return the shortest wait that may be chosen."""
    return 0.0 if choices.waits_s is None else min(choices.waits_s)


def _assess_batches(
    question: Question, times: BatchTimes, play: Play, replicas: int
) -> list[Assessed]:
    """Assess all batch sizes with the shortest wait; one sample alone waits for no other."""
    wait_s = _least_wait(question.choices)
    settings = [
        Setting(batch, wait_s if batch > 1 else 0.0, times.threads, replicas)
        for batch in question.choices.batches
    ]
    return [_assess(question, setting, times, play) for setting in settings]


def _fewest_replicas(question: Question, times: BatchTimes, play: Play) -> int:
    """Return the smallest number with which any batch size will do; else the most allowed."""
    most = question.most_replicas or MOST_REPLICAS
    best = max(_capacity(question, times, batch) for batch in question.choices.batches)
    least = math.floor(question.scenario.rate_per_s / (MOST_LOAD * best)) + 1
    if least >= most or question.limit_s is None:
        return min(least, most)

    def will_do(replicas: int) -> bool:
        return any(a.is_kept for a in _assess_batches(question, times, play, replicas))

    return fewest_replicas(will_do, least, most)


def _assess(question: Question, setting: Setting, times: BatchTimes, play: Play) -> Assessed:
    """Play a setting roughly, with pessimistic times."""
    rate = question.scenario.rate_per_s / setting.replicas
    capacity = _capacity(question, times, setting.batch)
    if rate >= MOST_LOAD * capacity:
        return Assessed(setting, None, f"keeps up with {rate_text(capacity)} only")
    figures = play(setting, question.scenario, sureness=PESSIMISTIC, is_rough=True)
    if question.limit_s is not None and figures.p99_s > question.limit_s:
        return Assessed(setting, figures, f"p99 up to {_above(figures.p99_s, question.limit_s)}")
    return Assessed(setting, figures)


def _capacity(question: Question, times: BatchTimes, batch: int) -> float:
    slower = math.exp(PESSIMISTIC * float(times.error(batch).item()))
    mean_s = float(times.mean_s(batch).item()) * slower + question.overhead_s
    return capacity_per_s(batch, mean_s)


def _waits(question: Question, times: BatchTimes) -> list[float]:
    if question.limit_s is not None:
        return [share * question.limit_s for share in _WAITS_OF_LIMIT]
    return [share * float(times.median_s(1).item()) for share in _WAITS_OF_ONE]


def _holds_to(question: Question, setting: Setting, times: BatchTimes, play: Play) -> float:
    """Return up to which rate a setting keeps the limit, by halving."""
    low = question.scenario.rate_per_s
    high = MOST_LOAD * setting.replicas * _capacity(question, times, setting.batch)
    if question.limit_s is None or high <= low:
        return max(low, high)
    for _ in range(_N_HALVINGS):
        middle = (low + high) / 2
        scenario = replace(question.scenario, rate_per_s=middle)
        p99_s = play(setting, scenario, sureness=PESSIMISTIC, is_rough=True).p99_s
        low, high = (middle, high) if p99_s <= question.limit_s else (low, middle)
    return low


def _check_limit(question: Question, times: Times) -> None:
    """Raise an error if not even one sample alone keeps the limit."""
    if question.limit_s is None:
        return
    alone = {threads: _alone_p99(question, own) for threads, own in times.items()}
    threads = min(alone, key=lambda t: alone[t])
    if alone[threads] > question.limit_s:
        raise NothingUsableError(
            f"no setting keeps a p99 of {time_text(question.limit_s)}: one sample alone, with no "
            f"other request, has a p99 of {time_text(alone[threads])} with "
            f"{threads_text(threads)}, which is the best attainable",
            option=Option("p99"),
        )


def _alone_p99(question: Question, times: BatchTimes) -> float:
    pause_s = times.pause_s if question.pause_s is None else question.pause_s
    return float(np.quantile(times.table(1, overhead_s=question.overhead_s)[1], 0.99)) + pause_s


def _no_setting(
    question: Question, times: Times, search: _Search, play: Play
) -> NothingUsableError:
    """Say what is missing: replicas, or time, or a shorter wait."""
    told = _lack(question, times, search)
    enough = _enough(question, times, play)
    if enough is not None:
        remedy = (f"{enough} would do: ", Option("replicas", str(enough)))
        return NothingUsableError(f"{told}.", remedy=remedy)
    wait_s = _least_wait(question.choices)
    if wait_s > 0:
        alike = replace(question, choices=replace(question.choices, waits_s=(0.0,)))
        if _Search(alike, times, play).run() is not None:
            return NothingUsableError(
                f"{told}: a wait of {time_text(wait_s)} breaks the limit",
                remedy=("without it the limit is kept: ", Option("vary", "0", key="wait")),
            )
    return NothingUsableError(told)


def _lack(question: Question, times: Times, search: _Search) -> str:
    rate = question.scenario.rate_per_s
    most = question.most_replicas or MOST_REPLICAS
    best = max(
        most * _capacity(question, own, batch)
        for own in times.values()
        for batch in question.choices.batches
    )
    if MOST_LOAD * best <= rate:
        keeps = "one replica keeps" if most == 1 else f"{most:,} replicas keep"
        return f"{rate_text(rate)} is above capacity: {keeps} up with {rate_text(best)}"
    limit_s = math.inf if question.limit_s is None else question.limit_s
    tried = max(one.setting.replicas for one in search.assessed)
    replicas = "1 replica" if tried == 1 else f"up to {tried:,} replicas"
    told = f"no setting with {replicas} keeps a p99 of {time_text(limit_s)}"
    closest_s = search.closest_s
    return (
        told if closest_s is None else f"{told}; the closest comes to {_above(closest_s, limit_s)}"
    )


def _enough(question: Question, times: Times, play: Play) -> int | None:
    """Return how many replicas would do in thorough plays, whatever the number of threads."""
    if question.most_replicas is None:  # then as many as there may be were tried
        return None
    fewest: int | None = None
    for threads in question.choices.threads:
        if fewest == 1:
            break
        choices = replace(question.choices, threads=(threads,))
        most = None if fewest is None else fewest - 1
        alone = replace(question, choices=choices, most_replicas=most)
        best = _Search(alone, times, play).run()
        fewest = fewest if best is None else best[0].replicas
    return fewest
