"""Jobs of several priorities on one engine: against other simulators, formulas, and laws."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.errors import UsageError
from foretell.simulate.job_arrivals import JobArrivals
from foretell.simulate.queue import PLAYED_DISCIPLINES, PlayedClass, play_queue
from foretell.simulate.sprinting import SprintPower

from .queue_oracles import mean_responses_in_ciw, play_in_simpy, play_step_by_step

EVICTING = ("resume", "repeat", "redraw")


@dataclass(frozen=True)
class Exponential:
    mean_s: float

    def draw(self, random, n):
        return random.exponential(self.mean_s, n)


@dataclass(frozen=True)
class Constant:
    mean_s: float

    def draw(self, random, n):
        return np.full(n, self.mean_s)


def classes_of(*pairs, kind=Exponential, after_s=math.inf):
    return [PlayedClass(f"c{k}", rate, kind(mean), after_s) for k, (rate, mean) in enumerate(pairs)]


def recorded(seed, n=400, n_classes=3, load=0.9):
    """Make up jobs whose sizes are recorded, so that every simulator sees the same ones."""
    random = np.random.default_rng(seed)
    sizes = random.gamma(2.0, 0.5, n)
    at_s = np.cumsum(random.exponential(1 / load, n))
    return JobArrivals(at_s, random.integers(0, n_classes, n), sizes)


def play_recorded(jobs, discipline, **more):
    after_s = more.pop("after_s", math.inf)
    classes = classes_of(*[(1.0, 1.0)] * 3, after_s=after_s)
    return play_queue(classes, discipline, arrivals=jobs, n_jobs=len(jobs.at_s), **more)


# Against other simulators


@pytest.mark.parametrize("discipline", ["non-preemptive", "resume", "repeat"])
@pytest.mark.parametrize("seed", range(4))
def test_each_job_ends_when_it_does_in_simpy(discipline, seed):
    jobs = recorded(seed)
    ends = play_in_simpy(jobs.at_s, jobs.class_of, jobs.service_s, discipline=discipline)
    assert play_recorded(jobs, discipline).end_s == pytest.approx(ends, rel=1e-9)


@pytest.mark.parametrize("discipline", ["non-preemptive", "resume", "repeat"])
def test_each_sprinted_job_ends_when_it_does_in_simpy(discipline):
    jobs = recorded(7, load=1.2)
    expected = play_in_simpy(
        jobs.at_s, jobs.class_of, jobs.service_s, discipline=discipline, speedup=2.5, after_s=0.4
    )
    found = play_recorded(jobs, discipline, sprint=SprintPower(2.5, 1, 2), after_s=0.4)
    assert found.end_s == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("discipline", PLAYED_DISCIPLINES)
def test_mean_response_times_are_those_of_ciw(discipline):
    pairs = [(0.25, 1.0), (0.2, 0.8), (0.1, 1.5)]
    played = play_queue(classes_of(*pairs), discipline, n_jobs=60_000, seed=3)
    theirs = mean_responses_in_ciw(pairs, discipline, n_jobs=12_000, seed=5)
    for k, responses in enumerate(theirs):
        ours = played.figures_of(f"c{k}").response
        # One wait resembles the next: the spread of batches, not of single values, counts.
        batches = [b.mean() for b in np.array_split(responses, 20)]
        theirs_half = 2.1 * np.std(batches, ddof=1) / math.sqrt(20)
        assert abs(ours.value - responses.mean()) <= 1.5 * (ours.half_width + theirs_half)


def test_a_bucket_is_spent_as_when_time_passes_in_small_steps():
    random = np.random.default_rng(11)
    step_s = 0.001
    at_s = np.round(np.cumsum(random.exponential(6.0, 25)), 3)
    class_of = random.integers(0, 2, 25)
    sizes = np.round(random.uniform(2, 8, 25), 3)
    power = SprintPower(2.0, 100, 160, 50, budget_j=150, refill_w=12)
    classes = [
        PlayedClass("low", 1, Constant(1), math.inf),
        PlayedClass("high", 1, Constant(1), 1.0),
    ]
    played = play_queue(classes, sprint=power, arrivals=JobArrivals(at_s, class_of, sizes))
    ends, levels = play_step_by_step(
        at_s, class_of, sizes, after_s=(math.inf, 1.0), power=power, step_s=step_s
    )
    assert levels.min() < 1  # the bucket does run dry
    assert played.end_s == pytest.approx(ends, abs=0.05)


# Against formulas


def test_waits_without_evictions_are_those_of_cobham():
    rates, means = np.array([0.3, 0.2, 0.15]), np.array([1.0, 1.2, 0.6])
    played = play_queue(classes_of(*zip(rates, means, strict=True)), n_jobs=200_000, seed=1)
    residual = (rates * means**2).sum()  # E[S²] = 2 m²
    for k in range(3):
        above, with_own = (rates * means)[k + 1 :].sum(), (rates * means)[k:].sum()
        wait = played.figures_of(f"c{k}").wait
        expected = residual / ((1 - above) * (1 - with_own))
        assert abs(wait.value - expected) <= 1.5 * wait.half_width


def test_constant_times_with_one_class_are_those_of_m_d_1():
    played = play_queue(classes_of((0.8, 1.0), kind=Constant), n_jobs=150_000, seed=2)
    response = played.figures_of("c0").response
    assert abs(response.value - (1 + 0.8 / (2 * 0.2))) <= 1.5 * response.half_width


def test_quantiles_of_one_class_are_those_of_m_m_1():
    played = play_queue(classes_of((0.7, 1.0)), n_jobs=200_000, seed=4)
    for level, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
        found = getattr(played.figures_of("c0"), name)
        assert abs(found.value + math.log(1 - level) / 0.3) <= 1.5 * found.half_width


def test_work_thrown_away_by_repeating_is_that_of_the_formula():
    # Constant low jobs under a top class: gross time (exp(λ s) − 1)/λ.
    low, high, rate_high = 2.0, 0.5, 0.2
    classes = [PlayedClass("c0", 0.2, Constant(low)), PlayedClass("c1", rate_high, Constant(high))]
    played = play_queue(classes, "repeat", n_jobs=200_000, seed=1)
    gross = (math.exp(rate_high * low) - 1) / rate_high
    expected = 1 - (0.2 * low + rate_high * high) / (0.2 * gross + rate_high * high)
    assert played.waste == pytest.approx(expected, rel=0.03)


def test_energy_is_power_by_state():
    jobs = JobArrivals(np.array([0.0, 20.0]), np.array([0, 0]), np.array([10.0, 10.0]))
    power = SprintPower(2.0, 100, 250, 40)
    played = play_queue([PlayedClass("a", 1, Constant(1), 4.0)], sprint=power, arrivals=jobs)
    # 4 s at base speed, then 6 s of work in 3 s; idle from 7 s to 20 s.
    assert played.end_s.tolist() == [7.0, 27.0]
    assert (played.busy_j, played.idle_j) == (2 * (4 * 100 + 3 * 250), 13 * 40)


# Laws

queues = st.builds(
    recorded, st.integers(0, 10_000), st.integers(1, 120), st.integers(1, 3), st.floats(0.3, 1.5)
)


@given(queues, st.sampled_from(PLAYED_DISCIPLINES))
@settings(max_examples=60, deadline=None)
def test_nobody_starts_before_arriving_and_the_engine_rests_only_when_nobody_is_there(jobs, name):
    played = play_recorded(jobs, name)
    assert (played.start_s >= jobs.at_s).all()
    assert (played.end_s >= played.start_s).all()
    assert (played.wait_s >= 0).all()
    # Merge the times in which a job is present: together they are the time the engine is busy.
    busy, until = 0.0, 0.0
    for begin, end in sorted(zip(jobs.at_s, played.end_s, strict=True)):
        busy += max(end - max(begin, until), 0.0)
        until = max(until, end)
    assert played.busy_s == pytest.approx(busy, rel=1e-9)


@given(queues)
@settings(max_examples=60, deadline=None)
def test_work_is_conserved_without_waste(jobs):
    for name in ("non-preemptive", "resume"):
        played = play_recorded(jobs, name)
        assert played.busy_s == pytest.approx(jobs.service_s.sum(), rel=1e-9)
        assert played.waste == 0
    repeated = play_recorded(jobs, "repeat")
    useful = repeated.busy_s - repeated.wasted_s.sum()
    assert useful == pytest.approx(jobs.service_s.sum(), rel=1e-9)


@given(queues)
@settings(max_examples=60, deadline=None)
def test_no_job_ends_later_by_resuming_than_by_repeating(jobs):
    resumed, repeated = (play_recorded(jobs, name) for name in ("resume", "repeat"))
    assert (resumed.end_s <= repeated.end_s * (1 + 1e-9)).all()


@given(queues)
@settings(max_examples=40, deadline=None)
def test_the_top_class_sees_no_other_class_when_it_evicts(jobs):
    top = jobs.class_of == jobs.class_of.max()
    alone = JobArrivals(jobs.at_s[top], jobs.class_of[top], jobs.service_s[top])
    expected = play_recorded(alone, "non-preemptive").end_s
    for name in EVICTING:
        assert play_recorded(jobs, name).end_s[top] == pytest.approx(expected, rel=1e-9)


@given(
    queues,
    st.floats(0, 3),
    st.floats(0, 200),
    st.floats(0, 80),
    st.sampled_from(PLAYED_DISCIPLINES),
)
@settings(max_examples=80, deadline=None)
def test_sprints_never_spend_more_than_the_bucket_and_what_flowed_in(
    jobs, after_s, budget_j, refill_w, name
):
    power = SprintPower(2.0, 100, 150, 50, budget_j, refill_w)
    played = play_recorded(jobs, name, sprint=power, after_s=after_s)
    allowed = budget_j + refill_w * played.span_s
    assert power.extra_w * played.sprinted_s <= allowed * (1 + 1e-9) + 1e-9


@given(queues, st.floats(0, 3))
@settings(max_examples=40, deadline=None)
def test_nobody_ends_later_because_the_engine_sprints(jobs, after_s):
    slow = play_recorded(jobs, "resume")
    fast = play_recorded(jobs, "resume", sprint=SprintPower(2.0, 100, 150), after_s=after_s)
    assert (fast.end_s <= slow.end_s * (1 + 1e-9)).all()


@pytest.mark.parametrize("discipline", PLAYED_DISCIPLINES)
def test_the_same_seed_gives_the_same_bytes(discipline):
    classes = classes_of((0.3, 1.0), (0.3, 0.7), after_s=0.5)
    power = SprintPower(2.0, 100, 150, 50, 100, 5)
    first, again, other = (
        play_queue(classes, discipline, sprint=power, n_jobs=3_000, seed=s) for s in (1, 1, 2)
    )
    assert first.end_s.tobytes() == again.end_s.tobytes()
    assert first.end_s.tobytes() != other.end_s.tobytes()


def test_the_first_stays_the_same_when_a_discipline_changes():
    classes = classes_of((0.3, 1.0), (0.3, 0.7))
    arrivals = {play_queue(classes, d, n_jobs=500).arrival_s.tobytes() for d in PLAYED_DISCIPLINES}
    assert len(arrivals) == 1


def test_a_discipline_that_is_not_known_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="resume"):
        play_queue(classes_of((0.3, 1.0)), "resum")
