"""What the kernel counts of a machine and of trees: read as it is written, whatever the version."""

import pytest

from foretell.corun.running.tree import machine_times, throttled_s


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
    assert all(second[name] >= first[name] for name in first)
