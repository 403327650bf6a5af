"""Dropping tasks: how many stay, where that changes, and the error by what was measured."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from foretell.approximate import n_kept
from foretell.decide.queueing.drop import (
    drop_steps,
    error_at,
    kept_counts,
    kept_share,
)


@given(some.integers(1, 2000), some.floats(0, 0.95))
def test_at_least_the_share_is_kept_and_less_than_one_task_more(n, drop):
    kept = n_kept(n, drop)
    assert 1 <= kept <= n
    assert n * (1 - drop) - 1e-6 <= kept < max(n * (1 - drop), 1) + 1


@pytest.mark.parametrize(
    ("n", "drop", "kept"), [(50, 0.2, 40), (10, 0.1, 9), (3, 0.95, 1), (5, 0.2, 4)]
)
def test_round_ratios_keep_round_numbers(n, drop, kept):
    assert n_kept(n, drop) == kept


@given(some.integers(2, 60), some.floats(0, 0.95))
def test_every_number_of_kept_tasks_has_its_smallest_ratio_among_the_steps(n, drop):
    steps = drop_steps({n: 1.0}, 0.95)
    best = max(step for step in steps if step <= drop + 1e-9)
    assert n_kept(n, best) == n_kept(n, drop)


def test_random_numbers_of_tasks_are_dropped_one_by_one():
    assert kept_counts({10: 0.5, 9: 0.25, 8: 0.25}, 0.1) == {9: 0.75, 8: 0.25}
    assert kept_share({10: 0.5, 2: 0.5}, 0.1) == pytest.approx(0.5 * 0.9 + 0.5 * 1)
    assert math.fsum(kept_counts({3: 0.1, 4: 0.2, 50: 0.7}, 0.5).values()) == pytest.approx(1)


def test_errors_are_on_lines_between_what_was_measured_and_unknown_beyond():
    table = {0.1: 0.085, 0.2: 0.15, 0.4: 0.32}
    assert error_at(table, 0.0) == 0
    assert error_at(table, 0.05) == pytest.approx(0.0425)
    assert error_at(table, 0.3) == pytest.approx(0.235)
    assert error_at(table, 0.5) is None
    assert error_at({}, 0.1) is None
    assert error_at({}, 0.0) == 0
