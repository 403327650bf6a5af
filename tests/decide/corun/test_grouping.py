"""Grouping: the exact plan is the best of all, and the others are allowed and not far off."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.decide.corun.grouping import GroupEnds, best_plan, matched, partitions, score


def cores(needs, n_cores, limit=100.0):
    """Return when jobs end that share cores, each needing some of them for a second."""

    def ends(group):
        total = sum(needs[k] for k in group)
        slower = max(1.0, total / n_cores)
        own = tuple(slower * (1 + 0.1 * k) for k in sorted(group))
        return GroupEnds(own, len(group) == 1 or slower <= limit)

    return ends


def all_plans(n_jobs, n_machines):
    """List all plans by brute force: every partition, every machine, every order."""
    for groups in partitions(n_jobs):
        for where in itertools.product(range(n_machines), repeat=len(groups)):
            own = [[g for g, w in zip(groups, where, strict=True) if w == m]
                   for m in range(n_machines)]  # fmt: skip
            yield from itertools.product(*(itertools.permutations(one) for one in own))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([0.3, 0.5, 1.0, 1.7]), min_size=1, max_size=4),
       st.integers(1, 2), st.sampled_from([1.0, 1.5, 100.0]))  # fmt: skip
def test_the_plan_of_few_jobs_is_the_best_of_all(needs, n_machines, limit):
    ends = cores(needs, 2.0, limit)
    found = score(best_plan(len(needs), n_machines, ends), ends)
    best = min(
        score(plan, ends)
        for plan in all_plans(len(needs), n_machines)
        if all(ends(g).is_allowed for own in plan for g in own)
    )
    assert found[0] == pytest.approx(best[0])


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_matching_saves_as_much_as_the_best_of_all_matchings(seed):
    draw = random.Random(seed)
    n = draw.randint(2, 7)
    lengths = {frozenset(p): draw.uniform(1, 2.4) for p in itertools.combinations(range(n), 2)}

    def ends(group):
        return GroupEnds((lengths.get(group, 1.0),) * len(group), True)

    def most_saved(left):
        """Try all matchings."""
        if not left:
            return 0.0
        first, *rest = left
        paired = (
            2 - lengths[frozenset((first, other))] + most_saved([k for k in rest if k != other])
            for other in rest
        )
        return max(most_saved(rest), *paired) if rest else 0.0

    best = most_saved(list(range(n)))
    groups = matched(n, ends)
    assert sorted(k for g in groups for k in g) == list(range(n))
    assert n - sum(ends(g).length_s for g in groups) == pytest.approx(best)


def test_many_jobs_are_grouped_within_the_limit_and_better_than_in_turn():
    draw = random.Random(3)
    needs = [draw.choice([0.25, 0.5, 1.0, 2.0]) for _ in range(14)]
    ends = cores(needs, 2.0, limit=1.2)
    plan = best_plan(14, 3, ends)
    groups = [g for own in plan for g in own]
    assert sorted(k for g in groups for k in g) == list(range(14))
    assert all(ends(g).is_allowed for g in groups)
    single = [[frozenset({k}) for k in range(m, 14, 3)] for m in range(3)]
    assert score(plan, ends)[0] < score(single, ends)[0]
    # No plan ends before all machines have done the least work there is.
    assert score(plan, ends)[0] >= sum(needs) / 2.0 / 3


def test_jobs_that_gain_nothing_together_run_one_after_the_other():
    """Two jobs that each need the whole machine: in turn, the first ends in half of the time."""
    ends = cores([2.0, 2.0], 2.0)
    assert [len(g) for g in best_plan(2, 1, ends)[0]] == [1, 1]
