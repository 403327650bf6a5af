"""Where a cluster keeps completed tasks and the work of maintenance."""

from __future__ import annotations

from pathlib import Path

from foretell.cluster.maintenance.completed import CompletedTasks
from foretell.decide.placement.cluster import Cluster
from foretell.files.journal import read_journal

ROUNDS, COMPLETED = "rounds.journal", "completed"


def records_folder(cluster: Cluster) -> Path | None:
    """Return where a cluster stores completed tasks and the work of maintenance."""
    records = cluster.maintenance.records
    return None if records is None else cluster.folder / records


def open_completed(cluster: Cluster) -> CompletedTasks | None:
    """Return the store of completed tasks; None if the cluster file names none."""
    folder = records_folder(cluster)
    return None if folder is None else CompletedTasks(folder / COMPLETED)


def last_round_s(cluster: Cluster) -> float | None:
    """Return when the last round of maintenance began; None if there was none."""
    folder = records_folder(cluster)
    if folder is None or not (folder / ROUNDS).exists():
        return None
    started = [r for r in read_journal(folder / ROUNDS) if r["kind"] == "started"]
    return float(started[-1]["until_s"]) if started else None
