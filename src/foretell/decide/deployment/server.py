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
    ranked,
)
from foretell.decide.deployment.settings import Assessed, Setting
from foretell.decide.deployment.wording import rate_text, threads_text, time_text
from foretell.errors import NothingUsableError, Option

#: Batch sizes for which waits are tried, and settings on as many cores that are played thoroughly.
_N_WITH_WAITS, _N_CHECKED = 4, 3
#: Waits that are tried, as shares of the limit; without one, of the time of one sample.
_WAITS_OF_LIMIT = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
_WAITS_OF_ONE = (0.5, 1.0, 2.0)
_N_HALVINGS = 8


def choose_server(question: Question, times: Times, play: Play) -> Choice:
    """Choose the setting with the fewest cores that keeps up and keeps the limit."""
    _check_limit(question, times)
    found: list[Assessed] = []
    for threads in question.choices.threads:
        found += _with_threads(question, times[threads], play)
    best = ranked(found, question.goal, times)
    n_checked: Counter[tuple[int, int]] = Counter()
    for one in best:
        cores = one.setting.threads, one.setting.replicas
        n_checked[cores] += 1
        if n_checked[cores] > _N_CHECKED:
            continue
        pessimistic = play(
            one.setting, question.scenario, sureness=PESSIMISTIC, is_rough=False
        ).p99_s
        if question.limit_s is None or pessimistic <= question.limit_s:
            return _chosen(question, one.setting, pessimistic, times, play, found)
    raise _no_setting(question, times, found, play)


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


def _with_threads(question: Question, times: BatchTimes, play: Play) -> list[Assessed]:
    """Assess settings with one number of threads, and as few replicas as will do."""
    replicas = _fewest_replicas(question, times, play)
    found = _assess_batches(question, times, play, replicas)
    choices = question.choices
    waits = choices.waits_s if choices.waits_s is not None else _waits(question, times)
    for batch in best_batches(found, question.goal, _N_WITH_WAITS):
        for wait_s in waits:
            if wait_s > 0 and batch > 1:
                setting = Setting(batch, wait_s, times.threads, replicas)
                found.append(_assess(question, setting, times, play))
    if choices.waits_s is not None and 0.0 not in choices.waits_s:
        found = [a for a in found if a.setting.wait_s > 0 or a.setting.batch == 1]
    return found


def _assess_batches(
    question: Question, times: BatchTimes, play: Play, replicas: int
) -> list[Assessed]:
    return [
        _assess(question, Setting(batch, 0.0, times.threads, replicas), times, play)
        for batch in question.choices.batches
    ]


def _fewest_replicas(question: Question, times: BatchTimes, play: Play) -> int:
    """Return the smallest number with which any batch size will do; else the most allowed."""
    most = question.most_replicas or MOST_REPLICAS
    best = max(_capacity(question, times, batch) for batch in question.choices.batches)
    least = max(1, math.ceil(question.scenario.rate_per_s / (MOST_LOAD * best)))
    if least >= most or question.limit_s is None:
        return min(least, most)

    def will_do(replicas: int) -> bool:
        return any(a.is_kept for a in _assess_batches(question, times, play, replicas))

    high = least
    while not will_do(high):
        if high >= most:
            return most
        least, high = high + 1, min(2 * high, most)
    while least < high:
        middle = (least + high) // 2
        least, high = (least, middle) if will_do(middle) else (middle + 1, high)
    return high


def _assess(question: Question, setting: Setting, times: BatchTimes, play: Play) -> Assessed:
    """Play a setting roughly, with pessimistic times."""
    rate = question.scenario.rate_per_s / setting.replicas
    capacity = _capacity(question, times, setting.batch)
    if rate >= MOST_LOAD * capacity:
        return Assessed(setting, None, f"keeps up with {rate_text(capacity)} only")
    figures = play(setting, question.scenario, sureness=PESSIMISTIC, is_rough=True)
    if question.limit_s is not None and figures.p99_s > question.limit_s:
        return Assessed(setting, figures, f"p99 up to {time_text(figures.p99_s)}")
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
    alone = {
        threads: float(np.quantile(own.table(1, overhead_s=question.overhead_s)[1], 0.99))
        for threads, own in times.items()
    }
    threads = min(alone, key=lambda t: alone[t])
    if alone[threads] > question.limit_s:
        raise NothingUsableError(
            f"no setting keeps a p99 of {time_text(question.limit_s)}: one sample alone, with no "
            f"other request, has a p99 of {time_text(alone[threads])} with "
            f"{threads_text(threads)}, which is the best attainable",
            option=Option("p99"),
        )


def _no_setting(
    question: Question, times: Times, found: list[Assessed], play: Play
) -> NothingUsableError:
    """Say what is missing: replicas, or time."""
    rate = question.scenario.rate_per_s
    most = question.most_replicas or MOST_REPLICAS
    best = max(
        most * _capacity(question, own, batch)
        for own in times.values()
        for batch in question.choices.batches
    )
    replicas = f"{most} replica{'' if most == 1 else 's'}"
    if MOST_LOAD * best <= rate:
        told = f"{rate_text(rate)} is above capacity: {replicas} keep up with {rate_text(best)}"
        if most == 1:
            told = f"{rate_text(rate)} is above capacity: one replica keeps up with "
            told += rate_text(best)
    else:
        p99s = [a.figures.p99_s for a in found if a.figures is not None]
        told = f"no setting with {replicas} keeps a p99 of {time_text(question.limit_s or 0.0)}"
        told += f"; the closest comes to {time_text(min(p99s))}" if p99s else ""
    enough = _enough(replace(question, most_replicas=None), times, play)
    if enough is None:
        return NothingUsableError(told)
    return NothingUsableError(
        f"{told}.", remedy=(f"{enough} would do: ", Option("replicas", str(enough)))
    )


def _enough(question: Question, times: Times, play: Play) -> int | None:
    """Return how many replicas would do, whatever the number of threads."""
    fewest = []
    for own in times.values():
        replicas = _fewest_replicas(question, own, play)
        if any(a.is_kept for a in _assess_batches(question, own, play, replicas)):
            fewest.append(replicas)
    return min(fewest, default=None)
