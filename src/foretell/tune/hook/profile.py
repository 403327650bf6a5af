"""The profile of an epoch: what the kernel counts of this process, per second; counters only.

PipeTune reads events of the processor. Where they cannot be read, as in most containers, the
kernel's own counts take their place; profiles of the two kinds have different names of counters.
"""

from __future__ import annotations

import contextlib
import resource
import time

import psutil

from foretell.measure.meters import Setting, Tree
from foretell.measure.meters.counters import CountersMeter


class Profiler:
    """Counts from ``start`` to ``stop``: events of the processor, or the kernel's counts."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        meter = CountersMeter(Setting())
        # Without events of the processor, `perf` tells nothing that the kernel does not.
        has_events = meter.missing() is None and "instructions" in meter.source()
        self._meter = meter if has_events else None
        self._tree = Tree(self._process, is_job=True)

    @property
    def source(self) -> str:
        """Where counters come from."""
        return self._meter.source() if self._meter else "measured: counts of the kernel"

    def start(self) -> None:
        """Begin to count."""
        if self._meter is not None:
            self._meter.start(self._tree)
        self._before, self._begun_s = self._counts(), time.perf_counter()

    def stop(self) -> dict[str, float]:
        """Return counts per second, and the memory in use."""
        wall_s = max(time.perf_counter() - self._begun_s, 1e-6)
        after = self._counts()
        found = {name: max(0.0, after[name] - self._before[name]) / wall_s for name in after}
        found["resident_bytes"] = float(self._process.memory_info().rss)
        if self._meter is not None:
            found |= {name: n / wall_s for name, n in self._meter.stop(self._tree).items()}
        return found

    def _counts(self) -> dict[str, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        found = {
            "user_s": used.ru_utime,
            "system_s": used.ru_stime,
            "minor_faults": float(used.ru_minflt),
            "major_faults": float(used.ru_majflt),
            "voluntary_switches": float(used.ru_nvcsw),
            "involuntary_switches": float(used.ru_nivcsw),
        }
        with contextlib.suppress(psutil.Error, AttributeError, NotImplementedError):
            io = self._process.io_counters()
            found |= {"read_bytes": float(io.read_bytes), "write_bytes": float(io.write_bytes)}
        return found
