"""Probabilities and quantiles from transforms: exact ones come back, and jumps are blurred."""

import numpy as np
import pytest
from scipy import stats

from foretell.decide.queueing.inversion import Distribution
from foretell.decide.queueing.service.fitted import fitted_time
from foretell.decide.queueing.service.sample import sample_of

LEVELS = (0.01, 0.5, 0.95, 0.99, 0.999)


@pytest.mark.parametrize("k", [1, 2, 7, 30])
@pytest.mark.parametrize("is_blurred", [False, True])
def test_sums_of_exponentials_are_gamma_distributions(k, is_blurred):
    found = Distribution(lambda s: (1 + 3 * s / k) ** -k, 3.0, is_blurred=is_blurred)
    exact = stats.gamma(k, scale=3 / k)
    times = exact.ppf([0.05, 0.3, 0.7, 0.95])
    assert found.is_sound
    assert np.allclose(found.cdf(times), exact.cdf(times), atol=2e-4 if is_blurred else 1e-6)
    assert np.allclose(
        found.quantiles(LEVELS), exact.ppf(LEVELS), rtol=5e-3 if is_blurred else 1e-5
    )


def test_a_least_time_is_taken_out_before():
    found = Distribution(lambda s: np.exp(-40 * s) / (1 + 20 * s), 60.0, least=40.0)
    assert found.is_sound
    times = 40 + 20 * stats.expon.ppf([0.5, 0.95])
    assert np.allclose(found.quantiles([0.5, 0.95]), times, rtol=1e-6)
    assert found.quantiles([0.01])[0] == pytest.approx(40.2, rel=0.014)
    assert found.cdf(np.array([39.0, 40.0])) == pytest.approx([0, 0])


def test_times_with_jumps_are_blurred_a_little():
    times = np.array([1.0, 2.0, 5.0])
    plain = Distribution(sample_of(times).transform, 8 / 3)
    assert not plain.is_sound
    found = plain.trusted
    assert found is not None
    assert found.is_blurred
    assert np.allclose(found.quantiles([1 / 6, 0.5, 5 / 6]), times, rtol=0.01)
    assert np.allclose(found.cdf(np.array([1.5, 3.0, 6.0])), [1 / 3, 2 / 3, 1.0], atol=1e-3)


def test_what_is_no_distribution_is_not_trusted():
    assert Distribution(lambda s: np.exp(-s) * (1 + np.sin(50 * s.imag)), 1.0).trusted is None


def test_narrow_times_are_found():
    found = Distribution(fitted_time(148.0, 0.003).transform, 148.0).trusted
    assert found is not None
    spread = 148 * np.sqrt(0.003)
    assert found.quantiles([0.5, 0.95]) == pytest.approx([148 - spread**2 / 444, 162], rel=0.01)
