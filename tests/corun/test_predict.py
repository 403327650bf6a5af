"""Predictions for users: ends, starts, running jobs, layouts, memory and other machines."""

import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest

import foretell
from foretell.corun.calibration import Calibration
from foretell.corun.facts import MachineFacts, machine_facts
from foretell.corun.models.fitted import FittedCoRuns
from foretell.corun.models.score import fit_co_runs
from foretell.corun.predict import predict_together, slowdown
from foretell.errors import DatasetError, NothingUsableError, UsageError
from foretell.report.corun import write_together
from foretell.traces import Trace

from .jobs import FACTS, here, made_up, made_up_elsewhere, made_up_machine, on_last_cpu
from .measured import make_measurement

ONE_CORE = made_up_machine(facts={**FACTS, "n_usable": 1})


def of_one_core(**more):
    return made_up(facts=ONE_CORE.facts, **more)


def test_two_jobs_on_one_core_take_turns():
    jobs = [of_one_core(name="a"), of_one_core(name="b", seconds=20.0)]
    found = predict_together(jobs, machine=ONE_CORE)
    assert [job.end_s for job in found.jobs] == pytest.approx([20.0, 30.0], rel=0.02)
    assert [job.in_turn_s for job in found.jobs] == pytest.approx([10.0, 30.0], rel=0.02)
    assert [job.alone_s for job in found.jobs] == pytest.approx([10.0, 20.0], rel=0.02)
    assert found.contended[0][0] == "CPU time"
    assert found.contended[0][3] == ("a", "b")
    assert "that is better, as jobs end 5.0 s sooner" in str(found)


def test_starts_and_running_jobs_and_names():
    jobs = [of_one_core(name="a"), of_one_core(name="a")]
    found = predict_together(jobs, starts={"a-2": "+3s"}, running={"a": "40%"}, machine=ONE_CORE)
    # Alone until 3 s, 3 s of work are left then: both run at half speed until 9 s.
    assert found["a"].end_s == pytest.approx(9.0, rel=0.02)
    assert found["a-2"].end_s == pytest.approx(16.0, rel=0.02)


def test_in_one_session_cpu_time_is_shared_by_thread():
    jobs = [made_up(name="narrow"), made_up(name="wide", cores=2.0)]
    machine = made_up_machine(thread_power=0.0)
    own = predict_together(jobs, machine=machine)
    one = predict_together(jobs, one_session=True, machine=machine)
    # A core each, or two of three threads to the wide job: two thirds of a core are left.
    assert own["narrow"].end_s == pytest.approx(10.0, rel=0.02)
    assert one["narrow"].end_s == pytest.approx(15.0, rel=0.02)
    assert one["narrow"].waits_s["CPU time"] == pytest.approx(15.0, rel=0.02)
    assert own["narrow"].waits_s == {}
    [note] = [note for note in own.notes if "as one session" in note]
    assert "narrow takes 1.5 times as long" in note
    assert not any("session" in note for note in one.notes)
    alike = [made_up(name="a"), made_up(name="b")]  # for which it makes no difference
    assert not any("session" in note for note in predict_together(alike, machine=machine).notes)


def test_layouts_decide_whether_jobs_meet():
    jobs = [made_up(name="a"), made_up(name="b")]
    machine = made_up_machine()
    packed = predict_together(jobs, pin="packed", machine=machine)
    spread = predict_together(jobs, pin="spread", machine=machine)
    assert packed["a"].slowdown == pytest.approx(2.0, rel=0.02)
    assert spread["a"].slowdown == pytest.approx(1.0)


def two_phases(name):
    """Return a job that rests, and then computes on two cores: 0.8 cores on average."""
    job = made_up(name)
    cores = np.where(job.trace.times_s > 6.0, 2.0 * (job.trace.times_s - 6.0), 0.0)
    trace = Trace(job.trace.times_s, {**job.trace.columns, "cpu_time_s": cores})
    return replace(job, trace=trace)


def test_a_layout_is_the_one_that_is_measured():
    """It depends on cores used on average, and says which CPUs of this machine that makes."""
    jobs = [here(two_phases("a")), here(two_phases("b"))]
    machine = made_up_machine(facts=machine_facts())
    packed = predict_together(jobs, pin="packed", machine=machine)
    cpu = min(os.sched_getaffinity(0))
    assert [job.cpus for job in packed.jobs] == [(cpu,), (cpu,)]
    assert f"taskset -c {cpu} for a, taskset -c {cpu} for b" in str(packed)
    spread = predict_together(jobs, pin="spread", machine=machine)
    if machine_facts().n_usable > 1:
        assert spread["a"].cpus[0] == cpu
        assert not set(spread["a"].cpus) & set(spread.to_json()["jobs"][1]["cpus"])
    assert "taskset" not in str(predict_together(jobs, machine=machine))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="CPUs are counted from 0")
def test_a_layout_has_only_cpus_that_may_be_used():
    with on_last_cpu() as cpu:
        jobs = [here(made_up("a")), here(made_up("b"))]
        for pin in ("packed", "spread"):
            found = predict_together(jobs, pin=pin, machine=made_up_machine(facts=machine_facts()))
            assert [job.cpus for job in found.jobs] == [(cpu,), (cpu,)]
            assert f"taskset -c {cpu} for a" in str(found)


def test_a_layout_of_another_machine_names_no_cpus_of_this_one():
    jobs = [made_up("a"), made_up("b")]
    packed = predict_together(jobs, pin="packed", machine=made_up_machine())
    assert packed["a"].cpus == ()
    assert "taskset" not in str(packed)


def test_slowdown_is_that_beside_steady_neighbors():
    short, long = of_one_core(name="a", seconds=1.0), of_one_core(name="b", seconds=100.0)
    assert slowdown(long, [short], machine=ONE_CORE) == pytest.approx(2.0, rel=0.02)
    assert slowdown(long, [], machine=ONE_CORE) == pytest.approx(1.0)


def test_jobs_that_do_not_fit_into_memory_get_no_time():
    jobs = [made_up(name="a", memory_bytes=1e10), made_up(name="b", memory_bytes=1e10)]
    with pytest.raises(NothingUsableError, match=r"'a' does not fit into memory: .* 931\.3 GiB"):
        predict_together([made_up_elsewhere(memory_bytes=1e12)], machine=made_up_machine())
    with pytest.raises(NothingUsableError, match="do not fit into memory together"):
        predict_together(jobs, machine=made_up_machine())
    # One after the other they do.
    assert predict_together(jobs, starts={"b": "60s"}, machine=made_up_machine())["b"].end_s > 60


def test_a_job_without_end_has_no_end_and_slows_the_others():
    jobs = [of_one_core(name="a"), of_one_core(name="service", is_endless=True)]
    found = predict_together(jobs, machine=ONE_CORE)
    assert math.isinf(found["service"].end_s)
    assert found["a"].slowdown == pytest.approx(2.0, rel=0.02)
    assert found.to_json()["jobs"][1]["end_s"] is None
    with pytest.raises(UsageError, match="run without end"):
        predict_together(jobs[1:], machine=ONE_CORE)


def test_a_load_without_end_has_none_with_a_learned_part_either(tmp_path):
    folder = make_measurement(tmp_path / "slow", factor=1.2)
    fit_co_runs(folder, tmp_path / "x.corun", machine=made_up_machine())
    jobs = [made_up("a"), made_up("service", is_endless=True)]
    found = predict_together(jobs, machine=made_up_machine(), model=tmp_path / "x.corun")
    assert found["service"].end_s == math.inf
    assert found["service"].upper_s == math.inf
    with pytest.raises(UsageError, match="servise"):
        found["servise"]


def test_a_machine_is_the_same_after_its_kernel_kept_a_little_more_memory():
    less = {**FACTS, "memory_bytes": int(FACTS["memory_bytes"] * 0.995)}
    jobs = [made_up("a"), made_up("b", facts=less)]
    assert predict_together(jobs, machine=made_up_machine())["b"].end_s == pytest.approx(10.0)


def test_intervals_of_few_errors_say_so(tmp_path):
    found = FittedCoRuns(Calibration({"pair": (0.1,) * 10}, "here"), None, made_up().facts)
    notes = predict_together([made_up(), made_up()], machine=made_up_machine(), model=found).notes
    assert any("10 errors" in note for note in notes)


def test_a_profile_of_another_machine_is_refused_unless_both_were_measured():
    stranger = made_up(name="b", facts={**FACTS, "cpu": "Other"})
    with pytest.raises(UsageError, match="another machine"):
        predict_together([made_up(), stranger])
    measured = made_up(name="b", facts={**FACTS, "cpu": "Other"}, compute_rate=50.0)
    found = predict_together([made_up(), measured], machine=made_up_machine())
    assert found["b"].alone_s == pytest.approx(5.0)
    assert any("far" in note for note in found.notes)


def test_without_a_machine_file_jobs_run_on_this_machine(monkeypatch):
    """Not on that of the first profile."""
    monkeypatch.setattr("foretell.corun.machine.known_machine", lambda: None)
    stranger = made_up("stranger", facts={**FACTS, "cpu": "Other"})
    for jobs in ([stranger, stranger], [stranger, here(made_up())], [here(made_up()), stranger]):
        with pytest.raises(UsageError, match="'stranger' was profiled on another machine"):
            predict_together(jobs)
    with pytest.raises(UsageError, match="'stranger' was profiled on another machine"):
        foretell.group_jobs({"stranger": stranger})


def test_a_model_of_another_machine_is_named(tmp_path):
    model = FittedCoRuns(
        Calibration({"pair": (0.1,) * 19}, "x"), None, MachineFacts(**{**FACTS, "cpu": "Other"})
    )
    jobs = [made_up("a"), made_up("b")]
    found = predict_together(jobs, machine=made_up_machine(), model=model)
    assert any("learned on another machine (Other" in note for note in found.notes)
    own = replace(model, facts=MachineFacts(**FACTS))
    assert not predict_together(jobs, machine=made_up_machine(), model=own).notes


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"starts": {"c": "3s"}}, "no job 'c'"),
        ({"starts": {"b": "soon"}}, "soon"),
        ({"running": {"a": "140%"}}, "40%"),
        ({"running": {"a": "much"}}, "much"),
        ({"running": {"a": 0.2}, "starts": {"a": 3.0}}, "running already"),
        ({"pin": "spraed"}, "Did you mean 'spread'"),
    ],
)
def test_what_cannot_be_is_refused(options, reason):
    with pytest.raises(UsageError, match=reason):
        predict_together([made_up("a"), made_up("b")], machine=made_up_machine(), **options)


def test_files_give_jobs_their_names(tmp_path):
    foretell.write_profile(made_up("whatever"), tmp_path / "etl.profile")
    found = predict_together([tmp_path / "etl.profile"], machine=made_up_machine())
    assert found.jobs[0].name == "etl"
    with pytest.raises(DatasetError, match="cannot be read"):
        predict_together([tmp_path / "missing.profile"])


def test_disk_and_bandwidth_without_a_measured_machine_are_named_as_unknown(monkeypatch):
    monkeypatch.setattr("foretell.corun.machine.known_machine", lambda: None)
    notes = predict_together([here(made_up())]).notes
    assert any("corun machine" in note for note in notes)


@pytest.mark.parametrize("ending", ["svg", "html", "md"])
def test_a_timeline_or_a_report_is_written(ending, tmp_path):
    found = predict_together([made_up("a"), made_up("b", cores=2.0)], machine=made_up_machine())
    path = tmp_path / f"out.{ending}"
    assert write_together(found, path) > 1000
    assert "tall line: end alone" in path.read_text() or ending == "md"


def test_intervals_of_running_jobs_have_errors_of_their_own():
    errors = {"pair": 0.0, "shifted": 0.1, "running": 0.4, "triple": 0.2, "pinned": 0.3}
    calibration = Calibration({kind: (e,) * 19 for kind, e in errors.items()}, "x")
    model = FittedCoRuns(calibration, None, MachineFacts(**FACTS))
    jobs = [made_up(name) for name in "abcd"]
    for n_jobs, options, error in (
        (2, {}, 0.0), (2, {"starts": {"a": 2.0}}, 0.1), (2, {"running": {"a": 0.3}}, 0.4),
        (3, {}, 0.2), (2, {"pin": "spread"}, 0.3),
    ):  # fmt: skip
        found = predict_together(jobs[:n_jobs], machine=made_up_machine(), model=model, **options)
        assert found["b"].upper_s == pytest.approx(math.exp(error) * found["b"].end_s)
        assert not found.notes
    more = predict_together(jobs, machine=made_up_machine(), model=model)
    assert any("intervals of 4 may be too narrow" in note for note in more.notes)


def test_json_is_plain():
    found = predict_together([made_up("a"), made_up("b")], machine=made_up_machine())
    assert json.loads(json.dumps(found.to_json()))["slowdowns"] == {"a": 1.0, "b": 1.0}


def test_a_job_alone_has_no_interval_of_co_runs():
    found = predict_together([made_up("a")], machine=made_up_machine())
    assert found["a"].lower_s == found["a"].end_s == found["a"].upper_s
    assert "–" in str(found)
    told = found.to_json()
    assert told["confidence"] is told["jobs"][0]["lower_s"] is told["jobs"][0]["upper_s"] is None


def test_no_line_of_a_prediction_is_empty():
    jobs = [made_up("a"), made_up("service", is_endless=True)]
    for some in (jobs, jobs[:1]):
        assert all(str(predict_together(some, machine=made_up_machine())).splitlines())
