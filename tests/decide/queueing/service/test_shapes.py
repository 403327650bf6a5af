"""Times that are stretched, and times that are known by three moments only."""

import numpy as np
import pytest

from foretell.decide.queueing.service.fitted import fitted_time
from foretell.decide.queueing.service.scaled import Scaled
from foretell.decide.queueing.service.shifted_gamma import ShiftedGamma

POINTS = np.array([0.001, 0.01 + 0.02j, 0.1 - 0.3j])


def test_a_stretched_time_is_that_of_phases_that_are_longer():
    stretched, longer = Scaled(fitted_time(20.0, 0.4), 1.5), fitted_time(30.0, 0.4)
    assert stretched.moments == pytest.approx(longer.moments)
    assert stretched.transform(POINTS) == pytest.approx(longer.transform(POINTS))
    assert stretched.decay_rate == pytest.approx(longer.decay_rate)
    assert stretched.after(25.0).moments == pytest.approx(longer.after(25.0).moments)
    assert stretched.after(25.0).share == pytest.approx(longer.after(25.0).share)
    assert stretched.after(25.0).transform(POINTS) == pytest.approx(
        longer.after(25.0).transform(POINTS)
    )


@pytest.mark.parametrize("scv", [0.02, 0.3, 1.0, 2.0])
def test_three_moments_give_a_transform_with_these_moments(scv):
    service = fitted_time(50.0, scv)
    found = ShiftedGamma.of(np.array([service.moments]))
    radius = 1e-3
    turns = np.exp(2j * np.pi * np.arange(32) / 32)
    values = found.transform((radius * turns)[None])[0]
    first, second = (
        sign * float(np.mean(values * turns**-n).real) / radius**n * (2 if n == 2 else 1)
        for n, sign in ((1, -1), (2, 1))
    )
    assert (first, second) == pytest.approx(service.moments[:2], rel=1e-6)


def test_an_exponential_time_is_exact():
    service = fitted_time(50.0, 1.0)
    found = ShiftedGamma.of(np.array([service.moments]))
    assert found.transform(POINTS[None])[0] == pytest.approx(service.transform(POINTS))


def test_constants_and_times_with_a_short_tail_have_no_time_below_zero():
    moments = [(10.0, 100.0, 1000.0), (10.0, 101.0, 1028.0)]  # a constant; leaning to the left
    found = ShiftedGamma.of(np.array(moments))
    assert (found.least >= 0).all()
    assert (found.shape > 0).all()
    assert found.mean[:, 0] == pytest.approx([10.0, 10.0])
