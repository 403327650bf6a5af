"""The contract of meters."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping, Sequence

import psutil

from foretell.measure.meters import Meter, Setting, Tree

_JOB = "import time; block = bytearray(10_000_000); sum(range(500_000)); time.sleep(0.05)"


def check_meter(meter: type[Meter], setting: Setting | None = None) -> None:
    """Raise AssertionError, saying what was expected, unless a meter keeps its contract.

    The setting is what the meter needs to know of the sweep.

    >>> from foretell.measure.meters.cpu_time import CpuTimeMeter
    >>> check_meter(CpuTimeMeter)
    """
    name = meter.__name__
    assert meter.columns, f"{name}.columns must name what is measured"
    assert all(c.isidentifier() for c in meter.columns), f"{name}.columns must be names"
    instance = meter(setting or Setting())
    why = instance.missing()
    if why is not None:
        assert why.strip(), f"{name}.missing() must say why, and what to do"
        return
    assert instance.source().strip(), f"{name}.source() must say where numbers come from"
    for _ in range(2):  # one meter serves all runs, one after the other
        _check_run(instance)


def _check_run(meter: Meter) -> None:
    name = type(meter).__name__
    job = subprocess.Popen([sys.executable, "-c", _JOB])  # noqa: S603 - our own words
    try:
        tree = Tree(psutil.Process(job.pid), is_job=True)
        meter.start(tree)
        while tree.runner.status() != psutil.STATUS_ZOMBIE:
            meter.sample(tree)
            _check_numbers(name, "reading", meter.reading(tree), meter.trace_columns)
        found = meter.stop(tree)
    finally:
        job.kill()
        job.wait()
    _check_numbers(name, "stop", found, meter.columns)


def _check_numbers(
    meter: str, method: str, found: Mapping[str, float], columns: Sequence[str]
) -> None:
    unknown = set(found) - set(columns)
    assert not unknown, f"{meter}.{method}() must return its columns only, not {unknown}"
    for column, value in found.items():
        is_number = math.isfinite(value) and value >= 0
        assert is_number, f"{meter}: {column} must be a non-negative number, not {value}"
