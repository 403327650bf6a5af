"""Completed tasks, stored with what was predicted of them and what they took."""

from __future__ import annotations

import math
import os
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from foretell.closeable import Closeable
from foretell.decide.placement.estimates import Estimates
from foretell.decide.placement.tasks import Task, Value
from foretell.errors import StorageError
from foretell.files.journal import Journal, read_journal
from foretell.machines import NodeType

MEASURED, MODELLED = "measured", "modelled"
#: The feature that says to which class a task belongs.
CLASS = "class"
_FINGERPRINT = {"records": "completed tasks"}


@dataclass(frozen=True)
class CompletedTask:
    """A task that ran to its end on one node.

    Attributes
    ----------
    uid
        Names the task; of two records with one uid, the first counts.
    at_s
        When it completed, in seconds since 1970.
    columns
        What its models saw.
    predicted_time_s, predicted_energy_j, digest
        What was predicted, and by which models; NaN if nothing was.
    energy_j, energy_source
        Its energy, and whether it was measured or is modelled from its time and the power of the
        node type; NaN if it is not known.
    """

    uid: str
    at_s: float
    type: str
    node: str
    columns: Mapping[str, Value]
    time_s: float
    energy_j: float
    energy_source: str
    predicted_time_s: float
    predicted_energy_j: float
    digest: str

    @property
    def class_name(self) -> str:
        """The class of the task; empty if it has none."""
        return str(self.columns.get(CLASS, ""))

    @property
    def time_error(self) -> float:
        """How far off the predicted time was, as a share; NaN if not known."""
        return _error(self.predicted_time_s, self.time_s)

    @property
    def energy_error(self) -> float:
        """How far off the predicted energy was; NaN unless the energy was measured.

        A modelled energy says nothing about a model of energy.
        """
        if self.energy_source != MEASURED:
            return math.nan
        return _error(self.predicted_energy_j, self.energy_j)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, with its errors; what is not known is None."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        found |= {"columns": dict(self.columns), "time_error": self.time_error,
                  "energy_error": self.energy_error}  # fmt: skip
        return {name: None if v != v else v for name, v in found.items()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> CompletedTask:
        """Read what ``to_json`` returned."""
        values: dict[str, Any] = {field.name: record[field.name] for field in fields(cls)}
        values |= {name: math.nan for name, value in values.items() if value is None}
        return cls(**values)


@dataclass(frozen=True)
class Ending:
    """How a task ended: when, where and after how long.

    Attributes
    ----------
    energy_j
        What was measured; None if nothing was.
    """

    uid: str
    at_s: float
    node: str
    time_s: float
    energy_j: float | None = None


def completed_task(
    estimates: Estimates, kind: NodeType, task: Task, ending: Ending
) -> CompletedTask:
    """Put together what was predicted of a task on a type of node, and what it took.

    An energy that was not measured is modelled: the time, by the watts that the task adds to an
    idle node of that type.
    """
    of_type = [model.name for model in estimates.models].index(kind.name)
    model = estimates.models[of_type]
    estimate = estimates.of(task).by_type[of_type]
    energy_j, source = ending.energy_j, MEASURED
    if energy_j is None:
        added_w = kind.added_watts(task.needs.cpus)
        energy_j = math.nan if added_w is None else added_w * ending.time_s
        source = MODELLED
    return CompletedTask(
        ending.uid, ending.at_s, kind.name, ending.node, {**task.columns, **model.columns},
        ending.time_s, energy_j, source, estimate.time.value, estimate.energy.value, model.digest,
    )  # fmt: skip


class CompletedTasks(Closeable):
    """The journals of completed tasks: one per day and process, so that writers never meet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        host = re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())
        self._writer = f"{host}-{os.getpid()}"
        self._day = ""
        self._journal: Journal | None = None

    def append(self, tasks: Iterable[CompletedTask]) -> None:
        """Store tasks; once this returns, they survive a crash."""
        by_day: dict[str, list[dict[str, Any]]] = {}
        for task in tasks:
            by_day.setdefault(_day(task.at_s), []).append(task.to_json())
        for day, records in by_day.items():
            journal = self._open(day)
            journal.append(records)
            journal.records.clear()  # they are on disk, and this process may run for months

    def read(self, since_s: float, until_s: float) -> list[CompletedTask]:
        """Return the tasks that completed in a window, the oldest first, each once."""
        first = _day(since_s)
        found: dict[str, CompletedTask] = {}
        for path in sorted(self.folder.glob("*.journal")):
            if path.name[: len(first)] < first:
                continue
            for record in read_journal(path):
                task = CompletedTask.from_json(record)
                if since_s <= task.at_s <= until_s:
                    found.setdefault(task.uid, task)
        return sorted(found.values(), key=lambda task: (task.at_s, task.uid))

    def close(self) -> None:
        """Close the journal that is open."""
        if self._journal is not None:
            self._journal.close()
            self._journal, self._day = None, ""

    def _open(self, day: str) -> Journal:
        if day != self._day or self._journal is None:
            self.close()
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StorageError(
                    f"{self.folder} cannot be made: {error.strerror}; check the permissions"
                ) from None
            path = self.folder / f"{day}-{self._writer}.journal"
            self._journal, self._day = Journal(path, _FINGERPRINT), day
        return self._journal


def _day(at_s: float) -> str:
    at_s = min(max(at_s, 0.0), 253_370_764_800.0)  # a clock may say anything
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d")


def _error(predicted: float, actual: float) -> float:
    return abs(predicted / actual - 1) if actual > 0 else math.nan
