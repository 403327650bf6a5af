"""Lanes for jobs that spread themselves over a Ray cluster: started here, they run on its nodes."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from foretell.errors import UsageError
from foretell.executors.cluster import Room, alive_nodes, check_room
from foretell.measure.lanes import Finished, LocalLanes
from foretell.measure.meters import METERS
from foretell.measure.outcome import FAILED
from foretell.measure.plan import Run
from foretell.measure.ray_lanes import MOST_LOSSES, RayLanes
from foretell.measure.shipping import Luggage
from foretell.measure.sweep import Sweep
from foretell.measure.workloads import Needs, Workload

#: How long after a run failed Ray may take to notice that a node is gone.
_NOTICE_S = 10.0
_POLL_S = 0.5
_ADDRESS = "RAY_ADDRESS"
_UNSEEN = "the job runs on the nodes of the cluster, and meters see what runs below foretell"


class SpreadLanes(RayLanes):
    """Runs that ask the cluster themselves for what they need.

    All are started on this machine, one after the other in one process, so that what a launcher
    keeps for the next run is there, and never stands in its way. A run that fails while a node is
    lost is made again.
    """

    def __init__(self, sweep: Sweep, workload: Workload, on: str, log: logging.Logger) -> None:
        super().__init__(sweep, workload, on, log)
        names = METERS.names() if sweep.meters is None else sweep.meters
        self.missing = {", ".join(names): _UNSEEN} if names else {}
        self.sources = {}
        unmetered = sweep.model_copy(update={"meters": []})
        try:
            self._local = LocalLanes(unmetered, self._everywhere(), [])
        except BaseException:
            self._cluster.close()
            raise
        self._address_before = os.environ.get(_ADDRESS)
        os.environ[_ADDRESS] = self._cluster.address  # runs are told where they are

    def _everywhere(self) -> Workload:
        """Return the workload with a folder that has the same path on all nodes."""
        if self._folders == {str(self._workload.folder.resolve())}:
            return self._workload
        copies = set(self._cluster.ask_each(_copied, [self._luggage]).values())
        if len(copies) > 1 or None in copies:
            raise UsageError(
                f"the nodes of the Ray cluster do not have {self._workload.folder} in one place; "
                "keep the sweep on a file system that all of them share"
            )
        return self._sweep.make_workload(Path(*copies))

    def measure(self, runs: Sequence[Run]) -> Iterator[Finished]:
        """Make the runs, in batches of as many at once as the sweep allows."""
        needs = {run.index: self._workload.needs(run.configuration) for run in runs}
        for asked in dict.fromkeys(needs.values()):
            check_room(_part(asked), asked.n_parts)
        waiting, n_lost = deque(runs), Counter[int]()
        while waiting:
            batch = [waiting.popleft() for _ in range(min(self._sweep.at_once, len(waiting)))]
            for run in batch:
                asked = needs[run.index]
                while not self._cluster.still_has_room(_part(asked), asked.n_parts):
                    time.sleep(_POLL_S)
            nodes = {node.key for node in alive_nodes()}
            for finished in self._local.measure(batch):
                run, measured = finished.run, finished.measured
                if measured.status == FAILED and _is_any_lost(nodes):
                    n_lost[run.index] += 1
                    self._log.warning("run %d was lost: %s", run.index + 1, measured.reason)
                    if n_lost[run.index] <= MOST_LOSSES:
                        waiting.appendleft(run)
                        continue
                yield finished._replace(node="", n_lost=n_lost[run.index])

    def close(self) -> None:
        """End what still runs, and leave the cluster."""
        self._local.close()
        if self._address_before is None:
            os.environ.pop(_ADDRESS, None)
        else:
            os.environ[_ADDRESS] = self._address_before
        super().close()


def _part(needs: Needs) -> Room:
    return Room(needs.cpus, needs.gpus, needs.memory_bytes)


def _is_any_lost(nodes: set[str]) -> bool:
    """Whether one of these nodes is lost: workers see it sooner than Ray does."""
    deadline = time.monotonic() + (_NOTICE_S if len(nodes) > 1 else 0.0)
    while not (is_lost := bool(nodes - {node.key for node in alive_nodes()})):
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    return is_lost


def _copied(luggage: list[Any]) -> str | None:
    """Unpack the folder on the node that this is called on; return where it is."""
    import ray

    sent: Luggage = ray.get(luggage[0])
    folder = sent.copied()
    return None if folder is None else str(folder)
