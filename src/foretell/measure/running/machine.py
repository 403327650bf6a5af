"""Describes where runs are measured: the machine, and the versions of what runs there."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import re
from pathlib import Path
from typing import Any

import psutil

from foretell._version import __version__, library_versions

_LIBRARIES = ("numpy", "pandas", "psutil", "ray", "torch", "codecarbon")


def describe_machine() -> dict[str, Any]:
    """Return the processor, its cores, memory and kernel."""
    return {
        "cpu": _cpu_model(),
        "n_cores": psutil.cpu_count(logical=False) or psutil.cpu_count(),
        "n_threads": psutil.cpu_count(),
        "n_usable": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
    }


def usable_cores() -> int | None:
    """Return how many cores this process may use, by what it is pinned to and by limits."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    n_cores = len(os.sched_getaffinity(0))
    limit = core_limit()
    return n_cores if limit is None else max(1, min(n_cores, math.ceil(limit)))


def core_limit(
    own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> float | None:
    """Return how many cores' worth of CPU time containers let a process use; None for no limit.

    The least limit of its control group and all above it counts, in version 1 or 2.

    Parameters
    ----------
    own
        The file in which the kernel names the groups of the process.
    root
        Where the groups are.
    """
    found = []
    with contextlib.suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            # In a container the root is its own group, and places may lie outside of it.
            top = root / "cpu" if controllers else root
            steps = [step for step in place.split("/") if step not in ("", "..")]
            groups = [top.joinpath(*steps[:n]) for n in range(len(steps) + 1)]
            found += [limit for group in groups if (limit := _limit_of(group)) is not None]
    return min(found, default=None)


def _limit_of(group: Path) -> float | None:
    """Return the limit of one control group."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError):
        quota, period = ((group / f"cpu.cfs_{n}_us").read_text() for n in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else None
    return None


def describe_versions() -> dict[str, str]:
    """Return the versions of Python, of foretell and of the libraries that runs may use."""
    own = {"python": platform.python_version(), "foretell": __version__}
    return own | library_versions(_LIBRARIES)


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown"
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1).strip() if found else platform.processor() or "unknown"
