"""Two classes played with constant times, as the benchmark on Spark chooses its arrivals."""

import math

import pytest
from benchmarks.arrivals import HIGH, LOW, Arrival, Policy, drawn, means, responses, typical
from hypothesis import given
from hypothesis import strategies as st

TIMES = (2.0, 1.0)


def test_low_job_that_runs_is_waited_for_or_evicted():
    arrivals = [Arrival(0.0, LOW), Arrival(0.5, HIGH), Arrival(0.6, LOW)]
    assert responses(arrivals, Policy(TIMES)) == pytest.approx([2.0, 2.5, 4.4])
    # Evicted at 0.5, it starts again at 1.5; the other low job is behind it.
    evicting = Policy(TIMES, is_preemptive=True)
    assert responses(arrivals, evicting) == pytest.approx([3.5, 1.0, 4.9])


def first_come(arrivals, time_s):
    free, found = 0.0, []
    for arrival in arrivals:
        free = max(free, arrival.at_s) + time_s
        found.append(free - arrival.at_s)
    return found


@given(seed=st.integers(0, 500), share=st.sampled_from([0.1, 0.3, 0.6]))
def test_high_jobs_do_not_see_low_ones_if_those_are_evicted(seed, share):
    arrivals = drawn(30, 0.3, share, seed)
    found = responses(arrivals, Policy(TIMES, is_preemptive=True))
    high = [(a, r) for a, r in zip(arrivals, found, strict=True) if a.level == HIGH]
    assert len(high) == round(30 * share)
    assert [r for _, r in high] == pytest.approx(first_come([a for a, _ in high], TIMES[HIGH]))


@given(seed=st.integers(0, 500))
def test_equal_times_without_eviction_leave_the_sum_of_responses_as_it_is(seed):
    arrivals = drawn(40, 0.8, 0.3, seed)
    found = responses(arrivals, Policy((1.0, 1.0)))
    assert math.fsum(found) == pytest.approx(math.fsum(first_come(arrivals, 1.0)))


def test_chosen_arrivals_have_about_the_wanted_means():
    policy, wanted = Policy(TIMES), (5.0, 2.2)
    found = means(typical(60, 0.4, 0.1, [(policy, wanted)], n_seeds=300), policy)
    assert found == pytest.approx(wanted, rel=0.1)
