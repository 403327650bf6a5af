"""Meters on jobs whose consumption is known: whole trees of processes, and honest joules."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from foretell.measure.meters import METERS, Setting, Tree
from foretell.measure.meters.counters import CountersMeter
from foretell.measure.meters.energy import EnergyMeter
from foretell.measure.sweep import Power

from ..conftest import command, python, script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

MIB = 2**20
BUSY = "import time; end = time.process_time() + {}\nwhile time.process_time() < end: pass"


def family(inner, n=2):
    """Return a job whose children do the work, side by side."""
    return script(
        f"""
        import subprocess, sys
        children = [subprocess.Popen([sys.executable, "-c", {inner!r}]) for _ in range({n})]
        sys.exit(sum(child.wait() for child in children))
        """
    )


def test_cpu_time_is_that_of_the_whole_tree(measured):
    table = measured(command(*family(BUSY.format(0.4))), {"n": [1]}, meters=["cpu_time"])
    assert 0.7 < table["cpu_time_s"][0] < 2.0


def test_cpu_time_of_one_run_does_not_count_in_the_next(measured):
    words = script(BUSY.format("0.3 * int(sys.argv[1])").replace("import", "import sys,", 1))
    table = measured(
        command(*words, "{n}"), {"n": [3, 0]}, meters=["cpu_time"], order="written"
    ).set_index("n")
    assert table["cpu_time_s"][3] > 0.8  # the kernel counts in steps of 10 ms
    assert table["cpu_time_s"][0] < 0.5


def test_peak_memory_is_the_sum_over_processes_that_live_at_once(measured):
    hold = f"import time; block = bytearray(80 * {MIB}); time.sleep(0.6)"
    table = measured(command(*family(hold)), {"n": [1]}, meters=["memory"])
    assert 160 * MIB < table["peak_memory_bytes"][0] < 320 * MIB


def test_peak_memory_of_a_job_too_short_to_sample_is_what_the_kernel_knows(measured):
    words = script(f"bytearray(150 * {MIB})")
    table = measured(command(*words), {"n": [1]}, meters=["memory"])
    assert 150 * MIB < table["peak_memory_bytes"][0] < 250 * MIB


def test_memory_of_a_function_is_that_of_its_own_process(measured, folder):
    (folder / "big.py").write_text(
        f"import time\ndef hold(n):\n    block = bytearray(n * {MIB})\n    time.sleep(0.2)\n"
    )
    table = measured(
        {"use": "python", "call": "big:hold"}, {"n": [1, 200]}, meters=["memory"]
    ).set_index("n")
    grown = table["peak_memory_bytes"][200] - table["peak_memory_bytes"][1]
    assert 180 * MIB < grown < 220 * MIB


def test_bytes_written_are_those_of_the_tree(measured, folder):
    write = (
        f"import os; f = open('{folder}/' + str(os.getpid()), 'wb'); "
        f"f.write(bytes({4 * MIB})); f.flush(); os.fsync(f.fileno())"
    )
    if METERS.get("disk")(Setting()).missing():
        pytest.skip("the kernel keeps no account here")
    table = measured(command(*family(write)), {"n": [1]}, meters=["disk"])
    assert 8 * MIB <= table["written_bytes"][0] < 12 * MIB


def test_runs_beside_other_load_are_marked_and_others_are_not(measured):
    cores = sorted(os.sched_getaffinity(0))
    nap = script("import time; time.sleep(0.7)")
    others = [subprocess.Popen(script("while True: pass")) for _ in cores]
    try:
        loaded = measured(command(*nap), {"n": [1]}, meters=["load"])
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert loaded["is_shared"].tolist() == ["yes"]
    assert loaded["other_load"][0] > 0.5


def test_the_load_of_the_job_itself_is_not_that_of_others():
    meter = METERS.get("load")(Setting())
    busy = subprocess.Popen(script(BUSY.format(0.5)))
    tree = Tree(psutil.Process(busy.pid), is_job=True)
    started_s = time.monotonic()
    before = psutil.cpu_times()
    meter.start(tree)
    while psutil.Process(busy.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    others = meter.stop(tree)["other_load"]
    wall_s = time.monotonic() - started_s
    after = psutil.cpu_times()
    busy.wait()
    everybody = (sum(after[:8]) - after.idle - after.iowait) - (
        sum(before[:8]) - before.idle - before.iowait
    )
    assert others * wall_s < everybody - 0.25  # the half second of the job is not among it


# Energy


def counter(folder, microjoules, name="package-0"):
    """A processor's energy counter as the kernel shows it."""
    domain = folder / "intel-rapl" / "subsystem" / "intel-rapl:0"
    domain.mkdir(parents=True, exist_ok=True)
    (domain / "name").write_text(f"{name}\n")
    (domain / "energy_uj").write_text(f"{microjoules}\n")
    (domain / "max_energy_range_uj").write_text("262143328850\n")
    return domain.parent


@pytest.fixture
def tree():
    return Tree(psutil.Process(), is_job=True)


def test_joules_of_the_counters_are_measured_and_named_so(tmp_path, tree):
    pytest.importorskip("codecarbon")
    rapl = counter(tmp_path, 5_000_000)
    meter = EnergyMeter(Setting(Power(idle_w=10, busy_w=100)), rapl)
    assert meter.missing() is None
    assert meter.source().startswith("measured: RAPL")
    meter.start(tree)
    counter(tmp_path, 47_000_000)
    assert meter.stop(tree) == {"energy_j": pytest.approx(42.0)}


def test_a_counter_that_starts_again_from_zero_gives_no_negative_joules(tmp_path, tree):
    pytest.importorskip("codecarbon")
    rapl = counter(tmp_path, 262_143_000_000)
    meter = EnergyMeter(Setting(), rapl)
    meter.start(tree)
    counter(tmp_path, 1_000_000)
    assert meter.stop(tree).get("energy_j", 0.0) >= 0


def test_joules_from_given_watts_are_estimated_and_named_so(measured):
    busy = script(BUSY.format(1.0))
    n_cores = psutil.cpu_count()
    table = measured(
        command(*busy), {"n": [1]}, meters=["energy", "cpu_time"],
        power={"idle_w": 10, "busy_w": 10 + 20 * n_cores},
    )  # fmt: skip
    if "energy_j" in table:
        pytest.skip("this machine measures its energy")
    expected = 10 * table["wall_time_s"][0] + 20 * table["cpu_time_s"][0]
    assert table["energy_estimated_j"][0] == pytest.approx(expected, rel=0.15)


def test_without_counters_and_figures_there_is_no_column_and_a_word_what_to_do(tmp_path):
    meter = EnergyMeter(Setting(), tmp_path / "nowhere")
    why = meter.missing()
    if why is None:  # the processor is in the table of rated powers
        assert meter.source().startswith("estimated: ")
    else:
        assert "idle_w" in why
        assert "foretell[energy]" in why


def test_without_the_inner_parts_of_codecarbon_that_are_used_there_are_no_joules_and_no_crash(
    monkeypatch, tmp_path
):
    cpu = pytest.importorskip("codecarbon.core.cpu")
    assert hasattr(cpu.TDP, "_get_cpu_power_from_registry"), "the installed version must have it"
    monkeypatch.delattr(cpu.TDP, "_get_cpu_power_from_registry")
    monkeypatch.delattr(cpu, "is_rapl_available")
    meter = EnergyMeter(Setting(), counter(tmp_path, 5_000_000))
    assert "idle_w" in meter.missing()
    given = EnergyMeter(Setting(Power(idle_w=10, busy_w=100)), counter(tmp_path, 5_000_000))
    assert given.source().startswith("estimated: 10 W idle to 100 W")


# Counters


def test_counters_count_the_job_and_its_children(measured):
    why = CountersMeter(Setting()).missing()
    if why is not None:
        pytest.skip(why)
    touch = f"b = bytearray(16 * {MIB})\nfor i in range(0, len(b), 4096): b[i] = 1"
    table = measured(command(*family(touch, 2)), {"n": [1]}, meters=["counters"])
    if "n_page_faults" in table:
        assert table["n_page_faults"][0] > 4096  # each page of both, on first touch
    if "n_instructions" in table:
        assert table["n_instructions"][0] > 1e6


def test_a_meter_that_does_not_exist_is_told_with_the_nearest_one(measured):
    from foretell.errors import UsageError

    with pytest.raises(UsageError, match=r"unknown meter 'enrgy'. Did you mean 'energy'"):
        measured(python("quick"), {"n": [1]}, meters=["enrgy"])


@pytest.mark.parametrize("name", METERS.names())
def test_every_meter_measures_its_columns_or_says_what_is_missing(name, measured, folder):
    meter = METERS.get(name)(Setting())
    why = meter.missing()
    table = measured(command("sleep", "0.1"), {"n": [1]}, meters=[name])
    found = set(meter.columns) & set(table.columns)
    assert bool(found) == (why is None)
    assert why is None or why in (folder / "runs.log").read_text()
