"""What to drop and when to sprint: plans tried, those that break a limit out, the best one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from foretell.decide.queueing.assess import (
    ERROR,
    LOAD,
    MEAN,
    MOST_LOAD,
    P95,
    RUNS,
    SPRINTS,
    Assessed,
    Assessor,
    Limit,
)
from foretell.decide.queueing.front import front_of
from foretell.decide.queueing.job_class import JobClass
from foretell.decide.queueing.options import DropSteps, options_of, steps_of
from foretell.decide.queueing.queue_file import Queue
from foretell.decide.queueing.search import try_plans
from foretell.decide.queueing.service._base import ServiceTime
from foretell.wording import plain

MOST_PLANS = 3_000
#: How many jobs a run has; nine runs of ten must keep the limits.
RUN_LENGTH = 1_000
#: Latencies closer than this are equal, and the error decides.
_EQUAL = 0.005
_N_HALVINGS = 7  # of the range in which more load breaks a limit
#: Plans that are checked exactly before there is none: the best of those that seem to keep all
#: limits, and then the closest of those that seem to break one.
_MOST_CHECKED, _MOST_CLOSE = 40, 10

ServiceOf = Callable[[JobClass, float], ServiceTime]


@dataclass(frozen=True)
class Assessors:
    """Who says what plans come to: all of them, the best one, and that one with more load."""

    many: Assessor
    exact: Assessor
    grown: Assessor


@dataclass(frozen=True, eq=False)
class Headroom:
    """How many times the load still works, and the limit that breaks beyond."""

    factor: float
    breaks: Limit | None


@dataclass(frozen=True, eq=False)
class Choice:
    """All plans that were tried, and what came of them.

    Attributes
    ----------
    chosen
        The best plan that keeps all limits; None if there is none.
    closest
        The plan that misses its limits by least, where none keeps them; of those that were checked.
    steps
        Drop ratios of each class, allowed and refused.
    binding
        The limits that keep from a better plan than the chosen one, or than the closest.
    front
        The plans that no other beats in latency, error and energy at once.
    n_plans
        How many plans there are; some are not tried if they are too many.
    is_settled
        Whether no change of one class, or exchange of sprints between two, seemed better.
    n_checked, is_all_checked
        How many of the best ones were computed exactly, and whether no other could keep the limits.
    """

    queue: Queue
    steps: Mapping[str, DropSteps]
    tried: tuple[Assessed, ...]
    chosen: Assessed | None
    closest: Assessed | None
    binding: tuple[str, ...]
    front: tuple[Assessed, ...]
    headroom: Headroom | None
    n_plans: int
    is_settled: bool = True
    n_checked: int = 0
    is_all_checked: bool = True

    @property
    def is_all_tried(self) -> bool:
        """Whether no plan was left out."""
        return len(self.tried) == self.n_plans


def choose_plan(
    queue: Queue,
    service_of: ServiceOf,
    assessors: Assessors,
    *,
    most_plans: int = MOST_PLANS,
) -> Choice:
    """Try plans of a queue, and choose one.

    Of more than ``most_plans`` so many are tried: an even selection, and what is near the best.

    The best keeps all limits and has the least sum of weight · p95; among equals the one with the
    least error, and then that with the least energy.
    """
    steps = {c.name: steps_of(c, partial(service_of, c)) for c in queue.classes}
    options = [list(options_of(steps[c.name].allowed, queue.sprint.speedup)) for c in queue.classes]
    found = try_plans(options, assessors.many, _leading, most=most_plans)
    tried = found.plans
    chosen, checked = _confirmed(tried, assessors.exact)
    kept = [a for a in tried if a.is_kept]
    closest = None if chosen else min(checked or tried, key=_missed)
    return Choice(
        queue,
        steps,
        tuple(tried),
        chosen,
        closest,
        tuple(_binding(chosen or closest or tried[0], tried, steps)),
        tuple(kept[i] for i in front_of([(a.latency_s, a.error, a.power.total_w) for a in kept])),
        None if chosen is None else headroom_of(assessors.grown, chosen),
        found.n_plans,
        found.is_settled,
        len(checked),
        chosen is not None or not _hopeful(tried, checked),
    )


def best_of(kept: Sequence[Assessed]) -> Assessed | None:
    """Return the plan with the least latency; among equals with the least error, then energy."""
    if not kept:
        return None
    least = min(a.latency_s for a in kept)
    near = [a for a in kept if a.latency_s <= least * (1 + _EQUAL)]
    return min(near, key=lambda a: (round(a.error, 9), round(a.power.total_w, 6), a.latency_s))


def _leading(tried: Sequence[Assessed]) -> Assessed:
    """Return the best plan that keeps its limits, or else the one that misses them by least."""
    return best_of([plan for plan in tried if plan.is_kept]) or min(tried, key=_missed)


def _confirmed(tried: list[Assessed], checker: Assessor) -> tuple[Assessed | None, list[Assessed]]:
    """Return the best plan that keeps its limits also exactly, and all that were checked.

    Plans that break a limit or were taken to do so are replaced in the list. Those that seem to
    break one of response times are checked too, the closest first: figures of many plans are not
    exact.
    """
    checked: list[Assessed] = []
    n_close = 0
    while len(checked) < _MOST_CHECKED and n_close < _MOST_CLOSE:
        best = best_of([a for a in tried if a.is_kept])
        if best is None:
            n_close += 1
            best = min(_hopeful(tried, checked), key=_missed, default=None)
        if best is None:
            break
        exact = checker.assess(best.options)
        if not (best.is_kept and exact.is_kept):
            tried[tried.index(best)] = exact
        checked.append(exact)
        if exact.is_kept:
            return exact, checked
    return None, checked


def _hopeful(tried: Sequence[Assessed], checked: Sequence[Assessed]) -> list[Assessed]:
    """Return the plans that may keep all limits, once they are computed exactly."""
    known = {id(plan) for plan in checked}
    return [
        plan
        for plan in tried
        if id(plan) not in known and all(x.what in (MEAN, P95) for x in plan.violations)
    ]


def _missed(plan: Assessed) -> tuple[bool, float, float]:
    """Return by how much the worst limit is missed; plans without figures come last.

    The share of runs does not count: it says how often a limit is missed, not by how much.
    """
    uses = [limit.use for limit in plan.limits if limit.what != RUNS]
    return (not plan.responses, max(uses), plan.load)


def _binding(
    chosen: Assessed, tried: Sequence[Assessed], steps: Mapping[str, DropSteps]
) -> list[str]:
    """Name the limits that keep from a better plan.

    More dropping and earlier sprints always shorten all response times. So it is enough to look
    for a plan that has more of one and nothing less of the other.
    """
    found = []
    for (name, of_class), option in zip(steps.items(), chosen.options, strict=True):
        if of_class.reason or option.drop < of_class.allowed[-1].drop:
            continue
        if of_class.refused:
            found.append(Limit(ERROR, name, of_class.refused[0].error, 0.0).label)
        else:
            found.append(f"the largest drop of '{plain(name)}' with a measured error")
    for plan in tried:
        pairs = list(zip(plan.options, chosen.options, strict=True))
        is_sooner = all(p.drop >= c.drop and p.sprint_after_s <= c.sprint_after_s for p, c in pairs)
        if is_sooner and [limit.what for limit in plan.violations] == [SPRINTS]:
            return [*found, plan.violations[0].label]
    return found


def headroom_of(grown: Assessor, chosen: Assessed) -> Headroom:
    """Find how many times the load a plan still keeps its limits, and which breaks then.

    A bucket that runs dry breaks nothing by itself: jobs then sprint less.
    """
    low, high = 1.0, max(1.0, 1.02 * MOST_LOAD / chosen.load)
    breaks: Limit | None = None
    for _ in range(_N_HALVINGS):
        middle = (low + high) / 2
        found = grown.assess(chosen.options, load_factor=middle)
        broken = [limit for limit in found.violations if limit.what in (MEAN, P95, LOAD, RUNS)]
        if broken:
            high, breaks = middle, _tightest(broken, found.limits)
        else:
            low = middle
    return Headroom(low, breaks)


def _tightest(broken: Sequence[Limit], limits: Sequence[Limit]) -> Limit:
    """Return the limit that breaks most; where only too many runs do, the tightest of them."""
    own = [limit for limit in broken if limit.what != RUNS]
    return max(
        own or [limit for limit in limits if limit.what in (MEAN, P95)],
        key=lambda limit: limit.use,
    )
