"""Lanes: where runs go, one or several at once, with warm-ups and retries."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from itertools import islice
from queue import SimpleQueue
from typing import NamedTuple

from foretell.closeable import Closeable
from foretell.measure.meters import Meter
from foretell.measure.outcome import OK, TIMED_OUT, Measured
from foretell.measure.plan import Run
from foretell.measure.supervisor import Supervisor, open_meters
from foretell.measure.sweep import Sweep
from foretell.measure.workloads import Workload


class Finished(NamedTuple):
    """A run, what came of it, after how many attempts, and when the last of them began.

    ``spent_s`` is the time of all attempts and of warming up. On a cluster also: the node it ran
    on, and how often it was lost together with a node.
    """

    run: Run
    measured: Measured
    n_attempts: int
    started_at: str
    spent_s: float
    node: str | None = None
    n_lost: int = 0


class Lanes(Closeable):
    """Makes runs somewhere, and yields each as it ends."""

    @abstractmethod
    def measure(self, runs: Sequence[Run]) -> Iterator[Finished]:
        """Make all these runs."""

    @abstractmethod
    def close(self) -> None:
        """End what still runs."""


def attempt(supervisor: Supervisor, sweep: Sweep, run: Run) -> Finished:
    """Make a run on a supervisor: warm up, measure, and try again where that may help."""
    began = time.monotonic()
    for _ in range(sweep.warm_up):
        if supervisor.measure(run.configuration).status != OK:
            break  # the run itself will tell
    n_attempts = 0
    while True:
        n_attempts += 1
        started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        measured = supervisor.measure(run.configuration)
        if not _may_improve(measured, sweep) or n_attempts > sweep.retries:
            spent_s = round(time.monotonic() - began, 3)
            return Finished(run, measured, n_attempts, started_at, spent_s)


def _may_improve(measured: Measured, sweep: Sweep) -> bool:
    """Whether another attempt may do better; a run that took too long would do so again."""
    if measured.status == OK and sweep.most_other_load is not None:
        return bool(measured.values.get("other_load", 0.0) > sweep.most_other_load)
    return measured.status not in {OK, TIMED_OUT}


class LocalLanes(Lanes):
    """Runs on this machine: one at a time, unless the sweep says otherwise."""

    def __init__(self, sweep: Sweep, workload: Workload, meters: Sequence[Meter]) -> None:
        self._sweep = sweep
        self._workload = workload
        self._supervisors = [Supervisor(sweep, workload, meters)]

    def measure(self, runs: Sequence[Run]) -> Iterator[Finished]:
        """Make the runs in order; with several lanes, each takes the next one waiting."""
        while len(self._supervisors) < min(self._sweep.at_once, len(runs)):
            meters, _ = open_meters(self._sweep)
            self._supervisors.append(Supervisor(self._sweep, self._workload, meters))
        if len(self._supervisors) == 1:
            for run in runs:
                yield attempt(self._supervisors[0], self._sweep, run)
            return
        yield from self._several(runs)

    def _several(self, runs: Sequence[Run]) -> Iterator[Finished]:
        free: SimpleQueue[Supervisor] = SimpleQueue()
        for supervisor in self._supervisors:
            free.put(supervisor)

        def work(run: Run) -> Finished:
            supervisor = free.get()
            try:
                return attempt(supervisor, self._sweep, run)
            finally:
                free.put(supervisor)

        waiting = iter(runs)
        with ThreadPoolExecutor(len(self._supervisors)) as pool:
            pending: set[Future[Finished]] = {
                pool.submit(work, run) for run in islice(waiting, len(self._supervisors))
            }
            try:
                while pending:
                    ended, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in ended:
                        yield future.result()
                        pending |= {pool.submit(work, run) for run in islice(waiting, 1)}
            except BaseException:  # Ctrl-C among it: the pool would wait for runs to end
                for supervisor in self._supervisors:
                    supervisor.abort()
                raise

    def close(self) -> None:
        """End every runner."""
        for supervisor in self._supervisors:
            supervisor.close()
