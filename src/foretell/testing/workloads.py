"""The contract of workloads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foretell.measure.running.supervisor import Supervisor
from foretell.measure.sweep import Sweep, reserved_names
from foretell.measure.workloads import Needs, Options
from foretell.statuses import Status


def check_workload(
    table: Mapping[str, Any], configuration: Mapping[str, Any], folder: Path | str = "."
) -> None:
    """Raise AssertionError, saying what was expected, unless a workload keeps its contract.

    Parameters
    ----------
    table
        The ``[workload]`` table of a sweep; ``use`` names the workload.
    configuration
        The parameters of a run that goes well in seconds.
    folder
        Where modules of the workload's own may lie.

    Examples
    --------
    >>> check_workload({"use": "command", "run": "sleep {seconds}"}, {"seconds": 0.01})
    """
    sweep = Sweep(workload=dict(table), parameters=dict(configuration), meters=[])
    workload = sweep.make_workload(Path(folder).resolve())
    kind = type(workload)
    assert issubclass(kind.options_class, Options), f"{kind.__name__}.options_class must be Options"
    derived = workload.derived(configuration)
    taken = {*configuration, *reserved_names()} & set(derived)
    assert not taken, f"derived() must not return {taken}: other columns have these names"
    needs = workload.needs(configuration)
    assert isinstance(needs, Needs), "needs() must return Needs"
    supervisor = Supervisor(sweep, workload, [])
    try:
        for _ in range(2):  # a run must leave room for the next
            measured = supervisor.measure({**configuration, **derived})
            assert measured.status == Status.OK, f"the run must succeed: {measured.reason}"
            assert measured.values["wall_time_s"] > 0, "a run must take some time"
            for name, value in measured.values.items():
                is_number = isinstance(value, int | float) and math.isfinite(value)
                assert is_number or isinstance(value, str), f"{name} must be a number or a text"
    finally:
        supervisor.close()
