"""Energy by formula: what a job takes, what the engine draws, and whether the budget refills."""

import pytest

from foretell.decide.queueing.energy import queue_energy
from foretell.decide.queueing.predict import queue_figures
from foretell.decide.queueing.queue_file import SprintTable
from foretell.decide.queueing.stability import stable_discipline

from .systems import discipline, streams

POWER = SprintTable(speedup=2.0, base_w=100, sprint_w=150, idle_w=40)


def test_without_sprints_power_is_that_of_busy_and_idle_time():
    found = queue_figures(
        "non-preemptive", streams((0.1, 2.0, 1.0), (0.05, 4.0, 0.5)), POWER
    ).energy
    assert found.job_j == pytest.approx((200, 400))
    assert found.busy_w == pytest.approx(0.4 * 100)
    assert found.total_w == pytest.approx(0.4 * 100 + 0.6 * 40)
    assert found.sprint_w == 0


def test_thrown_away_work_costs_energy():
    classes = ((0.1, 2.0, 1.0), (0.05, 4.0, 0.5))
    repeated, resumed = (queue_energy(discipline(n, *classes), POWER) for n in ("repeat", "resume"))
    assert repeated.job_j[0] > resumed.job_j[0]
    assert repeated.job_j[1] == pytest.approx(resumed.job_j[1])
    assert repeated.total_w > resumed.total_w


@pytest.mark.parametrize(("speedup", "saves"), [(1.4, False), (1.5, None), (1.6, True)])
def test_a_sprint_saves_busy_energy_if_it_is_faster_than_it_is_hungry(speedup, saves):
    table = {"speedup": speedup, "base_w": 100, "sprint_w": 150}
    job = {"name": "a", "rate_per_s": 0.1, "service": {"mean_s": 2, "scv": 0.5}}
    plain, fast = (
        stable_discipline("non-preemptive", _streams({**job, **more}, table))
        for more in ({}, {"sprint_after_s": 1})
    )
    power = SprintTable(**table)
    change = queue_energy(fast, power).busy_w - queue_energy(plain, power).busy_w
    assert (change == pytest.approx(0, abs=1e-9)) if saves is None else (change < 0) == saves


def _streams(job, sprint):
    from foretell.decide.queueing.queue_file import read_queue
    from foretell.decide.queueing.times import streams_of

    return streams_of(read_queue({"class": [job], "sprint": sprint}), {})


def test_a_budget_that_refills_too_slowly_is_seen():
    sprint = {"speedup": 2, "base_w": 100, "sprint_w": 150, "budget_j": 10}
    job = {"name": "a", "rate_per_s": 0.1, "service": {"mean_s": 2, "scv": 0}, "sprint_after_s": 1}
    for refill, holds in ((2.4, False), (2.6, True)):  # 0.1 per s, half a second of 50 W each
        table = {**sprint, "refill_w": refill}
        found = queue_energy(
            stable_discipline("non-preemptive", _streams(job, table)), SprintTable(**table)
        )
        assert found.sprint_w == pytest.approx(2.5)
        assert found.is_within_budget == holds


def test_without_watts_nothing_is_said():
    assert queue_figures("resume", streams((0.1, 2.0, 1.0))).energy is None
