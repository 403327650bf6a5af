"""Sharing at one moment: nobody gets more than needed, nothing is given away twice."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from foretell.decide.corun.sharing import speeds, water_fill

needs = st.lists(st.floats(0.01, 8), min_size=1, max_size=6)


@given(needs, st.floats(0.1, 10), st.randoms())
def test_water_filling_uses_all_there_is_and_favors_nobody(needs, capacity, random):
    weights = [random.uniform(0.1, 3) for _ in needs]
    given = water_fill(needs, weights, capacity)
    assert sum(given) == pytest.approx(min(sum(needs), capacity))
    assert all(g <= n * (1 + 1e-9) for g, n in zip(given, needs, strict=True))
    # Max-min fairness: whoever lacks something has at least as much by weight as anybody else.
    for (g, n, w), (other, _, v) in itertools.product(
        zip(given, needs, weights, strict=True), repeat=2
    ):
        if g < n * (1 - 1e-9):
            assert g / w >= other / v - 1e-9


def test_the_least_share_of_one_resource_is_as_large_as_a_linear_program_can_make_it():
    needs, capacity = [0.5, 2.0, 1.7, 0.2], 2.0
    given = water_fill(needs, [1.0] * 4, capacity)
    lacking = [k for k in range(4) if given[k] < needs[k]]
    found = linprog(
        [0, 0, 0, 0, -1],
        A_ub=[[1, 1, 1, 1, 0], *([[-(k == j) for k in range(4)] + [1] for j in lacking])],
        b_ub=[capacity] + [0] * len(lacking),
        bounds=[(0 if k in lacking else n, n) for k, n in enumerate(needs)] + [(0, None)],
    )
    assert min(given[k] for k in lacking) == pytest.approx(-found.fun)


@st.composite
def demands(draw):
    n_jobs = draw(st.integers(1, 5))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        asks = [
            (j, draw(st.floats(0.01, 3)), draw(st.floats(0.2, 4)))
            for j in range(n_jobs)
            if draw(st.booleans())
        ]
        found.append((draw(st.floats(0.2, 4)), asks))
    return n_jobs, found


@given(demands())
def test_no_resource_is_given_away_twice_and_nobody_is_faster_than_alone(case):
    n_jobs, found = case
    speed = [s for s, _ in speeds(n_jobs, found)]
    assert all(0 < s <= 1 for s in speed)
    for capacity, asks in found:
        assert sum(need * speed[j] for j, need, _ in asks) <= capacity * (1 + 1e-6)


@given(demands())
def test_every_job_that_is_slowed_waits_for_a_resource_that_is_used_up(case):
    n_jobs, found = case
    result = speeds(n_jobs, found)
    speed = [s for s, _ in result]
    for j, (s, k) in enumerate(result):
        if s < 1 - 1e-6:
            capacity, asks = found[k]
            assert j in {who for who, _, _ in asks}
            assert sum(need * speed[i] for i, need, _ in asks) >= 0.9 * capacity


def test_a_job_that_waits_for_the_disk_leaves_its_cpu_time_to_others():
    cpu = (1.0, [(0, 1.0, 1.0), (1, 1.0, 1.0)])
    disk = (0.2, [(0, 1.0, 1.0)])
    (slow, limit), (fast, _) = speeds(2, [cpu, disk])
    assert (slow, limit) == (pytest.approx(0.2), 1)
    assert fast == pytest.approx(0.8)
