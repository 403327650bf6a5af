"""The probe rule, against an independent computation of its expectations."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from foretell.decide.tuning.probing import (
    Expected,
    epochs_to_rung,
    is_worth_probing,
    is_worth_restarting,
    n_probes,
    next_probe,
)

factors = st.floats(0.2, 5.0)


def integral(low, high, f):
    """Integrate a function over the log-normal distribution with these 5 % and 95 % ends."""
    sd = math.log(high / low) / (2 * stats.norm.ppf(0.95))
    law = stats.lognorm(s=sd, scale=math.sqrt(low * high))
    ends = law.ppf([1e-9, 1 - 1e-9])
    points = np.geomspace(*ends, 5_001)
    return integrate.trapezoid(f(points) * law.pdf(points), points)


@settings(max_examples=40)
@given(low=factors, width=st.floats(1.05, 4.0), cost=factors)
def test_expected_gain_and_loss_are_those_of_the_integral(low, width, cost):
    found = Expected("s", low, low * width)
    gain = integral(low, low * width, lambda x: np.maximum(cost - x, 0))
    loss = integral(low, low * width, lambda x: np.maximum(x - cost, 0))
    assert found.gain(cost) == pytest.approx(gain, rel=1e-3, abs=1e-5)
    assert found.loss(cost) == pytest.approx(loss, rel=1e-3, abs=1e-5)


@given(low=factors, width=st.floats(1.0, 4.0), cost=factors, n_left=st.integers(1, 40))
def test_a_probe_that_pays_pays_with_more_epochs_left_too(low, width, cost, n_left):
    expected = Expected("s", low, low * width)
    if is_worth_probing(expected, cost, n_left):
        assert is_worth_probing(expected, cost, n_left + 1)
    assert not is_worth_probing(expected, cost, 1)  # the probe would be the last epoch


def test_gains_below_two_percent_are_not_tried_however_long_the_training():
    assert not is_worth_probing(Expected("s", 0.985, 0.985), 1.0, 1000)
    assert is_worth_probing(Expected("s", 0.97, 0.97), 1.0, 3)


def test_the_best_is_tried_first_and_what_is_inside_the_data_never():
    poor, good, known = (
        Expected("a", 0.8, 1.3),
        Expected("b", 0.5, 1.0),
        Expected("c", 0.3, 0.3, True),
    )
    assert next_probe([poor, good, known], 1.0, n_left=9, n_probes_left=1) == "b"
    assert next_probe([known], 1.0, n_left=9, n_probes_left=1) is None
    assert next_probe([poor, good], 1.0, n_left=9, n_probes_left=0) is None


@given(n=st.integers(0, 400))
def test_probes_are_at_most_a_quarter_and_none_in_short_trainings(n):
    assert n_probes(n) == (0 if n < 3 else n // 4)


@pytest.mark.parametrize(("saved", "expected"), [(6.1, True), (5.9, False)])
def test_a_restart_must_save_a_fifth_more_than_it_takes(saved, expected):
    assert is_worth_restarting(10 + saved, 10, n_left=1, restart_s=5.0) is expected


@given(epoch=st.integers(0, 80), rungs=st.lists(st.integers(1, 100), max_size=5))
def test_epochs_to_the_next_rung_end_at_a_rung_or_at_the_end(epoch, rungs):
    left = epochs_to_rung(epoch, 81, rungs)
    assert left >= 1
    assert epoch + left in {*rungs, 81}
    assert not [r for r in rungs if epoch < r < epoch + left]
