"""Lanes on a Ray cluster: each run a task that asks a node for what its configuration needs."""

from __future__ import annotations

import logging
import signal
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from foretell.errors import UsageError, listing
from foretell.executors.cluster import (
    Cluster,
    Room,
    check_room,
    check_versions,
    code_digest,
    first_line,
    losses,
)
from foretell.measure.lanes import Finished, Lanes, attempt
from foretell.measure.machine import describe_machine, describe_versions
from foretell.measure.outcome import LOST, Measured
from foretell.measure.plan import Run
from foretell.measure.shipping import MOST_BYTES, MOST_FILES, Luggage
from foretell.measure.supervisor import Supervisor, open_meters, sources_of
from foretell.measure.sweep import Sweep
from foretell.measure.workloads import Workload

_POLL_S = 2.0
#: A run that was lost so often is what ends its node.
MOST_LOSSES = 4

_kept: tuple[Any, Supervisor] | None = None  # what a worker keeps for the next run of its kind


@dataclass
class _Ticket:
    run: Run
    asked: Room
    n_lost: int = 0


class RayLanes(Lanes):
    """Runs on the nodes of a cluster: one at a time, unless the sweep says otherwise.

    A run whose node is lost is made again on another one. Ray's own retries are off, so that every
    loss is known and stands in the table.

    Attributes
    ----------
    nodes
        What each node is, by its name.
    sources, missing
        Where the numbers of each column come from, and what cannot be measured on which node.
    """

    def __init__(self, sweep: Sweep, workload: Workload, on: str, log: logging.Logger) -> None:
        self._sweep, self._workload, self._log = sweep, workload, log
        self._running: dict[Any, _Ticket] = {}
        self._cluster = Cluster(on)
        try:
            import ray

            self._luggage = ray.put(Luggage.of(workload.folder))
            found: dict[str, _Survey] = self._cluster.ask_each(_survey, sweep, [self._luggage])
            _check(found)
            self._remote = ray.remote(max_retries=0)(_make)
        except BaseException:
            self._cluster.close()
            raise
        self.nodes = {name: survey.about for name, survey in found.items()}
        self.sources = {c: source for s in found.values() for c, source in s.sources.items()}
        self.missing = _missing(found)
        self._folders = {survey.folder for survey in found.values()}

    def measure(self, runs: Sequence[Run]) -> Iterator[Finished]:
        """Make the runs, as many at once as the sweep allows and the cluster has room for."""
        waiting = deque(_Ticket(run, self._asked(run)) for run in runs)
        for asked in dict.fromkeys(ticket.asked for ticket in waiting):
            check_room(asked)
        while waiting or self._running:
            while waiting and len(self._running) < self._sweep.at_once:
                self._send(waiting.popleft())
            for ticket, finished in self._ended():
                if finished is None:
                    waiting.appendleft(ticket)
                else:
                    yield finished

    def close(self) -> None:
        """End what still runs, and leave the cluster."""
        if self._running:
            import ray

            for reference in self._running:
                ray.cancel(reference, force=True)
            self._running.clear()
        self._cluster.close()

    def _asked(self, run: Run) -> Room:
        given, settings = self._sweep.needs, run.configuration
        needs = self._workload.needs(settings) if given is None else given.of(settings)
        return Room(needs.cpus, needs.gpus, needs.memory_bytes)

    def _send(self, ticket: _Ticket) -> None:
        asked = ticket.asked
        remote = self._remote.options(
            num_cpus=asked.cpus, num_gpus=asked.gpus, memory=asked.memory_bytes or None
        )
        reference = remote.remote(self._sweep, [self._luggage], asked, ticket.run)
        self._running[reference] = ticket

    def _ended(self) -> Iterator[tuple[_Ticket, Finished | None]]:
        """Wait a while for runs to end; of one that was lost and is to be made again, say None."""
        import ray

        ended, _ = ray.wait(list(self._running), timeout=_POLL_S)
        if not ended:
            for asked in {ticket.asked for ticket in self._running.values()}:
                self._cluster.still_has_room(asked)
        for reference in ended:
            ticket = self._running.pop(reference)
            try:
                finished: Finished = ray.get(reference)
            except losses() as error:
                yield ticket, self._lost(ticket, error)
            except ray.exceptions.RayTaskError as error:
                cause = error.cause or error
                raise UsageError(f"a node of the Ray cluster cannot do it: {cause}") from None
            except ray.exceptions.RayError as error:
                raise UsageError(f"the Ray cluster failed: {error}") from None
            else:
                name = self._cluster.name_of(finished.node or "")
                yield ticket, finished._replace(node=name, n_lost=ticket.n_lost)

    def _lost(self, ticket: _Ticket, error: BaseException) -> Finished | None:
        ticket.n_lost += 1
        self._log.warning("run %d was lost: %s", ticket.run.index + 1, first_line(error))
        if ticket.n_lost <= MOST_LOSSES:
            return None
        reason = f"its node or worker was lost {ticket.n_lost} times, the last time: "
        measured = Measured(LOST, reason + first_line(error))
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return Finished(ticket.run, measured, ticket.n_lost, now, 0.0, "", ticket.n_lost)


@dataclass(frozen=True)
class _Survey:
    """What a node says of itself; a complaint if it cannot do the job."""

    code: str
    about: dict[str, Any]
    sources: dict[str, str]
    missing: dict[str, str]
    folder: str
    complaint: str | None


def _survey(sweep: Sweep, luggage: list[Any]) -> _Survey:
    meters, missing = open_meters(sweep)
    about = {"machine": describe_machine(), "versions": describe_versions()}
    folder, complaint = "", None
    try:
        folder = str(_workload(sweep, luggage).folder)
    except UsageError as error:
        complaint = str(error)
    return _Survey(code_digest(), about, sources_of(meters), missing, folder, complaint)


def _check(found: Mapping[str, _Survey]) -> None:
    """Raise a UsageError if a node has another foretell, or lacks what the job needs."""
    codes = {name: {"foretell": survey.code} for name, survey in found.items()}
    check_versions({"foretell": code_digest()}, codes)
    for name, survey in found.items():
        if survey.complaint is not None:
            raise UsageError(f"node {name} of the Ray cluster: {survey.complaint}")


def _missing(found: Mapping[str, _Survey]) -> dict[str, str]:
    """Return why meters do not work; where that is so on some nodes only, on which ones."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for name, survey in found.items():
        for missing in survey.missing.items():
            lacking.setdefault(missing, []).append(name)
    return {
        meter if len(names) == len(found) else f"{meter} on {listing(names)}": why
        for (meter, why), names in lacking.items()
    }


def _workload(sweep: Sweep, luggage: list[Any]) -> Workload:
    """Make the workload on the node that this is called on."""
    import ray

    sent: Luggage = ray.get(luggage[0])
    folder = sent.unpacked()
    if folder is None:
        raise UsageError(
            f"it has no {sent.path}, and there is more in it than is sent along "
            f"({MOST_FILES} files, {MOST_BYTES >> 20} MiB). Keep the sweep in a folder of its own, "
            "or on a file system that all nodes share."
        )
    return sweep.make_workload(folder)


def _make(sweep: Sweep, luggage: list[Any], asked: Room, run: Run) -> Finished:
    """Make one run on the node that this is called on."""
    import ray

    supervisor = _supervisor(sweep, luggage, asked)
    # Ray blocks it for all it starts, but meters end by it, and so may jobs.
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        finished = attempt(supervisor, sweep, run)
        return finished._replace(node=ray.get_runtime_context().get_node_id())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if asked.gpus:
            _drop()  # the next run may be given others


def _supervisor(sweep: Sweep, luggage: list[Any], asked: Room) -> Supervisor:
    """Return the supervisor of the run before, if it is of the same kind, or a new one."""
    global _kept
    key = (sweep.fingerprint(), luggage[0].hex(), asked)
    if _kept is None or _kept[0] != key:
        _drop()
        workload = _workload(sweep, luggage)
        _kept = (key, Supervisor(sweep, workload, open_meters(sweep)[0]))
    return _kept[1]


def _drop() -> None:
    global _kept
    if _kept is not None:
        _kept[1].close()
        _kept = None
