"""Profiles: of real programs, in files that damage, gaps and strangers cannot get past."""

import contextlib
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.corun.facts import machine_facts
from foretell.corun.profile import profile_job, profile_of, read_profile, write_profile
from foretell.corun.running.child import COLUMNS, MOST_SAMPLES
from foretell.corun.running.together import run_together
from foretell.decide.corun.jobs import BANDWIDTH, CPU
from foretell.errors import DatasetError, NothingUsableError, UsageError
from foretell.traces import Trace

from .jobs import FACTS, SPIN, made_up, made_up_machine, many, on_last_cpu, python, spin


def of_here(**more):
    """Return a made-up machine with the facts of this one."""
    return made_up_machine(facts=machine_facts().model_dump(), **more)


def test_a_job_that_rests_and_computes_has_two_phases(tmp_path):
    code = "import time; time.sleep(1.5)\nwhile time.process_time() < 1.5: pass"
    found = profile_job(python(code), name="two")
    first, *_, last = found.needs(2).phases
    assert first.needs[CPU] < 0.3 < last.needs[CPU]
    write_profile(found, tmp_path / "two.profile")
    again = read_profile(tmp_path / "two.profile")
    assert again.needs(2) == found.needs(2)
    assert again.command == found.command


def test_a_short_job_is_run_again_with_finer_samples(tmp_path):
    code = f"import time; open({str(tmp_path / 'runs')!r}, 'a').write('x'); time.sleep(0.35)"
    found = profile_job(python(code))
    assert len(found.trace) >= 10
    assert len((tmp_path / "runs").read_text()) == 2


def test_a_job_that_is_over_at_once_is_refused():
    with pytest.raises(NothingUsableError, match="a longer job"):
        profile_job(("true",))


def test_a_job_that_fails_has_no_profile():
    with pytest.raises(NothingUsableError, match="exited with 5: bad luck"):
        profile_job(python("import sys, time; time.sleep(1); print('bad luck'); sys.exit(5)"))


def test_a_job_without_end_is_stopped_and_becomes_a_load():
    found = profile_job(spin(600), seconds=1.0)
    assert found.is_endless
    assert found.needs(2).is_endless


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a bubble needs a core of its own")
def test_a_stopped_job_beside_a_bubble_tells_its_bandwidth():
    machine = of_here(stream_rate=1e15, bandwidth=2e15)
    found = profile_job(spin(600), seconds=1.0, machine=machine, bubbles=True)
    assert found.is_endless
    # The bubble copies less than the memory of this made-up machine could: the rest is the job's.
    assert found.bandwidth > 1e14


def test_a_job_fits_into_the_machine_on_which_it_ran():
    """What processes share is counted in each of them."""
    assert made_up(memory_bytes=5e10).memory_bytes == FACTS["memory_bytes"]


def test_what_the_kernel_did_is_kept_and_checked(tmp_path):
    profile = replace(made_up(), kernel_time_s=0.5)
    others = {"other_cpu_time_s": 0.2 * profile.trace.times_s}
    whole = replace(profile, trace=Trace(profile.trace.times_s, profile.trace.columns | others))
    write_profile(whole, tmp_path / "a.profile")
    assert read_profile(tmp_path / "a.profile").needs(2) == whole.needs(2)
    assert whole.needs(2).mean(CPU) == pytest.approx(1.05, rel=0.01)
    for n, broken in enumerate((profile.trace.columns, whole.trace.columns | {
        "other_cpu_time_s": np.full(len(whole.trace), np.nan)
    })):  # fmt: skip
        path = tmp_path / f"{n}.profile"
        write_profile(replace(profile, trace=Trace(profile.trace.times_s, broken)), path)
        with pytest.raises(DatasetError, match="other_cpu_time_s"):
            read_profile(path)


def test_the_file_of_another_machine_is_refused():
    other = {**machine_facts().model_dump(), "cpu": "Another"}
    with pytest.raises(UsageError, match="another machine"):
        profile_job(spin(1), machine=made_up_machine(facts=other))


def test_the_host_and_limits_on_cpu_time_are_told():
    (note,) = replace(made_up(), throttled=0.2).notes()
    assert "limit on CPU time" in note
    assert "20 %" in note


def test_bubbles_need_a_measured_machine():
    with pytest.raises(UsageError, match="bubbles need"):
        profile_job(spin(1), bubbles=True)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a bubble needs a core of its own")
def test_a_run_beside_a_bubble_tells_the_bandwidth_of_a_job():
    """The bubble of this machine is far below what the file says: the job seems to take it."""
    machine = of_here(stream_rate=1e15, bandwidth=2e15)
    found = profile_job(spin(0.7), machine=machine, bubbles=True)
    assert found.bandwidth > 1e14
    assert found.needs(2).phases[-1].needs[BANDWIDTH] > 1e13
    slow = of_here(stream_rate=1.0, bandwidth=2.0)
    assert profile_job(spin(0.7), machine=slow, bubbles=True).bandwidth == 0.0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="CPUs are counted from 0")
def test_a_bubble_runs_on_a_cpu_that_may_be_used(monkeypatch):
    orders = []

    def run(given, **options):
        orders.extend(given)
        return run_together(given, **options)

    monkeypatch.setattr("foretell.corun.profile.run_together", run)
    mostly_waits = python("import time; time.sleep(1)\n" + SPIN.format(0.1))
    with on_last_cpu() as cpu:
        profile_job(mostly_waits, machine=of_here(), bubbles=True)
    assert orders[-1].name == "memory bubble"
    assert orders[-1].cpus == (cpu,)


def test_files_of_an_hour_are_smaller_than_a_megabyte():
    times = np.linspace(0.9, 3600, MOST_SAMPLES)
    columns = dict.fromkeys(COLUMNS, times)
    large = replace(made_up(), trace=Trace(times, columns), wall_s=3600.0)
    assert len(large.to_bytes()) < 1_000_000


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: (t.times_s[:9], {n: v[:9] for n, v in t.columns.items()}), "9 samples"),
        (lambda t: (t.times_s + 3.0 * (t.times_s > 5), t.columns), "nothing was sampled for 3."),
        (lambda t: (t.times_s, {**t.columns, "cpu_time_s": -t.times_s}), "cannot be"),
        (lambda t: (t.times_s, {"memory_bytes": t.times_s}), "no column 'cpu_time_s'"),
    ],
)
def test_bad_samples_are_refused(change, reason, tmp_path):
    good = Trace.from_bytes(made_up(seconds=20.0).to_bytes())
    times, columns = change(good)
    bad = Trace(times, columns, {**good.about, "wall_time_s": float(times[-1])})
    (tmp_path / "bad.profile").write_bytes(bad.to_bytes())
    with pytest.raises(DatasetError, match=reason):
        read_profile(tmp_path / "bad.profile")


def test_a_pause_that_was_meant_is_no_gap(tmp_path):
    """Samples of a large tree take long, so there are fewer of them after the first."""
    good = made_up(seconds=20.0)
    kept = np.r_[:12, 40:200:30]
    times = good.trace.times_s[kept]
    meant = {"pause_s": np.r_[np.diff(times), 0.0] * 0.9}
    columns = {n: v[kept] for n, v in good.trace.columns.items()}
    wall_s = float(times[-1])
    write_profile(
        replace(good, trace=Trace(times, columns | meant), wall_s=wall_s), tmp_path / "a.profile"
    )
    assert len(read_profile(tmp_path / "a.profile").trace) == len(times)
    meant["pause_s"][13] = 0.05  # that sample was late
    late = replace(good, trace=Trace(times, columns | meant), wall_s=wall_s)
    write_profile(late, tmp_path / "late.profile")
    with pytest.raises(DatasetError, match=r"after 7\.1 s, where samples were meant to be 0\.05 s"):
        read_profile(tmp_path / "late.profile")


def test_a_profile_of_a_thousand_processes_can_be_read_back(tmp_path):
    found = profile_job(many(1000, 4))
    write_profile(found, tmp_path / "many.profile")
    again = read_profile(tmp_path / "many.profile")
    assert again.trace.columns["n_processes"].max() >= 900
    assert again.needs(2) == found.needs(2)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        ([1], "of which machine"),
        ({}, "machine.cpu: is required"),
        ({**FACTS, "memory_bytes": "abc"}, "machine.memory_bytes: must be a whole number"),
        ({**FACTS, "memory_bytes": [1]}, "machine.memory_bytes: must be a whole number"),
        ({**FACTS, "n_usable": 0}, "machine.n_usable: must be at least 1"),
        ({**FACTS, "cpu": "x" * 3000}, "machine.cpu: must be at most 200"),
    ],
)
def test_a_profile_of_a_machine_that_cannot_be_is_refused(machine, reason, tmp_path):
    good = Trace.from_bytes(made_up().to_bytes())
    bad = Trace(good.times_s, good.columns, {**good.about, "machine": machine})
    (tmp_path / "bad.profile").write_bytes(bad.to_bytes())
    with pytest.raises(DatasetError, match=reason) as told:
        read_profile(tmp_path / "bad.profile")
    assert len(str(told.value)) < 400


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_files_never_raise_anything_else(data):
    content = bytearray(made_up().to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, 600))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(content), 50, 400]))
    with contextlib.suppress(ValueError):
        profile_of(Trace.from_bytes(bytes(content[:cut]))).needs(2)


@pytest.mark.parametrize("content", [b"", b"\x80\x04pickle", b"foretell trace 1\n{}\n"])
def test_files_that_are_no_profiles_say_so(content, tmp_path):
    (tmp_path / "x.profile").write_bytes(content)
    with pytest.raises(DatasetError, match="not a profile of a job"):
        read_profile(tmp_path / "x.profile")


def test_a_disturbed_run_and_costly_samples_are_told():
    notes = replace(made_up(), disturbed=0.4, overhead=0.05).notes()
    assert "5.0 %" in notes[0]
    assert "0.40 cores" in notes[1]
