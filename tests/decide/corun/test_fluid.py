"""The fluid model: what holds for all jobs, and cases that are worked out by hand."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.decide.corun.fluid import play_together
from foretell.decide.corun.jobs import (
    BANDWIDTH,
    CPU,
    DISK,
    Capacity,
    CoJob,
    JobNeeds,
    Phase,
    pinned,
)
from foretell.errors import UsageError

CAPACITY = Capacity(2, bandwidth=10.0, disk=1.0, wake_s=1e-4)
fractions = st.just(0.0) | st.floats(0.0, 1.0)  # what a job does not need at all is special
seconds = st.floats(0.1, 20.0)


@st.composite
def phases(draw):
    needs = {CPU: 2 * draw(fractions), BANDWIDTH: 10 * draw(fractions), DISK: draw(fractions)}
    wakes = draw(st.just(0.0) | st.floats(0, 2e4))
    return Phase(draw(seconds), needs, draw(st.floats(0.5, 4)), wakes)


@st.composite
def jobs(draw, most_phases=3):
    found = draw(st.lists(phases(), min_size=1, max_size=most_phases))
    return CoJob(JobNeeds("job", tuple(found)), draw(st.floats(0, 10)))


def many(**more):
    return st.lists(jobs(**more), min_size=1, max_size=4)


def work(job, co_run, k):
    """Return the work of a job that was done, as long as it takes alone."""
    return sum((s.end_s - s.start_s) * s.speeds[k] for s in co_run.stretches)


@given(jobs())
def test_one_job_alone_ends_when_it_ends_alone(job):
    (end,) = play_together([job], CAPACITY).ends_s
    assert end == pytest.approx(job.start_s + job.job.alone_s)


@given(many())
def test_no_job_ends_before_it_would_alone_and_all_work_is_done(found):
    co_run = play_together(found, CAPACITY)
    for k, job in enumerate(found):
        assert co_run.ends_s[k] >= (job.start_s + job.job.alone_s) * (1 - 1e-9)
        assert work(job, co_run, k) == pytest.approx(job.job.alone_s, rel=1e-6)


@given(many(most_phases=1), jobs(most_phases=1), st.sampled_from([CPU, BANDWIDTH, DISK]))
def test_another_neighbor_never_speeds_up_jobs_that_share_one_resource(found, other, resource):
    """With several phases it may: a slowed neighbor can make room at the right moment."""

    def only(job):
        phase = job.job.phases[0]
        kept = Phase(phase.seconds, {resource: phase.needs[resource]}, phase.threads)
        return CoJob(JobNeeds("job", (kept,)), job.start_s)

    alone = play_together([only(job) for job in found], CAPACITY).ends_s
    beside = play_together([only(job) for job in [*found, other]], CAPACITY).ends_s
    for before, after in zip(alone, beside, strict=False):
        assert after >= before * (1 - 1e-9)


@given(many(), st.integers(0, 3))
def test_needs_within_capacity_change_nothing(found, scale):
    large = Capacity(8, bandwidth=40.0, disk=4.0)
    ends = play_together(found, large).ends_s
    assert ends == pytest.approx([job.start_s + job.job.alone_s for job in found])


@given(many(), st.randoms())
def test_the_order_of_jobs_does_not_matter(found, random):
    order = list(range(len(found)))
    random.shuffle(order)
    ends = play_together(found, CAPACITY).ends_s
    shuffled = play_together([found[k] for k in order], CAPACITY).ends_s
    assert shuffled == pytest.approx([ends[k] for k in order], rel=1e-6)


@given(many())
def test_no_resource_is_used_beyond_its_capacity(found):
    co_run = play_together(found, CAPACITY)
    places = [0.0] * len(found)
    for s in co_run.stretches:
        for resource, size in ((CPU, 2.0), (BANDWIDTH, 10.0), (DISK, 1.0)):
            used = sum(
                speed * _at(job, done).needs[resource]
                for job, done, speed in zip(found, places, s.speeds, strict=True)
                if speed > 0
            )
            assert used <= size * (1 + 1e-6)
        places = [p + v * (s.end_s - s.start_s) for p, v in zip(places, s.speeds, strict=True)]


def _at(job, done):
    """Return the phase of a job when so much of it is done."""
    for phase in job.job.phases:
        if done < phase.seconds * (1 - 1e-6):
            return phase
        done -= phase.seconds
    return job.job.phases[-1]


def spin(name="spin", seconds=10.0, cores=1.0, **more):
    return CoJob(JobNeeds(name, (Phase(seconds, {CPU: cores}, cores),)), **more)


def test_two_jobs_on_one_core_as_worked_out_by_hand():
    """The second starts at 4; both run at half speed until the first ends, at 4 + 2·6."""
    co_run = play_together([spin(), spin(start_s=4.0)], Capacity(1))
    assert co_run.ends_s == pytest.approx((16.0, 20.0))
    assert co_run.contended() == [(CPU, 4.0, pytest.approx(16.0), {0, 1})]


def test_shares_go_by_threads_or_by_jobs():
    wide, narrow = spin(cores=2.0), spin(cores=1.0)
    by_thread = play_together([wide, narrow], Capacity(2, thread_power=1.0)).stretches[0].speeds
    by_job = play_together([wide, narrow], Capacity(2, thread_power=0.0)).stretches[0].speeds
    assert by_thread == pytest.approx((2 / 3, 2 / 3))
    assert by_job == pytest.approx((0.5, 1.0))


def test_a_running_job_has_only_the_rest_to_do():
    first = JobNeeds("two", (Phase(6.0, {CPU: 1.0}), Phase(4.0, {DISK: 1.0})))
    co_run = play_together([CoJob(first, progress=0.7)], CAPACITY)
    assert co_run.ends_s == pytest.approx((3.0,))


def test_ends_do_not_depend_on_which_resource_is_named_first():
    """Two jobs that wait for two resources, and one that brings the second one up first."""
    slow, fast = (
        CoJob(JobNeeds(n, (Phase(10.0, {CPU: 1.0, DISK: 1.0}, threads),)))
        for n, threads in (("slow", 1.0), ("fast", 2.0))
    )
    other = CoJob(JobNeeds("other", (Phase(10.0, {CPU: 0.0, DISK: 1e-4}),)))
    capacity = Capacity(1, disk=1.0)
    first = play_together([fast, slow, other], capacity).ends_s
    assert play_together([other, fast, slow], capacity).ends_s[1:] == pytest.approx(first[:2])


def test_who_wakes_up_often_waits_where_others_leave_no_core_idle():
    writer = CoJob(JobNeeds("writer", (Phase(10.0, {CPU: 0.2}, 0.2, wakes=1000.0),)))
    busy = spin(seconds=1000.0)
    capacity = Capacity(1, thread_power=0.0, wake_s=0.001)
    # The other uses 0.8 of the core: 1000 times a second the writer waits 0.8 ms.
    assert play_together([writer, busy], capacity).ends_s[0] == pytest.approx(18.0)
    first, _ = play_together([writer, busy], capacity).stretches
    assert first.speeds == pytest.approx((1 / 1.8, 1 - 0.2 / 1.8))
    assert first.limits == (CPU, CPU)
    # Without that, its fair share is more than it needs.
    assert play_together([writer, busy], replace(capacity, wake_s=0.0)).ends_s[0] == pytest.approx(
        10.0
    )
    # A core is idle, or the other is pinned to another one.
    two = replace(capacity, n_cores=2)
    assert play_together([writer, busy], two).ends_s[0] == pytest.approx(10.0)
    apart = [replace(writer, cpus=frozenset({0})), replace(busy, cpus=frozenset({1}))]
    assert play_together(apart, two).ends_s[0] == pytest.approx(10.0)


def test_a_load_without_end_is_what_it_needs_on_average_from_beginning_to_end():
    """Its start-up, profiled once, does not come again and again."""
    parts = (Phase(1.0, {CPU: 1.0}), Phase(3.0, {CPU: 0.0}))
    service = CoJob(JobNeeds("service", parts, is_endless=True))
    co_run = play_together([service, spin(seconds=30_000.0)], Capacity(1))
    # A quarter of a core is less than its fair share, so the job has three quarters.
    assert co_run.ends_s == (math.inf, pytest.approx(40_000.0))
    assert len(co_run.stretches) == 1


def test_late_starts_end():
    """So late that the clock has no parts as small as what is left of a phase."""
    late = spin(seconds=0.3, start_s=3e7)
    assert play_together([spin(), late], CAPACITY).ends_s[1] == pytest.approx(3e7 + 0.3)


def test_a_job_without_end_is_a_steady_load():
    endless = CoJob(JobNeeds("service", (Phase(1.0, {CPU: 1.0}),), is_endless=True))
    ends = play_together([spin(), endless], Capacity(1)).ends_s
    assert ends == (pytest.approx(20.0), math.inf)


def test_pinned_jobs_share_only_the_cores_they_are_pinned_to():
    for layout, end in (("packed", 20.0), ("spread", 10.0)):
        cpus = pinned([1.0, 0.5], 2)[layout]
        found = [spin(cpus=c) for c in cpus]
        assert play_together(found, Capacity(2)).ends_s == pytest.approx((end, end))


def test_a_job_of_no_length_is_refused():
    with pytest.raises(UsageError, match="takes no time"):
        play_together([CoJob(JobNeeds("none", ()))], CAPACITY)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6))
def test_ten_jobs_of_sixteen_phases_take_few_steps(seed):
    """What makes it fast is that steps are few: each ends a phase, starts or ends a job."""
    import random

    draw = random.Random(seed)
    found = [
        CoJob(
            JobNeeds(
                f"{k}",
                tuple(
                    Phase(
                        draw.uniform(0.5, 5),
                        {
                            CPU: draw.uniform(0, 2),
                            BANDWIDTH: draw.uniform(0, 8),
                            DISK: draw.random(),
                        },
                        draw.uniform(1, 4),
                    )
                    for _ in range(16)
                ),
            ),
            draw.uniform(0, 10),
        )
        for k in range(10)
    ]
    co_run = play_together(found, CAPACITY)
    assert len(co_run.stretches) <= 10 * 16 + 10
