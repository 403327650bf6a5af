"""Where runs are made: on this machine, on the nodes of a cluster, or from here on many nodes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from foretell.closeable import Closeable
from foretell.errors import UsageError
from foretell.executors import Done, Executor, SerialExecutor, ThreadExecutor, WorkerDied
from foretell.executors.cluster import Cluster
from foretell.executors.distributed import DriverExecutor, RayExecutor
from foretell.machines import Needs
from foretell.measure.meters import METERS
from foretell.measure.running import nodes
from foretell.measure.running.attempt import LocalSupervisors, make_run, now
from foretell.measure.running.packed_folder import PackedFolder
from foretell.measure.running.supervisor import Measured, open_meters, sources_of
from foretell.measure.runs import Run
from foretell.measure.sweep import Sweep
from foretell.measure.workloads import Workload
from foretell.statuses import Status

_ADDRESS = "RAY_ADDRESS"
_OUT_OF_SIGHT = "the job runs on the nodes of the cluster, and meters see what runs below foretell"


@dataclass
class Place(Closeable):
    """An executor for runs, and what can be measured where it makes them.

    Attributes
    ----------
    sources, missing
        Where the numbers of each column come from, and why other meters do not work.
    nodes
        What each node of a cluster is, by its name.
    resources
        What is closed with it, after the executor.
    """

    executor: Executor
    sweep: Sweep
    workload: Workload
    sources: dict[str, str]
    missing: dict[str, str]
    nodes: dict[str, Any] = field(default_factory=dict)
    resources: ExitStack = field(default_factory=ExitStack)

    def measure(self, runs: Sequence[Run]) -> Iterator[Done]:
        """Make all these runs; yield each as it ends, with what was measured as its result."""
        self.executor.check(map(self._needs, runs))
        for done in self.executor.run(make_run, runs, needs=self._needs):
            yield self._checked(done)

    def close(self) -> None:
        """End what still runs."""
        self.executor.close()
        self.resources.close()

    def _needs(self, run: Run) -> Needs:
        return self.sweep.needs_of(run.configuration, self.workload)

    def _checked(self, done: Done) -> Done:
        """Return a run that has ended; raise what keeps all runs from being made."""
        result = done.result
        if isinstance(result, WorkerDied):
            reason = f"its node or worker was lost {done.n_lost} times, the last time: {result}"
            lost = Measured(Status.LOST, reason, n_attempts=done.n_lost, started_at=now())
            return Done(done.task, lost, "", done.n_lost)
        if isinstance(result, BaseException) and self.nodes:
            raise UsageError(f"a node of the Ray cluster cannot make {done.task}: {result}")
        if isinstance(result, BaseException):
            raise result
        return done


def open_place(sweep: Sweep, workload: Workload, on: str | None, log: logging.Logger) -> Place:
    """Open the place where the runs of a sweep are made: None is this machine."""
    if on is not None:
        return _on_cluster(sweep, workload, on, log)
    meters, missing = open_meters(sweep)
    supervisors = LocalSupervisors(sweep, workload, meters)
    place = Place(_local(supervisors), sweep, workload, sources_of(meters), missing)
    place.resources.push(supervisors)
    return place


def _local(supervisors: LocalSupervisors) -> Executor:
    if supervisors.sweep.at_once == 1:
        return SerialExecutor(supervisors)
    return ThreadExecutor(supervisors, supervisors.sweep.at_once, stop=supervisors.abort)


def _on_cluster(sweep: Sweep, workload: Workload, on: str, log: logging.Logger) -> Place:
    cluster = Cluster(on)
    try:
        packed = PackedFolder.of(workload.folder)
        found = nodes.ask_nodes(cluster, sweep, packed)
        about = {name: answer.about for name, answer in found.items()}
        if workload.is_spread:
            shared = sweep.make_workload(nodes.folder_on_all(cluster, found, packed))
            return _from_here(cluster, about, sweep, shared, log)
        state = nodes.NodeSupervisor(sweep, packed)
        executor = RayExecutor(cluster, state, sweep.at_once, log=log, name=str)
        sources = {c: source for answer in found.values() for c, source in answer.sources.items()}
        return Place(executor, sweep, workload, sources, nodes.missing_meters(found), about)
    except BaseException:
        cluster.close()
        raise


def _from_here(
    cluster: Cluster, about: dict[str, Any], sweep: Sweep, workload: Workload, log: logging.Logger
) -> Place:
    """Open the place for jobs that ask the cluster themselves for what they need.

    All are started on this machine, by processes that stay from run to run, so that what a
    launcher keeps for the next run is there.
    """
    names = METERS.names() if sweep.meters is None else sweep.meters
    unmetered = sweep.model_copy(update={"meters": [], "traces": False})
    supervisors = LocalSupervisors(unmetered, workload, [])
    executor = DriverExecutor(cluster, _local(supervisors), _failure, log=log, name=str)
    missing = {", ".join(names): _OUT_OF_SIGHT} if names else {}
    place = Place(executor, sweep, workload, {}, missing, about)
    place.resources.push(supervisors)
    _set_address(cluster.address, place.resources)
    return place


def _failure(result: Any) -> str | None:
    """Return why a run failed, if a lost node may be the cause."""
    is_failed = isinstance(result, Measured) and result.status == Status.FAILED
    return result.reason if is_failed else None


def _set_address(address: str, stack: ExitStack) -> None:
    """Tell runs where their cluster is, as long as the place is open."""
    before = os.environ.get(_ADDRESS)
    os.environ[_ADDRESS] = address
    if before is None:
        stack.callback(os.environ.pop, _ADDRESS, None)
    else:
        stack.callback(os.environ.__setitem__, _ADDRESS, before)
