"""Learning classes from observed jobs: the class takes as long as the jobs did."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.decide.queueing.queue_file import read_queue
from foretell.decide.queueing.service.job import job_time
from foretell.queue.learn import learn_classes
from foretell.queue.observed import Observed, ObservedJob, ObservedStage


def stage_of(times, slots, at_s):
    """Run tasks on slots in order; return the stage, and when it ends."""
    stage, free = ObservedStage(), [at_s] * slots
    for time_s in times:
        start = min(free)
        free[free.index(start)] = start + time_s
        stage.add(start, start + time_s)
    return stage


def observed_job(arrived_s, before_s, task_times, gap_s, after_s, slots):
    stages, at_s = [], arrived_s + before_s
    for times in task_times:
        stages.append(stage_of(times, slots, at_s))
        at_s = stages[-1].last_s + gap_s
    ended_s = at_s - gap_s + after_s
    return ObservedJob("jobs", arrived_s, arrived_s, ended_s, stages=stages)


seconds = st.floats(0.1, 3.0)
stages = st.lists(st.lists(seconds, min_size=2, max_size=8), min_size=1, max_size=3)


@given(shape=stages, slots=st.integers(1, 4), n=st.integers(1, 6), beside_s=st.floats(0.0, 2.0))
@settings(max_examples=40, deadline=None)
def test_a_learned_class_takes_as_long_as_its_jobs_or_says_by_how_much_it_does_not(
    shape, slots, n, beside_s
):
    jobs = [observed_job(100.0 * i, beside_s, shape, 0.1, 0.2, slots) for i in range(n)]
    found = learn_classes(Observed(slots, jobs, []))
    (job,) = read_queue(found.values).classes
    modelled, measured = job_time(job, slots).mean, jobs[0].time_s
    if found.values["class"][0]["overhead_s"]:
        assert modelled == pytest.approx(measured, rel=2e-3)  # the file has four digits
        assert not any("too long" in note for note in found.notes)
    else:
        assert modelled >= measured * (1 - 2e-3)
        told = any("too long" in note for note in found.notes)
        assert told or modelled == pytest.approx(measured, rel=0.01)


def test_jobs_that_dropped_tasks_are_matched_at_their_own_share():
    jobs = []
    for i in range(12):
        kept, drop = (10, 0.0) if i % 2 else (5, 0.5)
        job = observed_job(100.0 * i, 3.0, [[1.0] * kept], 0.0, 0.0, 2)
        job.drop = drop
        jobs.append(job)
    found = learn_classes(Observed(2, jobs, []))
    (job,) = read_queue({**found.values}).classes
    means = [job_time(job, 2, drop).mean for drop in (0.0, 0.5)]
    assert sum(means) == pytest.approx(sum(j.time_s for j in jobs[:2]), rel=2e-3)
