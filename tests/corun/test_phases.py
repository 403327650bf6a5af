"""Phases: changes of what a job needs are found, and all of its work is kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.corun.phases import change_points, job_phases
from foretell.decide.corun.jobs import CPU, DISK
from foretell.traces import Trace


def traced(rates, step_s=0.1):
    """Return a trace of a job that uses so many cores in each step."""
    used = np.cumsum(rates) * step_s
    times = step_s * np.arange(1, len(rates) + 1)
    zero = np.zeros(len(rates))
    names = ("wait_time_s", "read_bytes", "written_bytes", "disk_busy_s", "disk_bytes")
    return Trace(times, {"cpu_time_s": used, **dict.fromkeys(names, zero)})


def by_brute_force(values, penalty):
    """Return the best segmentation by trying all of them: squared deviations plus a price."""
    n = len(values)
    noise = 1.4826 / np.sqrt(2) * np.median(np.abs(np.diff(values)))
    values = values / max(noise, 0.1)
    price = penalty * np.log(n)
    best, before = [0.0] + [np.inf] * n, [0] * (n + 1)
    for end in range(5, n + 1):
        for start in range(end - 4):
            if start and start < 5:
                continue
            part = values[start:end]
            cost = best[start] + ((part - part.mean()) ** 2).sum() + (price if start else 0)
            if cost < best[end] - 1e-12:
                best[end], before[end] = cost, start
    cuts, place = [], before[n]
    while place:
        cuts.append(place)
        place = before[place]
    return cuts[::-1]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 5), st.integers(5, 12)), min_size=1, max_size=4),
       st.integers(0, 1000))  # fmt: skip
def test_change_points_are_the_best_there_are(parts, seed):
    noise = np.random.default_rng(seed)
    values = np.concatenate([level + 0.3 * noise.normal(size=n) for level, n in parts])
    assert change_points(values[:, None], 3.0) == by_brute_force(values, 3.0)


def test_two_phases_are_told_apart():
    phases = job_phases(traced([0.05] * 30 + [1.0] * 50), 8.0, 2, 0.0)
    assert [p.seconds for p in phases] == pytest.approx([3.0, 5.0], abs=0.3)
    assert [p.needs[CPU] for p in phases] == pytest.approx([0.05, 1.0], abs=0.05)


def test_wakes_are_counted_where_a_profile_has_them():
    trace = traced([0.2] * 80)
    (phase,) = job_phases(trace, 8.0, 2, 0.0)
    assert phase.wakes == 0
    switches = {"n_switches": 50.0 * trace.times_s}
    (phase,) = job_phases(Trace(trace.times_s, trace.columns | switches), 8.0, 2, 0.0)
    assert phase.wakes == pytest.approx(50.0, rel=0.05)


def test_what_the_kernel_did_for_a_job_is_needed_where_others_than_the_job_were_busy():
    trace = traced([0.5] * 80)
    others = np.cumsum([0.0] * 40 + [0.3] * 40) * 0.1
    trace = Trace(trace.times_s, {**trace.columns, "other_cpu_time_s": others})
    assert [p.needs[CPU] for p in job_phases(trace, 8.0, 2, 0.0)] == pytest.approx([0.5])
    # Of 1.2 s that others used, threads of the kernel used 0.8 s.
    needed = sum(p.seconds * p.needs[CPU] for p in job_phases(trace, 8.0, 2, 0.0, 0.8))
    assert needed == pytest.approx(4.0 + 0.8, rel=0.02)


@given(st.lists(st.floats(0, 2), min_size=10, max_size=80))
def test_phases_add_up_to_the_run(rates):
    phases = job_phases(traced(rates), 0.1 * len(rates), 4, 0.0)
    assert sum(p.seconds for p in phases) == pytest.approx(0.1 * len(rates))
    assert sum(p.seconds * p.needs[CPU] for p in phases) == pytest.approx(0.1 * sum(rates))
    assert all(p.needs[DISK] == 0 for p in phases)
