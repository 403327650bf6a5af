"""Drift: silent while nothing changes, and then told soon, with the factor of the change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.decide.queueing.drift import Drift


def gamma(seed, scv, n):
    return np.random.default_rng(seed).gamma(1 / scv, scv, n)


@pytest.mark.parametrize("scv", [0.1, 1.0])
def test_nothing_is_told_while_nothing_changes(scv):
    drift = Drift(scv)
    assert not any(drift.add(ratio) for ratio in gamma(1, scv, 5_000))


@pytest.mark.parametrize("scv", [0.1, 1.0])
@pytest.mark.parametrize("factor", [0.4, 0.6, 1.7, 3.0])
def test_a_change_is_told_soon_with_its_factor(scv, factor):
    found = []
    for seed in range(20):
        drift = Drift(scv)
        ratios = gamma(seed, scv, 600)
        assert not any(drift.add(ratio) for ratio in ratios[:300])
        told = (drift.add(factor * ratio) for ratio in ratios[300:])
        found.append(next(change for change in told if change is not None))
    assert np.median(found) == pytest.approx(factor, rel=0.15)
    assert all((change > 1) == (factor > 1) for change in found)


def test_what_was_told_is_expected_from_then_on():
    drift = Drift(0.1)
    told = [found for _ in range(500) if (found := drift.add(2.0))]
    assert told == [pytest.approx(2.0)]


@given(outlier=st.floats(0, 1e9))
def test_one_job_alone_is_no_change(outlier):
    drift = Drift(0.05)
    assert drift.add(outlier) is None
    assert all(drift.add(1.0) is None for _ in range(50))
