"""Measuring sets of programs: all is run once, a kill loses nothing, bad programs are named."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from foretell.corun.measuring.measure import measure_co_runs
from foretell.corun.measuring.set_file import planned_runs, read_set
from foretell.corun.measuring.table import read_co_runs, write_table
from foretell.corun.profile import read_profile
from foretell.errors import DatasetError, StorageError, UsageError
from foretell.files.journal import read_journal
from foretell.traces import read_trace

from .jobs import SPIN

#: Machines that run tests are not idle: here nothing counts as disturbed.
CALM = {"max_disturbed": 100.0, "max_steal": 100.0, "alone": 1}


def program(code):
    return {"run": f'"{sys.executable}" -c "{code}"'}


def quick(tmp_path, n_programs=2, **more):
    names = "abc"[:n_programs]
    mark = str(tmp_path / "log")
    code = "import time; open('{0}', 'a').write('{1}'); time.sleep(0.6)"
    found = {name: program(code.format(mark, name)) for name in names}
    return {"program": found, "shifted": 1, "triples": 1, "pinned": 1, **CALM, **more}


def test_all_kinds_of_runs_are_made_and_written(tmp_path):
    given = quick(tmp_path, n_programs=3)
    done = measure_co_runs(given, tmp_path / "out")
    runs = planned_runs(read_set(given))
    assert done.n_ok == len(runs) == 3 + 6 + 1 + 1 + 2
    found = {run.key: run for run in read_co_runs(tmp_path / "out")}
    assert found.keys() == {run.key for run in runs}
    shifted = next(run for run in found.values() if run.kind == "shifted")
    assert shifted.jobs[1].start_s > 0.1
    assert len(next(run for run in found.values() if run.kind == "triple").jobs) == 3
    assert read_profile(tmp_path / "out/profiles/a.profile").wall_s > 0.5
    trace = read_trace(tmp_path / f"out/traces/{shifted.key}.trace")
    assert trace.about["jobs"] == [job.program for job in shifted.jobs]


def test_repeats_alone_are_spread_over_the_whole_measurement(tmp_path):
    runs = planned_runs(read_set(quick(tmp_path, n_programs=3, alone=4, pairs=6, shifted=6)))
    assert [run.key for run in runs[:3]] == ["alone-a-0", "alone-b-0", "alone-c-0"]
    places = [k for k, run in enumerate(runs) if run.kind == "alone" and run.repeat]
    gaps = [b - a for a, b in itertools.pairwise(places)]
    assert len(places) == 9
    assert max(gaps) <= 3  # nine among fifteen others
    assert places[-1] >= len(runs) - 3
    assert [runs[k].repeat for k in places] == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_repeats_of_a_program_are_told_from_programs_with_such_names(tmp_path):
    given = quick(tmp_path, pairs=0, shifted=0, triples=0, pinned=0, alone=2)
    given["program"] = {"a": given["program"]["a"], "a-1": given["program"]["b"]}
    measure_co_runs(given, tmp_path / "out")
    files = {path.name for path in (tmp_path / "out/profiles").iterdir()}
    assert files == {"a.profile", "a+1.profile", "a-1.profile", "a-1+1.profile"}


def test_a_second_call_runs_nothing_again(tmp_path):
    given = quick(tmp_path)
    measure_co_runs(given, tmp_path / "out")
    n_started = len((tmp_path / "log").read_text())
    table = (tmp_path / "out/runs.csv").read_bytes()
    measure_co_runs(given, tmp_path / "out")
    assert len((tmp_path / "log").read_text()) == n_started
    assert (tmp_path / "out/runs.csv").read_bytes() == table


def test_a_killed_measurement_goes_on_where_it_was(tmp_path):
    given = quick(tmp_path)
    (tmp_path / "set.json").write_text(json.dumps(given))
    code = (
        "import json, sys; from foretell.corun.measuring.measure import measure_co_runs; "
        "measure_co_runs(json.load(open(sys.argv[1])), sys.argv[2])"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "set.json"), str(tmp_path / "out")]
    child = subprocess.Popen(words)
    deadline = time.monotonic() + 120
    journal = tmp_path / "out/journal"
    while not (journal.exists() and len(read_journal(journal)) >= 3):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    kept = read_journal(journal)
    done = measure_co_runs(given, tmp_path / "out")
    assert read_journal(journal)[: len(kept)] == kept
    assert done.n_ok == len(planned_runs(read_set(given)))


def test_a_program_that_fails_is_named_and_its_co_runs_are_not_made(tmp_path):
    given = quick(tmp_path, shifted=0, triples=0, pinned=0)
    given["program"]["bad"] = program("import sys; print('oh no'); sys.exit(4)")
    done = measure_co_runs(given, tmp_path / "out")
    assert "oh no" in done.failures["alone-bad-0"]
    assert done.failures["pair-a+bad-0"] == "'bad' fails alone"
    assert done.n_ok == 2 + 3


def test_what_failed_is_made_again_by_the_next_call(tmp_path):
    given = quick(tmp_path, shifted=0, triples=0, pinned=0)
    ready = tmp_path / "ready"
    given["program"]["late"] = program(
        f"import os, sys, time; time.sleep(0.6); sys.exit(not os.path.exists({str(ready)!r}))"
    )
    first = measure_co_runs(given, tmp_path / "out")
    assert first.failures
    assert len(read_co_runs(tmp_path / "out")) > first.n_ok
    ready.touch()
    second = measure_co_runs(given, tmp_path / "out")
    assert not second.failures
    assert second.n_ok == len(read_co_runs(tmp_path / "out"))


def test_a_short_program_is_sampled_finely_and_one_that_is_over_at_once_is_named(tmp_path):
    given = quick(tmp_path, pairs=3, shifted=0, triples=0, pinned=0)
    given["program"]["a"] = program("import time; time.sleep(0.2)")
    given["program"]["b"] = {"run": "true"}
    done = measure_co_runs(given, tmp_path / "out")
    assert "too short" in done.failures["alone-b-0"]
    assert done.failures["pair-a+b-0"] == "'b' fails alone"
    assert done.n_ok == 2
    assert len(read_profile(tmp_path / "out/profiles/a.profile").trace) >= 10


def test_a_program_that_fails_only_beside_another_is_named(tmp_path):
    """It takes a lock that only one process can hold."""
    lock = tmp_path / "lock"
    code = (
        f"import fcntl, time, sys; f = open('{lock}', 'a'); "
        "fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); time.sleep(1.5)"
    )
    given = {"program": {"a": program(code), "b": program("import time; time.sleep(0.6)")}, **CALM}
    done = measure_co_runs({**given, "shifted": 0, "pinned": 0}, tmp_path / "out")
    assert list(done.failures) == ["pair-a+a-0"]
    assert not (tmp_path / "out/traces/pair-a+a-0.trace").exists()


def test_a_disturbed_run_is_repeated_and_marked(tmp_path):
    """Nothing is calm enough for this limit while a stranger takes all cores."""
    strangers = [
        subprocess.Popen([sys.executable, "-c", SPIN.format(600)])
        for _ in range(2 * (os.cpu_count() or 1))
    ]
    try:
        given = {
            "program": {n: program("import time\nwhile time.process_time() < 0.5: pass")
                        for n in "ab"},
            "alone": 1, "pairs": 0, "shifted": 0, "triples": 0, "pinned": 0,
            "max_disturbed": 1e-6, "attempts": 2,
        }  # fmt: skip
        given["program"] = {
            n: {"run": f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.5: pass'"}
            for n in "ab"
        }
        done = measure_co_runs(given, tmp_path / "out")
    finally:
        for stranger in strangers:
            stranger.kill()
            stranger.wait()
    assert done.n_disturbed == 2
    assert {r["n_attempts"] for r in read_journal(tmp_path / "out/journal")} == {2}
    assert not any(run.is_usable for run in read_co_runs(tmp_path / "out"))


def test_results_of_another_set_are_never_mixed(tmp_path):
    measure_co_runs(quick(tmp_path, pairs=0, shifted=0, triples=0, pinned=0), tmp_path / "out")
    with pytest.raises(StorageError, match="never mixed"):
        measure_co_runs(quick(tmp_path, seed=3), tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"program": {"a": {"run": "true"}}}, "program: at least 2 are needed, not 1"),
        ({"program": {"a": {"run": ""}, "b": {"run": "true"}}}, "empty"),
        ({"program": {"../a": {"run": "true"}, "b": {"run": "true"}}}, "cannot be called"),
        ({"program": {"a": {"run": "echo 'x"}, "b": {"run": "true"}}}, "quotation"),
        ({"pears": 3}, "pears"),
        ({"attempts": 0}, "attempts"),
    ],
)
def test_a_set_that_is_wrong_is_refused(change, reason, tmp_path):
    with pytest.raises(UsageError, match=reason):
        read_set({**quick(tmp_path), **change})


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("alone-b-0,alone,b,1,,0,0.0,,0", "x,alone,b,1,,0,0.0,,soon", "line 3: start_s"),
        ("alone-b-0,alone,b,", "x,alone,../b,", "line 3: '../b' is not the name"),
        ("alone-b-0,alone,b,1,,0,", "x,alone,b,1,,first,", "line 3: repeat"),
        ("alone-b-0,alone", "x", "no value of"),
        ("alone-b-0,alone,b,1,,0,0.0,,0.0,2.0", "x,alone,b,1,,0,0.0,,2.0,1.0", "line 3: a job"),
        ("alone-b-0,alone,b,1,,0,0.0,,", "x,alone,b,1,,0,0.0,both,", "line 3: pin cannot"),
        ("alone-b-0,alone,b", "x,along,b", "line 3: kind cannot"),
        ("alone-b-0,alone,b", "x,shifted,b", "must have 2 lines"),
    ],
)
def test_a_damaged_table_names_its_line(old, new, reason, tmp_path):
    from .measured import record

    jobs = [record("alone", [name], [0.0], [2.0]) for name in "ab"]
    write_table(tmp_path, jobs)
    table = tmp_path / "runs.csv"
    assert len(read_co_runs(tmp_path)) == 2
    table.write_text(table.read_text().replace(old, new))
    with pytest.raises(DatasetError, match=reason):
        read_co_runs(tmp_path)


def test_a_folder_without_a_table_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="cannot be read"):
        read_co_runs(tmp_path)
