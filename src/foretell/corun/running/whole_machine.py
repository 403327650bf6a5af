"""The whole machine as its kernel counts it: CPU time, disks, network, and pressure; by /proc.

Only the standard library is used: the process that watches jobs must itself cost little.
"""

from __future__ import annotations

import contextlib
import math
import os
from functools import cache
from pathlib import Path

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
#: Seconds in which some process waited for a resource, by its file in /proc/pressure (PSI).
PRESSURES = {"cpu": "cpu_pressure_s", "io": "io_pressure_s", "memory": "memory_pressure_s"}


#: The flag of a thread of the kernel, in the ninth field of its ``stat``.
_IS_KERNEL_THREAD = 0x00200000

_OPEN: dict[str, int] = {}
_MOST_BYTES = 1 << 16  # at a time; the kernel may give less


def _content(path: str) -> bytes:
    """Read a file of the kernel, which stays open: opening it takes longer than reading it."""
    if path not in _OPEN:
        _OPEN[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    parts, n_read = [], 0
    while part := os.pread(_OPEN[path], _MOST_BYTES, n_read):
        parts.append(part)
        n_read += len(part)
    return b"".join(parts)


def machine_times() -> dict[str, float]:
    """Return what the whole machine has done so far; NaN where its kernel does not tell."""
    first = _content("/proc/stat").partition(b"\n")[0]
    user, nice, system, _, _, irq, soft, steal = map(int, first.split()[1:9])
    busy = (user + nice + system + irq + soft) * _TICK_S
    throttled = {"throttled_s": throttled_s(_cpu_statistics())}
    of_cpus = {"busy_s": busy, "steal_s": steal * _TICK_S, **throttled}
    return {**of_cpus, **_disk_times(), "network_bytes": network_bytes(), **pressures()}


def kernel_times(proc: Path = Path("/proc")) -> dict[int, float]:
    """Return the CPU time of each thread of the kernel so far, by its number.

    They write to disks for processes, and count as part of none. A container may see none of them.
    """
    found = {}
    for name in filter(str.isdigit, os.listdir(proc)):  # noqa: PTH208
        with contextlib.suppress(OSError):
            fields = Path(proc, name, "stat").read_bytes().rpartition(b") ")[2].split()
            if int(fields[6]) & _IS_KERNEL_THREAD:
                found[int(name)] = (int(fields[11]) + int(fields[12])) * _TICK_S
    return found


@cache
def _cpu_statistics() -> Path | None:
    """Return the file in which the control group of this process counts its limits, if any."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            if controllers == "" or "cpu" in controllers.split(","):
                root = "/sys/fs/cgroup" if controllers == "" else "/sys/fs/cgroup/cpu"
                for folder in (f"{root}{place}", root):
                    file = Path(folder, "cpu.stat")
                    if file.exists() and "throttled" in file.read_text():
                        return file
    return None


def throttled_s(file: Path | None) -> float:
    """Return how long a limit on CPU time has held processes back so far."""
    if file is None:
        return 0.0
    with contextlib.suppress(OSError, ValueError):
        found = dict(line.split() for line in _content(str(file)).splitlines())
        if b"throttled_usec" in found:  # version 2
            return int(found[b"throttled_usec"]) * 1e-6
        return int(found.get(b"throttled_time", 0)) * 1e-9
    return 0.0


@cache
def _disks() -> frozenset[str]:
    """Return the names of whole disks; not of volumes that are parts or sums of other disks."""
    try:
        names = os.listdir("/sys/block")  # noqa: PTH208
    except OSError:
        return frozenset()
    own = (name for name in names if not name.startswith(("loop", "ram")))
    return frozenset(name for name in own if not _has_slaves(Path("/sys/block", name)))


def _has_slaves(disk: Path) -> bool:
    try:
        return any((disk / "slaves").iterdir())
    except OSError:
        return False


#: By disk, the milliseconds with requests before this process first looked.
_BUSY_BEFORE: dict[str, int] = {}


def _disk_times() -> dict[str, float]:
    """Return the time that the busiest disk had requests, and the bytes of all of them.

    The busiest since this process first looked: another one may have been busier before.
    """
    busy_ms, n_bytes = 0, 0
    with contextlib.suppress(OSError):
        for fields in map(bytes.split, _content("/proc/diskstats").splitlines()):
            name = fields[2].decode()
            if name in _disks():
                own_ms = int(fields[12])
                busy_ms = max(busy_ms, own_ms - _BUSY_BEFORE.setdefault(name, own_ms))
                n_bytes += 512 * (int(fields[5]) + int(fields[9]))
    return {"disk_busy_s": busy_ms / 1e3, "disk_bytes": float(n_bytes)}


def network_bytes(proc: Path = Path("/proc")) -> float:
    """Return the bytes that all networks received and sent; NaN if that cannot be read.

    The kernel does not count them by process. Those that never leave the machine are left out.
    """
    total = 0
    try:
        lines = _content(f"{proc}/net/dev").splitlines()[2:]
        for name, _, counts in (line.partition(b":") for line in lines):
            fields = counts.split()
            total += 0 if name.strip() == b"lo" else int(fields[0]) + int(fields[8])
    except (OSError, ValueError, IndexError):
        return math.nan
    return float(total)


def pressures(proc: Path = Path("/proc")) -> dict[str, float]:
    """Return how long some process has waited for CPU time, disks and memory; NaN if not told."""
    found = {}
    for name, column in PRESSURES.items():
        found[column] = math.nan
        with contextlib.suppress(OSError, ValueError, IndexError):
            some = _content(f"{proc}/pressure/{name}").splitlines()[0]
            found[column] = int(some.rpartition(b"total=")[2]) * 1e-6
    return found
