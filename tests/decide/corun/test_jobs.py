"""Needs of jobs, as they are on other machines."""

import pytest

from foretell.decide.corun.jobs import CPU, DISK, Phase


def test_all_work_is_there_on_a_machine_with_fewer_and_slower_cores():
    phase = Phase(10.0, {CPU: 8.0, DISK: 0.4}, 8.0, wakes=100.0)
    few = phase.on_cores(2, 0.5)
    assert few.seconds == pytest.approx(10.0 * 4 / 0.5)
    assert few.needs == pytest.approx({CPU: 2.0, DISK: 0.1})
    assert few.wakes == pytest.approx(100.0 * 0.5 / 4)  # as many, in more time
    assert phase.on_cores(16, 1.0) == phase
