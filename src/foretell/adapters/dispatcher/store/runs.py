"""The table of runs: one row for each job that ended, which `foretell fit` and class files read.

The journal is the truth: it says how far the table was complete when it was last compacted. What
follows in the file is written again from the records, so no row is lost and none is there twice.
"""

from __future__ import annotations

import csv
import io
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from foretell.adapters.dispatcher.jobs import Job, is_id
from foretell.closeable import Closeable
from foretell.errors import StorageError
from foretell.statuses import Status

#: In the order of a measured table, by which foretell knows that only the first two are settings.
COLUMNS = (
    "job_class", "drop", "repeat", "status", "wall_time_s", "wait_s", "response_s", "wasted_s",
    "sprint_s", "id", "name", "arrived_at", "ended_at", "n_attempts", "n_preempted", "started_at",
    "reason",
)  # fmt: skip
_CANCELED = "canceled"
_STATUSES = {"done": Status.OK, "failed": Status.FAILED, "canceled": _CANCELED}
_STATES = {str(status): state for state, status in _STATUSES.items()}
#: How many of the latest responses of each class are summed up.
MOST_RECENT = 1_000
_MOST_HEADER_BYTES = 10_000


class RunsTable(Closeable):
    """The open table; ``n_bytes`` of an existing file are kept, and what follows is cut off."""

    def __init__(self, path: Path, n_bytes: int) -> None:
        self._path = path
        try:
            self._file = path.open("ab")
            if path.stat().st_size > n_bytes:
                self._file.truncate(n_bytes)
            if not path.stat().st_size:
                self._file.write(_line(COLUMNS))
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {error.strerror}") from None

    def append(self, jobs: Iterable[Job]) -> None:
        """Add rows; they may be lost in a crash until they are synced."""
        content = b"".join(_line(row_of(job).values()) for job in jobs)
        if content:
            with self._writing():
                self._file.write(content)
                self._file.flush()

    def sync(self) -> int:
        """Make sure that all rows survive a crash; return the size of the file."""
        with self._writing():
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # rows that were not synced are written again from the journal
            self._file.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"{self._path} cannot be written: {error.strerror}. Free some space, and run the "
                "same command again; what is finished is kept."
            ) from None


def row_of(job: Job) -> dict[str, Any]:
    """Return the row of a job that ended.

    ``wait_s`` ends with the first start, ``wall_time_s`` is the time in the engine of the attempt
    that counts, and ``wasted_s`` that of all others.
    """
    assert job.ended_at is not None
    started = job.first_start
    return {
        "job_class": job.class_name,
        "drop": job.drop,
        "repeat": job.number,
        "status": str(_STATUSES[job.state]),
        "wall_time_s": "" if started is None else _seconds(job.busy_s),
        "wait_s": "" if started is None else _seconds(started - job.arrived_at),
        "response_s": _seconds(job.ended_at - job.arrived_at),
        "wasted_s": _seconds(job.wasted_s),
        "sprint_s": _seconds(job.sprint_s),
        "id": job.id,
        "name": job.name,
        "arrived_at": job.arrived_at,
        "ended_at": job.ended_at,
        "n_attempts": job.attempt,
        "n_preempted": job.n_preempted,
        "started_at": "" if started is None else started,
        "reason": job.reason,
    }


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Read a table that a dispatcher may be writing to, row by row; a row cut short is left out."""
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            rows = csv.DictReader(file)
            if tuple(rows.fieldnames or ()) != COLUMNS:
                return  # the next dispatcher sets it aside
            for row in rows:
                if None not in row.values():
                    yield row
    except (FileNotFoundError, csv.Error):
        return
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}; check the path") from None


def has_other_columns(path: Path) -> bool:
    """Whether a file is there that has not the header of this version."""
    try:
        with path.open("rb") as file:
            first = file.readline(_MOST_HEADER_BYTES)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}; check the path") from None
    return first not in {b"", _line(COLUMNS)}


def set_aside(path: Path) -> Path:
    """Rename a table, and return its new path."""
    numbers = (path.with_name(f"{path.stem}-{i}{path.suffix}") for i in count(1))
    place = next(other for other in numbers if not other.exists())
    try:
        path.rename(place)
    except OSError as error:
        raise StorageError(f"{path} cannot be renamed: {error.strerror}") from None
    return place


def find_row(path: Path, job_id: str) -> dict[str, Any] | None:
    """Return what the table tells of a job, in the shape of ``Job.to_json``; None if nothing."""
    if not is_id(job_id):
        return None
    try:
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            for line in _lines_with(content, f",{job_id},".encode()):
                cells = next(csv.reader([line]), [])
                row = dict(zip(COLUMNS, cells, strict=False))
                if len(cells) == len(COLUMNS) and row["id"] == job_id:  # it may also be a name
                    return _described(row)
    except (OSError, ValueError):
        return None
    return None


def _lines_with(content: mmap, text: bytes) -> Iterator[str]:
    """Yield the lines that have a text; reading row by row takes too long."""
    found = content.find(text)
    while found >= 0:
        content.seek(content.rfind(b"\n", 0, found) + 1)
        yield content.readline().decode()
        found = content.find(text, content.tell())


def _described(row: dict[str, str]) -> dict[str, Any]:
    return {
        "id": row["id"], "class": row["job_class"], "name": row["name"],
        "state": _STATES[row["status"]],
        **{k: float(row[k]) if row[k] else None for k in ("arrived_at", "started_at", "ended_at")},
        "attempts": int(row["n_attempts"]), "drop": float(row["drop"]),
        "sprint_s": float(row["sprint_s"]), "reason": row["reason"],
    }  # fmt: skip


def recent_responses(
    path: Path, class_names: Iterable[str], most: int = MOST_RECENT
) -> dict[str, deque[float]]:
    """Return the latest responses of jobs that are done, by class, in seconds."""
    found: dict[str, deque[float]] = {name: deque(maxlen=most) for name in class_names}
    for row in read_rows(path):
        if row["status"] == Status.OK and row["job_class"] in found:
            with suppress(ValueError):  # it may have been edited
                found[row["job_class"]].append(float(row["response_s"]))
    return found


def _line(cells: Iterable[Any]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerow(cells)
    return written.getvalue().encode()


def _seconds(value: float) -> float:
    return round(max(0.0, value), 6)
