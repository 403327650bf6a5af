"""How many cores other programs use while something is measured, and other machines of the host."""

from __future__ import annotations

import contextlib
import threading
import time
from types import TracebackType

import psutil


class CoresOfOthers:
    """Watches the processor: all that is not used by this process and its descendants.

    ``stolen`` are the cores that this machine, if it is a virtual one, wanted and did not get.
    Processes of Ray end without leaving their CPU time to their parent, so that they are looked at
    while they run.

    >>> with CoresOfOthers() as others:
    ...     pass
    >>> others.cores >= 0
    True
    """

    def __init__(self, period_s: float = 0.5) -> None:
        self.cores, self.stolen, self._period_s = 0.0, 0.0, period_s
        self._own_s: dict[tuple[int, float], float] = {}
        self._ended = threading.Event()

    def __enter__(self) -> CoresOfOthers:
        self._before, self._begun_s, self._busy_s = self._used(), time.monotonic(), _busy_s()
        self._stolen_s = _stolen_s()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._own_s |= self._used()
        own_s = sum(used - self._before.get(key, 0.0) for key, used in self._own_s.items())
        passed_s = max(time.monotonic() - self._begun_s, 1e-3)
        self.cores = max(0.0, _busy_s() - self._busy_s - own_s) / passed_s
        self.stolen = (_stolen_s() - self._stolen_s) / passed_s

    def _watch(self) -> None:
        while not self._ended.wait(self._period_s):
            self._own_s |= self._used()

    def _used(self) -> dict[tuple[int, float], float]:
        """Return the CPU time of this process and its descendants, by process."""
        found = {}
        for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                found[process.pid, process.create_time()] = times.user + times.system
        return found


def _busy_s() -> float:
    """Return the CPU time of all processes so far."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _stolen_s() -> float:
    """Return the time for which a host had other work; 0 where it does not tell."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))
