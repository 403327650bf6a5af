"""Describes where runs are measured: the machine, and the versions of what runs there."""

from __future__ import annotations

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
        "n_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
    }


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
