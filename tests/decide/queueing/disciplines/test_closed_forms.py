"""Disciplines against formulas of textbooks, which are written here once more by hand."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from foretell.decide.queueing.disciplines import DISCIPLINES
from foretell.decide.queueing.predict import queue_figures
from foretell.decide.queueing.service.fitted import fitted_time
from foretell.decide.queueing.service.sprinted import Sprinted
from foretell.decide.queueing.stability import stable_discipline
from foretell.decide.queueing.streams import Stream
from foretell.errors import UsageError

from ..systems import derivative_at_0, discipline, streams

ALL = ("non-preemptive", "resume", "repeat", "redraw")


def test_there_are_four_disciplines():
    assert tuple(DISCIPLINES.names()) == ALL


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("load", [0.1, 0.5, 0.9, 0.97])
def test_one_class_of_exponential_times_is_the_m_m_1_queue(name, load):
    (found,) = queue_figures(name, streams((load, 1.0, 1.0))).classes
    response = stats.expon(scale=1 / (1 - load))
    assert found.mean_s == pytest.approx(response.mean())
    assert found.wait_s == pytest.approx(load / (1 - load))
    expected = response.ppf([0.5, 0.95, 0.99])
    assert (found.p50_s, found.p95_s, found.p99_s) == pytest.approx(expected, rel=1e-6)


def constant_wait(t, rate):
    """The CDF of the wait of an M/D/1 queue with times of 1 (Erlang)."""
    parts = [(rate * (j - t)) ** j / math.factorial(j) * math.exp(-rate * (j - t))
             for j in range(math.floor(t) + 1)]  # fmt: skip
    return (1 - rate) * math.fsum(parts)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_class_of_constant_times_is_the_m_d_1_queue(name, load):
    (found,) = queue_figures(name, streams((load, 1.0, 0.0))).classes
    assert found.mean_s == pytest.approx(1 + load / (2 * (1 - load)))
    p95 = 1 + optimize.brentq(lambda t: constant_wait(t, load) - 0.95, 0, 12)
    assert found.p95_s == pytest.approx(p95, rel=0.01)
    assert found.response.cdf(np.array([found.p95_s]))[0] == pytest.approx(0.95, abs=1e-3)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("scv", [0.1, 0.4, 1.0, 4.0])
def test_one_class_has_the_mean_of_pollaczek_and_khinchine(name, scv):
    (found,) = queue_figures(name, streams((0.1, 7.0, scv))).classes
    assert found.mean_s == pytest.approx(7 + 0.1 * 49 * (1 + scv) / (2 * 0.3), rel=1e-10)


THREE = ((0.1, 2.0, 0.5), (0.2, 1.0, 1.0), (0.25, 1.2, 2.0))


def test_means_without_preemption_are_those_of_cobham():
    found = discipline("non-preemptive", *THREE)
    loads = [r * m for r, m, _ in THREE]
    residual = sum(r * m**2 * (1 + c) for r, m, c in THREE) / 2
    for k in range(3):
        above, own = sum(loads[k + 1 :]), sum(loads[k:])
        assert found.mean_wait(k) == pytest.approx(residual / ((1 - above) * (1 - own)), rel=1e-10)


def test_means_with_resume_are_those_of_the_textbook():
    found = discipline("resume", *THREE)
    loads = [r * m for r, m, _ in THREE]
    for k in range(3):
        above, own = sum(loads[k + 1 :]), sum(loads[k:])
        residual = sum(r * m**2 * (1 + c) for r, m, c in THREE[k:]) / 2
        expected = THREE[k][1] / (1 - above) + residual / ((1 - above) * (1 - own))
        assert found.mean_response(k) == pytest.approx(expected, rel=1e-10)


LIGHT = ((0.05, 2.0, 0.3), (0.1, 1.0, 0.5), (0.15, 0.8, 1.5))


@pytest.mark.parametrize("name", ["non-preemptive", "resume", "redraw"])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_means_are_the_derivatives_of_transforms(name, k):
    found = discipline(name, *LIGHT)
    slope = -derivative_at_0(lambda s: found.response_transform(k, s), 0.01)
    assert found.mean_response(k) == pytest.approx(slope, rel=1e-8)


def test_the_transform_of_repeated_jobs_is_a_probability_with_their_mean():
    # Long jobs repeat so often that 0 is at the edge of its domain, and it is a sum over a grid.
    found = discipline("repeat", *LIGHT)
    for k in range(3):
        at_0, near, nearer = found.response_transform(
            k, np.array([1e-9, 2e-3, 1e-3], dtype=complex)
        )
        assert at_0.real == pytest.approx(1, abs=1e-5)
        slope = 2 * (at_0 - nearer).real / 1e-3 - (at_0 - near).real / 2e-3
        assert found.mean_response(k) == pytest.approx(slope, rel=5e-3)


def test_the_square_of_waits_is_the_second_derivative():
    found = discipline("non-preemptive", *THREE)
    turns = 0.01 * np.exp(2j * np.pi * np.arange(64) / 64)
    for k in range(3):
        waits = found.response_transform(k, turns) / found.streams[k].service.transform(turns)
        second = 2 * float(np.mean(waits / turns**2).real)
        assert second == pytest.approx(mean_square_wait(found.streams, k), rel=1e-7)


def mean_square_wait(streams, k):
    """Return the mean of the square of the wait, as the literature has it."""
    squares, cubes = ([s.rate_per_s * s.service.moments[n] for s in streams] for n in (1, 2))
    a = 1 - sum(s.load for s in streams[k + 1 :])
    b = a - streams[k].load
    every, higher = sum(squares), sum(squares[k + 1 :])
    return (
        sum(cubes) / (3 * a**2 * b)
        + every * sum(squares[k:]) / (2 * a**2 * b**2)
        + every * higher / (2 * a**3 * b)
    )


@pytest.mark.parametrize("service", [fitted_time(0.01, 0.5), fitted_time(0.01, 30.0)])
@pytest.mark.parametrize("name", ["repeat", "redraw"])
def test_means_with_rare_interruptions_keep_their_digits(name, service):
    # What interruptions add is proportional to their rate, as far as it goes.
    def added(rate):
        streams = [Stream("low", 50.0, service), Stream("high", rate, fitted_time(0.01, 0.5))]
        alone = DISCIPLINES.get(name)(streams[:1]).mean_response(0)
        return (DISCIPLINES.get(name)(streams).mean_response(0) / alone - 1) / rate

    assert added(1e-6) == pytest.approx(added(1e-4), rel=2e-2)
    assert added(1e-7) == pytest.approx(added(1e-6), rel=1e-2)


@pytest.mark.parametrize("name", ["repeat", "redraw"])
@pytest.mark.parametrize("scv", [0.0, 0.3, 4.0])
def test_means_of_rare_and_of_usual_interruptions_meet(name, scv, monkeypatch):
    streams = [
        Stream("low", 0.3, fitted_time(1.0, scv)),
        Stream("high", 9e-4, fitted_time(2.0, 1.0)),
    ]
    rare = DISCIPLINES.get(name)(streams)
    figures = rare.mean_response(0), rare.gross_s(0)
    monkeypatch.setattr("foretell.decide.queueing.service._base._SMALL", 0.0)
    usual = DISCIPLINES.get(name)(streams)
    assert figures == pytest.approx((usual.mean_response(0), usual.gross_s(0)), rel=1e-8)


@pytest.mark.parametrize("rate", [0.9, 0.99, 1.0, 1.01])
def test_jobs_that_repeat_as_fast_as_they_would_end_unsprinted_have_a_finite_time(rate):
    job = Sprinted(fitted_time(10.0, 0.1), 5.0, 2.0)
    found = DISCIPLINES.get("repeat")(
        [Stream("low", 1e-9, job), Stream("high", rate, fitted_time(0.01, 1.0))]
    )
    density = stats.gamma(10, scale=1.0).pdf

    def grown(x):
        return math.exp(rate * min(x, 5 + (x - 5) / 2)) * density(x)

    mean = integrate.quad(grown, 0, 5)[0] + integrate.quad(grown, 5, 200, limit=500)[0]
    assert found.gross_s(0) == pytest.approx((mean - 1) / rate, rel=1e-3)


def test_a_time_below_zero_is_refused(monkeypatch):
    monkeypatch.setattr(
        "foretell.decide.queueing.disciplines.repeat.Repeat.gross_s", lambda *_: -1.0
    )
    with pytest.raises(UsageError, match="more than 0"):
        stable_discipline("repeat", [Stream("low", 0.1, fitted_time(1.0, 1.0))])


def test_repeating_a_constant_is_the_formula_for_each_length():
    rate, time, busy = 0.3, 2.0, 0.5 / (1 - 0.15)
    found = discipline("repeat", (0.1, time, 0.0), (rate, 0.5, 1.0))
    gross = (math.exp(rate * time) - 1) / rate
    assert found.gross_s(0) == pytest.approx(gross)
    assert found.mean_response(0) - found.mean_wait(0) == pytest.approx(gross * (1 + rate * busy))
    again = discipline("redraw", (0.1, time, 0.0), (rate, 0.5, 1.0))
    assert again.mean_response(0) == pytest.approx(found.mean_response(0), rel=1e-9)


def test_redrawing_exponential_times_is_resuming_them():
    classes = ((0.1, 2.0, 1.0), (0.2, 1.0, 1.0), (0.2, 0.7, 0.3))
    resumed, redrawn = (discipline(name, *classes) for name in ("resume", "redraw"))
    for k in range(3):
        assert redrawn.mean_response(k) == pytest.approx(resumed.mean_response(k), rel=1e-9)
    s = np.array([0.1 + 0.3j, 0.5 + 2j])
    assert np.allclose(redrawn.response_transform(0, s), resumed.response_transform(0, s))


def test_repeated_exponential_times_lose_what_the_integral_says():
    rate, mean = 0.2, 1.5
    found = discipline("repeat", (0.1, mean, 1.0), (rate, 0.5, 1.0))
    density = stats.expon(scale=mean).pdf
    gross = integrate.quad(lambda x: (math.exp(rate * x) - 1) / rate * density(x), 0, 200)[0]
    assert found.gross_s(0) == pytest.approx(gross, rel=1e-6)


def test_a_mean_without_end_is_infinite_and_quantiles_are_not():
    # The square of exp(rate·S) has no mean when the rate is half that of the longest jobs.
    found = queue_figures("repeat", streams((0.02, 1.0, 1.0), (0.6, 0.1, 1.0)))
    low, high = found.classes
    assert math.isinf(low.mean_s)
    assert 0 < low.p50_s < low.p95_s < low.p99_s < math.inf
    assert high.mean_s == pytest.approx(0.1 / (1 - 0.06))


def test_high_classes_do_not_see_low_ones_unless_these_stay_in_the_engine():
    one, two = (0.3, 1.0, 1.0), (0.3, 1.0, 1.0)
    for name in ("resume", "repeat", "redraw"):
        assert discipline(name, one, two).mean_response(1) == pytest.approx(1 / 0.7)
    assert discipline("non-preemptive", one, two).mean_response(1) > 1 / 0.7


@pytest.mark.parametrize("load", [0.96, 0.999])
def test_busy_periods_are_found_near_saturation(load):
    share = load / 2
    found = discipline(
        "resume", (0.02 * (1 - load), 1.0, 1.0), (share, 1.0, 1.0), (share, 1.0, 0.5)
    )
    s = np.array([1e-6 + 0j, 1e-4 + 1e-3j])
    busy = found._busy(0, s)
    work = sum(share * fitted_time(1.0, c).transform(s + load * (1 - busy)) for c in (1.0, 0.5))
    assert np.allclose(busy, work / load, atol=1e-11)
