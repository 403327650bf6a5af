"""The nodes of a cluster, as a sweep sees them: what they are, and how a run is made on one."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from foretell.closeable import Closeable
from foretell.errors import UsageError, listing
from foretell.executors.cluster import Cluster, check_versions, foretell_version
from foretell.machines import Needs
from foretell.measure.running.machine import describe_machine, describe_versions
from foretell.measure.running.packed_folder import MOST_BYTES, MOST_FILES, PackedFolder
from foretell.measure.running.supervisor import Supervisor, open_meters, sources_of
from foretell.measure.runs import Run
from foretell.measure.sweep import Sweep
from foretell.measure.workloads import Workload


@dataclass(frozen=True)
class NodeAnswer:
    """What one node answers before the first run.

    Attributes
    ----------
    sources, missing
        Where the numbers of each column come from, and why other meters do not work there.
    folder
        Where the folder of the sweep is.
    complaint
        Why the node cannot do the job, if it cannot.
    """

    version: str
    about: dict[str, Any]
    sources: dict[str, str]
    missing: dict[str, str]
    folder: str
    complaint: str | None


def ask_nodes(cluster: Cluster, sweep: Sweep, packed: PackedFolder) -> dict[str, NodeAnswer]:
    """Ask every node, by its name; raise a UsageError if one cannot do the job."""
    found: dict[str, NodeAnswer] = cluster.ask_each(_answer, sweep, packed)
    versions = {name: {"foretell": answer.version} for name, answer in found.items()}
    check_versions({"foretell": foretell_version()}, versions)
    for name, answer in found.items():
        if answer.complaint is not None:
            raise UsageError(f"node {name} of the Ray cluster: {answer.complaint}")
    return found


def _answer(sweep: Sweep, packed: PackedFolder) -> NodeAnswer:
    meters, missing = open_meters(sweep)
    about = {"machine": describe_machine(), "versions": describe_versions()}
    folder, complaint = "", None
    try:
        folder = str(_workload(sweep, packed).folder)
    except UsageError as error:
        complaint = str(error)
    return NodeAnswer(foretell_version(), about, sources_of(meters), missing, folder, complaint)


def missing_meters(found: Mapping[str, NodeAnswer]) -> dict[str, str]:
    """Return why meters do not work; where that is so on some nodes only, on which ones."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for name, answer in found.items():
        for missing in answer.missing.items():
            lacking.setdefault(missing, []).append(name)
    return {
        meter if len(names) == len(found) else f"{meter} on {listing(names)}": why
        for (meter, why), names in lacking.items()
    }


def _workload(sweep: Sweep, packed: PackedFolder) -> Workload:
    """Make the workload on the node that this is called on."""
    folder = packed.folder()
    if folder is None:
        raise UsageError(
            f"it does not have {packed.path}, and the folder is too large to be sent (at most "
            f"{MOST_FILES} files and {MOST_BYTES >> 20} MiB). Keep the sweep in a folder of its "
            "own, or on a file system that all nodes share."
        )
    return sweep.make_workload(folder)


class NodeSupervisor(Closeable):
    """Makes runs on the node whose worker holds it, one after the other."""

    def __init__(self, sweep: Sweep, packed: PackedFolder) -> None:
        self.sweep = sweep
        self._packed = packed
        self._kept: tuple[Needs, Supervisor] | None = None

    @cached_property
    def _workload(self) -> Workload:
        return _workload(self.sweep, self._packed)

    @contextmanager
    def supervisor(self, run: Run) -> Iterator[Supervisor]:
        """Provide the supervisor of the previous run if its needs were the same, or a new one."""
        needs = self.sweep.needs_of(run.configuration, self._workload)
        if self._kept is None or self._kept[0] != needs:
            self.close()
            meters, _ = open_meters(self.sweep)
            self._kept = (needs, Supervisor(self.sweep, self._workload, meters))
        # Ray blocks this signal for all it starts, but meters end by it, and so may jobs.
        blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        try:
            yield self._kept[1]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            if needs.each.gpus:
                self.close()  # the next run may be given other GPUs

    def close(self) -> None:
        """End the process of the runs."""
        if self._kept is not None:
            self._kept[1].close()
            self._kept = None


def folder_on_all(cluster: Cluster, found: Mapping[str, NodeAnswer], packed: PackedFolder) -> Path:
    """Return a folder of the sweep that has the same path on all nodes."""
    if {answer.folder for answer in found.values()} == {packed.path}:
        return Path(packed.path)
    copies = set(cluster.ask_each(_copy, packed).values())
    if len(copies) > 1 or None in copies:
        raise UsageError(
            f"the nodes of the Ray cluster do not have {packed.path} in one place; keep the sweep "
            "on a file system that all of them share"
        )
    return Path(*copies)


def _copy(packed: PackedFolder) -> str | None:
    """Unpack the folder on the node that this is called on; return where it is."""
    folder = packed.copy()
    return None if folder is None else str(folder)
