"""Records of fits, kept in the model directory so that a restarted server loses none."""

from __future__ import annotations

import re
import secrets
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pydantic

from foretell.adapters.http.models.schemas import Job
from foretell.adapters.http.models.store import NAME
from foretell.errors import StorageError
from foretell.files.directory import make_folder, write_whole

#: A hidden name, which no model can have.
FOLDER = ".jobs"
ENDED = ("done", "failed", "canceled")
_RECORD, _TABLE, _OUTPUT = "job.json", "runs.csv", "fit"
_ID = re.compile(r"[0-9]{8}T[0-9]{12}-[0-9a-f]{8}")
_MAX_ENDED = 200


class Record(Job):
    """A fit as the server keeps it: also what was asked for, and how often it was started."""

    model_config = pydantic.ConfigDict(extra="forbid")

    seed: int | None
    time_limit_s: float
    replace: bool
    n_starts: int = 0


class RecordStore:
    """A hidden folder of the model directory with one folder per fit: record, table and output."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FOLDER
        if self.path.is_symlink():
            raise StorageError(f"{self.path} is a link; replace it by a directory")
        make_folder(self.path)

    def records(self) -> list[Record]:
        """Read all valid records, the oldest first."""
        found = []
        for folder in sorted(self.path.iterdir()):
            if _ID.fullmatch(folder.name):
                with suppress(OSError, ValueError):
                    record = Record.model_validate_json((folder / _RECORD).read_bytes())
                    if record.id == folder.name and NAME.fullmatch(record.name):
                        found.append(record)
        return found

    def folder(self, record: Record) -> Path:
        """Return the folder of a fit."""
        return self.path / record.id

    def output(self, record: Record) -> Path:
        """Return the directory that the fit writes its models to."""
        return self.folder(record) / _OUTPUT

    def add(self, record: Record, table: bytes) -> None:
        """Store a new record and its table."""
        self.folder(record).mkdir()
        write_whole(self.folder(record) / _TABLE, table)
        self.save(record)

    def save(self, record: Record) -> None:
        """Write a record as it is now."""
        write_whole(self.folder(record) / _RECORD, record.model_dump_json().encode())

    def request(self, record: Record) -> dict[str, object]:
        """Return what the fitting process needs to know."""
        return {
            "table": str(self.folder(record) / _TABLE),
            "output": str(self.output(record)),
            "target": record.target,
            "seed": record.seed,
            "time_limit_s": record.time_limit_s,
        }

    def tidy(self, record: Record) -> None:
        """Delete what an ended fit no longer needs."""
        shutil.rmtree(self.output(record), ignore_errors=True)
        with suppress(OSError):
            (self.folder(record) / _TABLE).unlink()

    def forget_oldest(self, records: list[Record]) -> list[Record]:
        """Delete the oldest ended fits when there are many; return the others."""
        ended = [r for r in records if r.state in ENDED]
        dropped = {r.id for r in ended[: max(0, len(ended) - _MAX_ENDED)]}
        for job_id in dropped:
            shutil.rmtree(self.path / job_id, ignore_errors=True)
        return [r for r in records if r.id not in dropped]


def new_record(**asked: Any) -> Record:
    """Return the record of a new fit; its id sorts by age."""
    return Record(
        id=f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}",
        created_at=now(),
        state="queued",
        n_done=0,
        n_total=None,
        ended_at=None,
        detail=None,
        **asked,
    )


def now() -> str:
    """Return the time, for people."""
    return datetime.now(UTC).isoformat(timespec="seconds")
