"""What the kernel counts of a machine: read as it is written, whatever the version."""

import math
import os

import pytest

from foretell.corun.running import whole_machine
from foretell.corun.running.whole_machine import (
    kernel_times,
    machine_times,
    network_bytes,
    pressures,
    throttled_s,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("usage_usec 5\nnr_throttled 3\nthrottled_usec 2500000\n", 2.5),
        ("nr_periods 0\nnr_throttled 2\nthrottled_time 1500000000\n", 1.5),
        ("nr_periods 0\n", 0.0),
        ("what is this\n", 0.0),
    ],
)
def test_time_that_a_limit_held_processes_back(text, expected, tmp_path):
    (tmp_path / "cpu.stat").write_text(text)
    assert throttled_s(tmp_path / "cpu.stat") == expected
    assert throttled_s(tmp_path / "none") == 0.0


def test_times_of_the_machine_only_grow():
    first, second = machine_times(), machine_times()
    assert first.keys() == second.keys()
    assert all(second[name] >= first[name] for name in first if not math.isnan(first[name]))


def test_threads_of_the_kernel_are_told_from_processes(tmp_path):
    for pid, flags in ((7, 0x00208040), (8, 0x00400100)):
        fields = ["S", 2, 0, 0, 0, -1, flags, *[0] * 4, 30, 20, *[0] * 30]
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) {' '.join(map(str, fields))}")
    (tmp_path / "9").mkdir()  # it has just ended
    ticks = os.sysconf("SC_CLK_TCK")
    assert kernel_times(tmp_path) == {7: 50 / ticks}
    assert os.getpid() not in kernel_times()


def test_the_busiest_disk_is_the_busiest_of_this_run(monkeypatch):
    """Another one may have been busier before."""
    busy = {"sda": 90_000_000, "sdb": 1_000}
    monkeypatch.setattr(whole_machine, "_BUSY_BEFORE", {})
    monkeypatch.setattr(whole_machine, "_disks", lambda: frozenset(busy))
    monkeypatch.setattr(
        whole_machine,
        "_content",
        lambda path: "\n".join(f"8 0 {n} {'0 ' * 9}{ms} 0" for n, ms in busy.items()).encode(),
    )
    before = whole_machine._disk_times()["disk_busy_s"]
    busy["sdb"] += 700
    assert whole_machine._disk_times()["disk_busy_s"] - before == pytest.approx(0.7)


def test_volumes_made_of_other_disks_count_once(tmp_path):
    for name in ("dm-0", "sda"):
        (tmp_path / name / "slaves").mkdir(parents=True)
    (tmp_path / "dm-0/slaves/sda").symlink_to(tmp_path / "sda")
    assert whole_machine._has_slaves(tmp_path / "dm-0")
    assert not whole_machine._has_slaves(tmp_path / "sda")
    assert not whole_machine._has_slaves(tmp_path / "sdb")


NETWORKS = """Inter-|   Receive                    |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes packets
    lo:  500  1 0 0 0 0 0 0   500  1 0 0 0 0 0 0
  eth0: 7000  9 0 0 0 0 0 0   200  4 0 0 0 0 0 0
  eth1:   30  1 0 0 0 0 0 0     4  1 0 0 0 0 0 0
"""


def test_bytes_of_networks_are_those_that_leave_the_machine(tmp_path):
    assert math.isnan(network_bytes(tmp_path))
    (tmp_path / "net").mkdir()
    (tmp_path / "net/dev").write_text(NETWORKS)
    assert network_bytes(tmp_path) == 7234
    (tmp_path / "net/dev").write_text("a\nb\neth0: what\n")
    assert math.isnan(network_bytes(tmp_path))


def test_a_file_that_the_kernel_gives_in_parts_is_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(whole_machine, "_MOST_BYTES", 16)
    (tmp_path / "net").mkdir()
    (tmp_path / "net/dev").write_text(NETWORKS)
    assert network_bytes(tmp_path) == 7234


def test_pressure_is_that_of_some_process_where_the_kernel_tells(tmp_path):
    (tmp_path / "pressure").mkdir()
    written = "some avg10=1.5 avg60=0.2 avg300=0.0 total=2500000\nfull avg10=0.0 total=9\n"
    (tmp_path / "pressure/cpu").write_text(written)
    (tmp_path / "pressure/io").write_text("")
    found = pressures(tmp_path)
    assert found["cpu_pressure_s"] == 2.5
    assert math.isnan(found["io_pressure_s"]) and math.isnan(found["memory_pressure_s"])
