"""Which plans are tried: an even selection, and then changes of the best one until none helps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, permutations, product
from typing import TypeVar

from foretell.decide.queueing.assess import Assessed, Assessor, Plan
from foretell.decide.queueing.options import Option
from foretell.errors import UsageError

T = TypeVar("T")
Best = Callable[[Sequence[Assessed]], Assessed]
Options = Sequence[Sequence[Option]]


@dataclass(frozen=True, eq=False)
class Tried:
    """Plans that were tried.

    Attributes
    ----------
    n_plans
        How many plans there are.
    is_settled
        Whether no change of one class, or exchange of sprints between two, is better than the best.
    """

    plans: list[Assessed]
    n_plans: int
    is_settled: bool


def try_plans(options: Options, assessor: Assessor, best_of: Best, *, most: int) -> Tried:
    """Try all plans; of more than ``most``, some that are spread evenly, and what is near the best.

    Parameters
    ----------
    best_of
        Says which of some plans is the best.
    most
        How many are tried in all.
    """
    n_plans = math.prod(map(len, options))
    selected = options if n_plans <= most else _selected(options, most)
    found = assessor.assess_all(list(product(*selected)))
    is_settled = len(found) == n_plans or _improve(found, options, assessor, best_of, most)
    return Tried(found, n_plans, is_settled)


def _improve(
    found: list[Assessed], options: Options, assessor: Assessor, best_of: Best, most: int
) -> bool:
    """Try what is near the best plan until nothing is better; add it; False if it was too much."""
    known = {plan.options for plan in found}
    has_budget = assessor.queue.sprint.refill_w is not None
    changes = (_with_one_changed, _with_a_sprint_exchanged)[: 1 + has_budget]
    while True:
        best = best_of(found).options
        for near in changes:
            left = [plan for plan in near(best, options) if plan not in known]
            if len(found) + len(left) > most:
                found += assessor.assess_all(left[: most - len(found)])
                return False
            known.update(left)
            found += assessor.assess_all(left)
            if best_of(found).options is not best:
                break
        else:
            return True


def _with_one_changed(plan: Plan, options: Options) -> Iterator[Plan]:
    for k, of_class in enumerate(options):
        yield from ((*plan[:k], option, *plan[k + 1 :]) for option in of_class)


def _with_a_sprint_exchanged(plan: Plan, options: Options) -> Iterator[Plan]:
    """Let one class sprint later, and another one earlier with what that leaves of the budget."""
    same_drop = [
        [option for option in of_class if option.drop == own.drop]
        for own, of_class in zip(plan, options, strict=True)
    ]
    for i, j in permutations(range(len(plan)), 2):
        later = [o for o in same_drop[i] if o.sprint_after_s > plan[i].sprint_after_s]
        earlier = [o for o in same_drop[j] if o.sprint_after_s < plan[j].sprint_after_s]
        for exchange in product(later, earlier):
            changed = dict(zip((i, j), exchange, strict=True))
            yield tuple(changed.get(k, own) for k, own in enumerate(plan))


def _selected(options: Options, most: int) -> list[list[Option]]:
    """Leave out options, evenly, until two thirds of what may be tried are left for changes."""
    found = [list(of_class) for of_class in options]
    while (n_plans := math.prod(map(len, found))) > most // 3:
        longest = max(found, key=len)
        fewer = _fewer(longest)
        if len(fewer) == len(longest):
            if n_plans <= most:
                break
            raise UsageError(
                f"{len(options)} classes that may be dropped or sprint give more than "
                f"{most:,} plans; leave out max_error of some"
            )
        longest[:] = fewer
    return found


def _fewer(options: Sequence[Option]) -> list[Option]:
    """Leave out times to sprint, then drops, then all but what does least and what does most.

    Sprints at once and never are left for each drop.
    """
    by_drop = [list(group) for _, group in groupby(options, key=lambda option: option.drop)]
    fewer = [_halved(group) for group in by_drop]
    if sum(map(len, fewer)) == len(options):
        fewer = _halved(by_drop)
    if sum(map(len, fewer)) == len(options) > 2:
        return [by_drop[0][-1], by_drop[-1][0]]
    return [option for group in fewer for option in group]


def _halved(values: Sequence[T]) -> list[T]:
    """Keep the first, the last, and every other one between.

    >>> _halved([0, 1, 2, 3, 4, 5]), _halved([0, 2, 5]), _halved([0, 5]), _halved([0])
    ([0, 2, 4, 5], [0, 5], [0, 5], [0])
    """
    return list(values) if len(values) < 2 else [values[0], *values[2:-1:2], values[-1]]
