"""The choice for the scenarios *single-stream*, *multi-stream* and *offline*."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from foretell.decide.deployment.batch_times import OPTIMISTIC, PESSIMISTIC, Times
from foretell.decide.deployment.question import (
    ENERGY,
    MOST_REPLICAS,
    Choice,
    Play,
    Question,
    fewest_replicas,
    goal_value,
    ranked,
)
from foretell.decide.deployment.scenario import MULTI_STREAM, OFFLINE
from foretell.decide.deployment.settings import Assessed, Setting
from foretell.decide.deployment.wording import time_text
from foretell.errors import NothingUsableError, Option

#: Settings whose energy is equal within a percent are ranked by samples per second.
_EQUAL = 1.01


def choose_stream(question: Question, times: Times, play: Play) -> Choice:
    """Choose threads for one sample at a time, or batches for samples that come together."""
    name = question.scenario.name
    if name == OFFLINE:
        found = _assess_all(question, _settings(question, question.choices.batches, 1), play)
        kept = [a for a in found if a.is_kept]
        if not kept:
            raise _no_setting(question, found, play)
        return _chosen(question, _best_offline(kept, question.goal).setting, play, found)
    if name == MULTI_STREAM:
        found = _with_fewest_replicas(question, play)
        kept = ranked(found, question.goal, times)
    else:  # one sample at a time leaves no other work for cores, so that they may all be used
        found = _assess_all(question, _settings(question, [1], 1), play)
        kept = sorted((a for a in found if a.is_kept), key=partial(_value, question.goal))
    if not kept:
        raise _no_setting(question, found, play)
    return _chosen(question, kept[0].setting, play, found)


def _value(goal: str, one: Assessed) -> float:
    assert one.figures is not None
    return goal_value(goal, one.figures)


def _best_offline(kept: list[Assessed], goal: str) -> Assessed:
    """Return the setting with the most samples per second, or that with the least energy."""
    if goal == ENERGY:
        most = _EQUAL * min(_value(goal, one) for one in kept)
        kept = [one for one in kept if _value(goal, one) <= most]
    return max(kept, key=lambda a: 0.0 if a.figures is None else a.figures.per_s)


def _settings(question: Question, batches: Iterable[int], replicas: int) -> list[Setting]:
    return [
        Setting(batch, 0.0, threads, replicas)
        for threads in question.choices.threads
        for batch in batches
    ]


def _with_fewest_replicas(question: Question, play: Play) -> list[Assessed]:
    """Assess settings with as few replicas as will do; more than samples have nothing to do."""
    n_samples = question.scenario.n_samples
    found: dict[int, list[Assessed]] = {}

    def will_do(replicas: int) -> bool:
        each = -(-n_samples // replicas)
        batches = [b for b in question.choices.batches if b <= each]
        batches = batches or [min(question.choices.batches)]
        found[replicas] = _assess_all(question, _settings(question, batches, replicas), play)
        return any(a.is_kept for a in found[replicas])

    most = min(question.most_replicas or MOST_REPLICAS, n_samples)
    return found[fewest_replicas(will_do, 1, most)]


def _assess_all(question: Question, settings: list[Setting], play: Play) -> list[Assessed]:
    return [_assess(question, setting, play) for setting in settings]


def _assess(question: Question, setting: Setting, play: Play) -> Assessed:
    figures = play(setting, question.scenario, sureness=PESSIMISTIC, is_rough=True)
    if figures.busy >= 1 and question.scenario.name == MULTI_STREAM:
        need = time_text(figures.busy * question.scenario.every_s)
        told = f"needs {need} of every {time_text(question.scenario.every_s)}"
        return Assessed(setting, figures, told)
    if question.limit_s is not None and figures.p99_s > question.limit_s:
        return Assessed(setting, figures, f"p99 up to {time_text(figures.p99_s)}")
    return Assessed(setting, figures)


def _chosen(question: Question, setting: Setting, play: Play, found: list[Assessed]) -> Choice:
    low, figures, high = (
        play(setting, question.scenario, sureness=sureness, is_rough=False)
        for sureness in (OPTIMISTIC, 0.0, PESSIMISTIC)
    )
    return Choice(setting, figures, (low.p99_s, high.p99_s), None, tuple(found))


def _no_setting(question: Question, found: list[Assessed], play: Play) -> NothingUsableError:
    """Say what is missing: replicas, or time."""
    known = [a.figures.p99_s for a in found if a.figures is not None]
    is_multi = question.scenario.name == MULTI_STREAM
    if is_multi and all(a.figures is not None and a.figures.busy >= 1 for a in found):
        quickest = min(found, key=lambda a: a.figures.busy if a.figures else 0.0)
        option = Option("arrivals")
        told = (
            f"{question.scenario.n_samples} samples every {time_text(question.scenario.every_s)} "
            f"are above capacity: the quickest setting {quickest.trouble}"
        )
    else:
        option = Option("p99")
        told = (
            f"no setting keeps a p99 of {time_text(question.limit_s or 0.0)}: "
            f"{time_text(min(known))} is the best attainable"
        )
    if not is_multi:
        return NothingUsableError(told, option=option)
    enough = _enough(question, play)
    if enough is not None:
        remedy = (f"{enough} would do: ", Option("replicas", str(enough)))
        return NothingUsableError(f"{told}.", option=option, remedy=remedy)
    if question.scenario.n_samples > MOST_REPLICAS:
        told += f"; more than {MOST_REPLICAS:,} replicas would be needed, which are not tried"
    else:  # with a replica for each sample it was tried, too
        told += "; no number of replicas would do"
    return NothingUsableError(told, option=option)


def _enough(question: Question, play: Play) -> int | None:
    """Return how many replicas would do, if there were no limit to them."""
    if question.most_replicas is None:
        return None
    found = _with_fewest_replicas(replace(question, most_replicas=None), play)
    return min((a.setting.replicas for a in found if a.is_kept), default=None)
