"""Service times against matrices, integrals and draws that know nothing of their formulas."""

import math
import time

import numpy as np
import pytest
from scipy import integrate, linalg, stats

from foretell.decide.queueing.queue_file import read_queue
from foretell.decide.queueing.service.fitted import fitted_time
from foretell.decide.queueing.service.job import job_time
from foretell.decide.queueing.service.sample import between_quantiles, constant, sample_of
from foretell.decide.queueing.service.scheduled import stage_moments
from foretell.decide.queueing.service.sprinted import Sprinted

Z = np.array([0.01 + 0j, 0.003 + 0.2j, -0.004 + 0.1j])
TASKS = {
    "name": "low", "rate_per_min": 0.3, "tasks": {"50": 0.8, "30": 0.2}, "map_s": 35,
    "map_scv": 1, "overhead_s": {"fixed": 6, "per_kept": 2}, "shuffle_s": 2, "reduce_tasks": 20,
    "reduce_s": 1, "reduce_scv": 1,
}  # fmt: skip


def job(slots=20, drop=0.0, **changes):
    queue = read_queue({"slots": slots, "class": [{**TASKS, **changes}]})
    return job_time(queue.classes[0], slots, drop)


class Matrices:
    """The generator of section 2 of the agreement, with dense matrices."""

    def __init__(self, shares, slots, n_reduce, overhead_s):
        n = max(shares)
        size = 2 + n + n_reduce
        F = np.zeros((size, size))
        F[0, 0] = -1 / overhead_s
        for t, share in shares.items():
            F[0, 1 + n - t] = share / overhead_s
        shuffle = 1 + n
        for first, count, mean in ((1, n, 35), (shuffle + 1, n_reduce, 1)):
            for i in range(count):
                rate = min(count - i, slots) / mean
                F[first + i, first + i] = -rate
                if first + i + 1 < size:
                    F[first + i, first + i + 1] = rate
        F[shuffle, shuffle], F[shuffle, shuffle + 1] = -1 / 2, 1 / 2
        self.F, self.start, self.ones = F, np.eye(size)[0], np.ones(size)
        self.exit = -F @ self.ones

    def moment(self, n):
        inverse = np.linalg.matrix_power(np.linalg.inv(-self.F), n)
        return math.factorial(n) * self.start @ inverse @ self.ones

    def transform(self, z):
        return self.start @ np.linalg.solve(z * np.eye(len(self.F)) - self.F, self.exit)

    def sprinted(self, z, time, speedup):
        one = np.eye(len(self.F))
        slow = (one - linalg.expm(-(z * one - self.F) * time)) @ self.exit
        fast = np.linalg.solve(z * one - speedup * self.F, speedup * self.exit)
        return self.start @ np.linalg.solve(z * one - self.F, slow) + np.exp(
            -z * time
        ) * self.start @ (linalg.expm(self.F * time) @ fast)


@pytest.mark.parametrize(
    ("drop", "shares", "overhead"),
    [
        (0.0, {50: 0.8, 30: 0.2}, 8),
        (0.25, {38: 0.8, 23: 0.2}, 6 + 2 * (0.76 * 0.8 + 23 / 30 * 0.2)),
    ],
)
def test_jobs_of_exponential_tasks_are_the_phase_type_of_the_thesis(drop, shares, overhead):
    found, expected = job(drop=drop), Matrices(shares, 20, 20, overhead)
    assert found.n_phases == sum(shares) + 20 + 2
    assert found.moments == pytest.approx([expected.moment(n) for n in (1, 2, 3)], rel=1e-10)
    assert np.allclose(found.transform(Z), [expected.transform(z) for z in Z], rtol=1e-9)
    assert found.decay_rate == pytest.approx(-np.linalg.eigvals(expected.F).real.max())


def test_a_sprint_is_exact_for_its_start():
    found = Sprinted(job(), after_s=120.0, speedup=2.5)
    expected = Matrices({50: 0.8, 30: 0.2}, 20, 20, 8)
    for z, value in zip(Z, found.transform(Z), strict=True):
        assert value == pytest.approx(expected.sprinted(z, 120.0, 2.5), rel=1e-8)
    times = found.draw(np.random.default_rng(0), 200_000)
    for n, moment in enumerate(found.moments, start=1):
        error = 4 * (times**n).std() / math.sqrt(len(times))
        assert abs((times**n).mean() - moment) < error


@pytest.mark.parametrize("speedup", [1.0, 3.0])
@pytest.mark.parametrize("after", [0.0, 40.0, 1e5])
def test_a_sprint_at_once_divides_and_one_never_changes_nothing(after, speedup):
    plain = fitted_time(50.0, 0.4)
    found = Sprinted(plain, after, speedup)
    factor = speedup if after == 0 else 1.0
    if after != 40.0 or speedup == 1:
        expected = [m / factor**n for n, m in enumerate(plain.moments, start=1)]
        assert found.moments == pytest.approx(expected, rel=1e-9)
        assert np.allclose(found.transform(Z), plain.transform(Z / factor))
    assert found.mean <= plain.mean * (1 + 1e-12)


def test_a_stiff_job_sprints_as_the_sum_of_its_parts_says():
    found = job(overhead_s=0.001, tasks=3, map_s=200.0).after(150.0)
    dense = job(overhead_s=0.0, tasks=3, map_s=200.0).after(150.0)
    assert found.share == pytest.approx(dense.share, rel=1e-4)


@pytest.mark.parametrize("scv", [0.001, 0.03, 0.0333, 0.3, 0.5, 0.77, 1.0, 1.7, 9.0])
def test_fitted_times_have_their_mean_variation_and_transform(scv):
    found = fitted_time(7.0, scv)
    assert (found.mean, found.scv) == pytest.approx((7.0, scv))
    times = found.draw(np.random.default_rng(3), 100_000)
    assert times.mean() == pytest.approx(7.0, rel=5 * math.sqrt(scv / 1e5))
    near = np.exp(-0.2 * times)
    spread = 5 * near.std() / math.sqrt(len(times)) + 1e-12
    assert abs(near.mean() - found.transform(np.array([0.2 + 0j]))[0].real) < spread
    points, weights = found.quadrature()
    assert weights.sum() == pytest.approx(1)
    for s in (0.05, 0.5, 0.1 + 1j):
        assert abs(weights @ np.exp(-s * points) - found.transform(np.array([s]))[0]) < 5e-4


def test_a_time_without_variation_is_a_constant():
    found = fitted_time(7.0, 0.0)
    assert found.moments == pytest.approx((7.0, 49.0, 343.0))
    assert found.least == 7.0
    assert np.allclose(found.transform(Z), np.exp(-7 * Z))


def gamma_moment(k, rate, s, n):
    """The mean of S^n exp(−sS), by the integral of the density of k exponentials."""
    density = stats.gamma(k, scale=1 / rate).pdf
    return integrate.quad(lambda x: x**n * math.exp(-s * x) * density(x), 0, 500, limit=200)[0]


@pytest.mark.parametrize("s", [-0.02, 0.0, 0.4])
@pytest.mark.parametrize("n", [0, 1, 2])
def test_tilted_moments_are_integrals(s, n):
    assert fitted_time(5.0, 0.5).tilted(s)[n] == pytest.approx(gamma_moment(2, 0.4, s, n), rel=1e-6)
    slow, fast = (2 * p / 5 for p in (0.5 - math.sqrt(1 / 12), 0.5 + math.sqrt(1 / 12)))
    mixed = sum(5 * r / 2 * gamma_moment(1, r, s, n) for r in (slow, fast))
    assert fitted_time(5.0, 2.0).tilted(s)[n] == pytest.approx(mixed, rel=1e-6)
    assert constant(5.0).tilted(s)[n] == pytest.approx(5.0**n * math.exp(-s * 5), rel=1e-9)


def test_measured_times_and_quantiles_become_times():
    runs = sample_of(np.array([3.0, 1.0, 3.0, 5.0]))
    assert runs.moments == pytest.approx((3.0, 11.0, (27 + 1 + 27 + 125) / 4))
    assert set(runs.draw(np.random.default_rng(0), 100)) == {1.0, 3.0, 5.0}
    probabilities = np.linspace(0.001, 0.999, 99)
    normal = between_quantiles(probabilities, stats.norm(100, 10).ppf(probabilities))
    assert normal.mean == pytest.approx(100, rel=1e-3)
    assert normal.scv == pytest.approx(0.01, rel=0.05)
    left = runs.after(2.0)
    assert (left.share, left.moments[0]) == pytest.approx((0.75, (1 + 1 + 3) / 4))


def test_the_longest_of_tasks_on_enough_slots_is_their_maximum():
    scv, n = 0.05, 20
    task = stats.gamma(1 / scv, scale=scv)
    mean = integrate.quad(lambda x: 1 - task.cdf(x) ** n, 0, 5)[0]
    square = integrate.quad(lambda x: 2 * x * (1 - task.cdf(x) ** n), 0, 5)[0]
    found = stage_moments(n, 20, scv)
    assert found[0] == pytest.approx(mean, rel=0.01)
    assert found[1] == pytest.approx(square / mean**2 - 1, rel=0.1)


def test_slots_that_no_task_uses_change_nothing_and_cost_nothing():
    begun = time.process_time()
    few, many = stage_moments(50, 60, 0.05), stage_moments(50, 10_000, 0.05)
    assert time.process_time() - begun < 1
    assert few == many
    assert stage_moments(50, 50, 0.05) == pytest.approx(many, rel=0.1)  # played


@pytest.mark.parametrize("scv", [0.05, 0.5, 3.0, 20.0])
def test_the_longest_of_few_tasks_is_that_of_draws(scv):
    drawn = np.random.default_rng(1).gamma(1 / scv, scv, (200_000, 7)).max(axis=1)
    mean, found = stage_moments(7, 9, scv)
    assert mean == pytest.approx(drawn.mean(), rel=0.015)
    assert found == pytest.approx(drawn.var() / drawn.mean() ** 2, rel=0.05)


@pytest.mark.parametrize(("n", "slots"), [(50, 20), (5, 2), (200, 8), (7, 1)])
def test_played_stages_of_exponential_tasks_agree_with_their_phases(n, slots):
    mean, scv = stage_moments(n, slots, 1.0)
    each = np.array([1 / min(t, slots) for t in range(1, n + 1)])
    assert mean == pytest.approx(each.sum(), rel=0.02)
    assert scv == pytest.approx((each**2).sum() / each.sum() ** 2, rel=0.12)


@pytest.mark.parametrize("scv", [0.0, 0.05, 0.3, 2.0])
def test_a_stage_is_never_longer_with_fewer_tasks_and_grows_evenly_with_many(scv):
    means = [stage_moments(n, 4, scv)[0] for n in range(1, 40)]
    assert means == sorted(means)
    assert stage_moments(4004, 4, scv)[0] - stage_moments(4000, 4, scv)[0] == pytest.approx(1.0)


def test_dropping_a_fifth_of_50_tasks_on_20_slots_saves_a_wave():
    plain, dropped = (
        job(map_scv=0, tasks=50, drop=d, overhead_s=0, reduce_scv=0) for d in (0, 0.2)
    )
    assert plain.mean - dropped.mean == pytest.approx(35.0)


def test_equal_stages_are_one_after_another_with_a_shuffle_between():
    lone = {k: v for k, v in TASKS.items() if not k.startswith("reduce")}
    queue = read_queue({"slots": 20, "class": [{**lone, "overhead_s": 0, "stages": 3}]})
    single = read_queue({"slots": 20, "class": [{**lone, "overhead_s": 0}]})
    several, alone = (job_time(q.classes[0], 20) for q in (queue, single))
    assert several.mean == pytest.approx(3 * alone.mean + 2 * 2)


def test_listed_stages_have_their_own_drop_ratios():
    stages = [
        {"tasks": 10, "task_s": 1.0, "scv": 0.0},
        {"tasks": 10, "task_s": 1.0, "scv": 0.0, "drop": 0.0, "before_s": 3.0},
    ]
    table = {"name": "a", "rate_per_s": 0.01, "stages": stages}
    queue = read_queue({"slots": 2, "class": [table]})
    assert job_time(queue.classes[0], 2, 0.4).mean == pytest.approx(3 + 3 + 5)
