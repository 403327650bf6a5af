"""One run with its warm-ups and retries: the work that every executor does for a sweep."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from threading import Lock
from typing import Protocol

from foretell.closeable import Closeable
from foretell.measure.meters import Meter
from foretell.measure.running.supervisor import AbortedError, Measured, Supervisor, open_meters
from foretell.measure.runs import Run
from foretell.measure.sweep import Sweep
from foretell.measure.workloads import Workload
from foretell.statuses import Status


class Supervisors(Protocol):
    """The shared state of workers: it provides supervisors, which make runs."""

    sweep: Sweep

    def supervisor(self, run: Run) -> AbstractContextManager[Supervisor]:
        """Provide a supervisor for one run."""


def make_run(state: Supervisors, run: Run) -> Measured:
    """Make a run: warm up, measure, and try again where that may help."""
    sweep, configuration = state.sweep, run.configuration
    with state.supervisor(run) as supervisor:
        began = time.monotonic()
        for _ in range(sweep.warm_up):
            if supervisor.measure(configuration).status != Status.OK:
                break  # the run itself will show why
        for n_attempts in range(1, sweep.retries + 2):
            started_at = now()
            measured = supervisor.measure(configuration)
            measured.n_attempts, measured.started_at = n_attempts, started_at
            if not _may_improve(measured, sweep):
                break
        measured.spent_s = round(time.monotonic() - began, 3)
        return measured


def now() -> str:
    """Return the time of day as tables have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _may_improve(measured: Measured, sweep: Sweep) -> bool:
    """Whether another attempt may do better; a run that took too long would do so again."""
    if measured.status == Status.OK and sweep.most_other_load is not None:
        return bool(measured.values.get("other_load", 0.0) > sweep.most_other_load)
    return measured.status not in {Status.OK, Status.TIMED_OUT}


class LocalSupervisors(Closeable):
    """Supervisors on this machine, one for each run that is made at the same time."""

    def __init__(self, sweep: Sweep, workload: Workload, meters: Sequence[Meter]) -> None:
        self.sweep = sweep
        self._workload = workload
        self._lock = Lock()
        self._all = [Supervisor(sweep, workload, meters)]
        self._free = list(self._all)
        self._is_aborted = False

    @contextmanager
    def supervisor(self, run: Run) -> Iterator[Supervisor]:
        """Provide a free supervisor, or a new one; on this machine, needs are not reserved."""
        with self._lock:
            if self._is_aborted:
                raise AbortedError
            if not self._free:
                meters, _ = open_meters(self.sweep)
                self._free.append(Supervisor(self.sweep, self._workload, meters))
                self._all += self._free
            supervisor = self._free.pop()
        try:
            yield supervisor
        finally:
            with self._lock:
                self._free.append(supervisor)

    def abort(self) -> None:
        """End the runs that other threads make, and make no more."""
        with self._lock:
            self._is_aborted = True
            for supervisor in self._all:
                supervisor.abort()

    def close(self) -> None:
        """End every process."""
        for supervisor in self._all:
            supervisor.close()
