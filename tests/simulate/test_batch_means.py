"""Intervals from batches: they hold as often as they say, also for values that resemble others."""

import math

import numpy as np
import pytest

from foretell.simulate.batch_means import batch_mean, batch_quantile


def correlated(seed, n=4_000, memory=0.9):
    random = np.random.default_rng(seed)
    values, found = random.normal(size=n), np.empty(n)
    last = 0.0
    for i, value in enumerate(values):
        last = memory * last + value
        found[i] = last
    return found


def test_intervals_of_correlated_values_hold_about_as_often_as_they_say():
    inside = [
        e.lower <= 0 <= e.upper for e in (batch_mean(correlated(seed)) for seed in range(150))
    ]
    assert 0.88 <= np.mean(inside) <= 1.0
    # Taking them as independent holds much less often: this is what batches are for.
    naive = [
        abs(v.mean()) <= 1.96 * v.std() / math.sqrt(len(v)) for v in map(correlated, range(150))
    ]
    assert np.mean(naive) < 0.6


def test_the_interval_of_a_quantile_holds_about_as_often_as_it_says():
    true = -math.log(0.05)
    found = [
        batch_quantile(np.random.default_rng(seed).exponential(size=8_000), 0.95)
        for seed in range(150)
    ]
    assert 0.88 <= np.mean([e.lower <= true <= e.upper for e in found]) <= 1.0


def test_few_values_have_no_interval():
    found = batch_mean(np.array([1.0, 2.0, 3.0]))
    assert found.value == 2.0
    assert math.isnan(found.lower)
    assert math.isnan(batch_mean(np.array([])).value)
    assert found.half_width != pytest.approx(0)
