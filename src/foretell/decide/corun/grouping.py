"""Grouping: which jobs to put together on each machine, and which to run one after the other.

A plan is a list of groups for each machine. The jobs of a group start together, and a group starts
when the one before it has ended. The best plan ends first; of several such plans, the one whose
jobs end first on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

#: Up to so many jobs, all plans are tried.
MOST_EXACT = 8
_MOST_ROUNDS = 500
_NEAR = 1e-9

Group = frozenset[int]


@dataclass(frozen=True)
class GroupEnds:
    """How the jobs of a group end if they run together, from its start.

    Attributes
    ----------
    ends_s
        By job, in the order of their numbers.
    is_allowed
        Whether they may be put together: they fit into memory, and none is slowed too much.
    """

    ends_s: tuple[float, ...]
    is_allowed: bool

    @property
    def length_s(self) -> float:
        """When the last of them ends."""
        return max(self.ends_s)


Ends = Callable[[Group], GroupEnds]
#: When the last job ends, and the sum of all ends.
Score = tuple[float, float]
#: For each machine its groups, in the order in which they run.
Plan = tuple[tuple[Group, ...], ...]


def best_plan(n_jobs: int, n_machines: int, ends: Ends) -> Plan:
    """Return the best plan: exact for few jobs, by matching and exchanges for many.

    One after the other is always a candidate: a job alone is always allowed.
    """
    known = cache(ends)
    if n_jobs <= MOST_EXACT:
        candidates: Iterator[list[Group]] = partitions(n_jobs)
    else:
        single = [frozenset({k}) for k in range(n_jobs)]
        starts = [single, matched(n_jobs, known)]
        candidates = iter([_improved(s, n_machines, known) for s in starts] + [single])
    best: tuple[Score, Plan] | None = None
    for groups in candidates:
        if not all(known(group).is_allowed for group in groups):
            continue
        is_small = n_jobs <= MOST_EXACT
        limit = math.inf if best is None else best[0][0]
        plan = _exactly_placed(groups, n_machines, known, limit) if is_small else None
        plan = plan or placed(groups, n_machines, known)
        found = (score(plan, known), plan)
        if best is None or _is_better(found[0], best[0]):
            best = found
    assert best is not None
    return best[1]


def _is_better(one: Score, other: Score) -> bool:
    if abs(one[0] - other[0]) > _NEAR * max(one[0], 1.0):
        return one[0] < other[0]
    return one[1] < other[1] * (1 - _NEAR)


def score(plan: Plan, ends: Ends) -> Score:
    """Return when the last job ends, and the sum of all ends."""
    last = total = 0.0
    for groups in plan:
        now = 0.0
        for group in groups:
            found = ends(group)
            total += now * len(group) + sum(found.ends_s)
            now += found.length_s
        last = max(last, now)
    return last, total


def placed(groups: Sequence[Group], n_machines: int, ends: Ends) -> Plan:
    """Give each group to the machine that is free first, the longest group first."""
    loads = [0.0] * n_machines
    found: list[list[Group]] = [[] for _ in range(n_machines)]
    for group in sorted(groups, key=lambda g: (-ends(g).length_s, sorted(g))):
        k = loads.index(min(loads))
        found[k].append(group)
        loads[k] += ends(group).length_s
    return _ordered(found, ends)


def _ordered(machines: Sequence[Sequence[Group]], ends: Ends) -> Plan:
    """Run groups first that are short for the number of their jobs: so jobs end early."""
    return tuple(
        tuple(sorted(own, key=lambda g: (ends(g).length_s / len(g), sorted(g)))) for own in machines
    )


def _exactly_placed(
    groups: Sequence[Group], n_machines: int, ends: Ends, limit: float
) -> Plan | None:
    """Return the best placing of groups on machines; None if all are longer than a limit."""
    order = sorted(groups, key=lambda g: (-ends(g).length_s, sorted(g)))
    lengths = [ends(group).length_s for group in order]
    best: list[tuple[Score, Plan]] = []

    def place(k: int, loads: tuple[float, ...], where: tuple[tuple[Group, ...], ...]) -> None:
        bound = min(limit, best[0][0][0]) if best else limit
        if max(loads, default=0.0) > bound * (1 + _NEAR):
            return
        if k == len(order):
            plan = _ordered([*where, *[()] * (n_machines - len(where))], ends)
            found = score(plan, ends)
            if not best or _is_better(found, best[0][0]):
                best[:] = [(found, plan)]
            return
        for m in range(len(where)):
            more = (*loads[:m], loads[m] + lengths[k], *loads[m + 1 :])
            place(k + 1, more, (*where[:m], (*where[m], order[k]), *where[m + 1 :]))
        if len(where) < n_machines:
            place(k + 1, (*loads, lengths[k]), (*where, (order[k],)))

    place(0, (), ())
    return best[0][1] if best else None


def partitions(n: int) -> Iterator[list[Group]]:
    """Yield all ways to divide n jobs into groups.

    >>> len(list(partitions(4)))
    15
    """
    if n == 0:
        yield []
        return
    for rest in partitions(n - 1):
        yield [*rest, frozenset({n - 1})]
        for k, group in enumerate(rest):
            yield [*rest[:k], group | {n - 1}, *rest[k + 1 :]]


def matched(n_jobs: int, ends: Ends) -> list[Group]:
    """Return pairs and single jobs that take the least machine time: a matching of least weight."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    alone = [ends(frozenset({k})).length_s for k in range(n_jobs)]
    pairs = []
    for a, b in combinations(range(n_jobs), 2):
        found = ends(frozenset({a, b}))
        if found.is_allowed and found.length_s < alone[a] + alone[b]:
            pairs.append((a, b, alone[a] + alone[b] - found.length_s))
    if not pairs:
        return [frozenset({k}) for k in range(n_jobs)]
    ones, jobs = np.ones(2 * len(pairs)), [k for a, b, _ in pairs for k in (a, b)]
    columns = np.repeat(np.arange(len(pairs)), 2)
    degrees = csr_array((ones, (jobs, columns)), shape=(n_jobs, len(pairs)))
    gains = np.array([gain for _, _, gain in pairs])
    solved = milp(
        -gains,
        constraints=LinearConstraint(degrees, -np.inf, 1),
        bounds=Bounds(0, 1),
        integrality=np.ones(len(pairs), dtype=int),
    )
    assert solved.x is not None  # taking no pair at all is possible
    chosen = [frozenset(pairs[k][:2]) for k in np.flatnonzero(np.round(solved.x))]
    taken = set().union(*chosen)
    return [*chosen, *(frozenset({k}) for k in range(n_jobs) if k not in taken)]


def _improved(groups: list[Group], n_machines: int, ends: Ends) -> list[Group]:
    """Merge groups, move jobs and exchange jobs, as long as the plan gets better."""
    best = score(placed(groups, n_machines, ends), ends)
    for _ in range(_MOST_ROUNDS):
        found = None
        for candidate in _neighbors(groups):
            changed = [g for g in candidate if g not in groups]
            if not all(ends(group).is_allowed for group in changed):
                continue
            value = score(placed(candidate, n_machines, ends), ends)
            if _is_better(value, best):
                best, found = value, candidate
                break  # the first that helps: looking at all of them takes long
        if found is None:
            return groups
        groups = found
    return groups


def _neighbors(groups: Sequence[Group]) -> Iterator[list[Group]]:
    """Yield plans with two groups merged, one job moved, or two jobs exchanged."""
    for a, b in combinations(range(len(groups)), 2):
        rest = [g for k, g in enumerate(groups) if k not in (a, b)]
        one, two = groups[a], groups[b]
        yield [*rest, one | two]
        for x in one:
            yield [*rest, *filter(None, (one - {x}, two | {x}))]
        for y in two:
            yield [*rest, *filter(None, (one | {y}, two - {y}))]
        for x in one:
            for y in two:
                yield [*rest, (one - {x}) | {y}, (two - {y}) | {x}]
