"""The folder of jobs: what is asked and what came of it, kept so that a restart loses nothing."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pydantic

from foretell.adapters.http.shelf import NAME, SUFFIX
from foretell.errors import StorageError
from foretell.files.directory import write_whole

#: A hidden name, which no model can have.
FOLDER = ".jobs"
ENDED = ("done", "failed", "canceled")
_RECORD, _TABLE, _FIT, _REPLACED = "job.json", "runs.csv", "fit", "replaced"
_ID = re.compile(r"[0-9]{8}T[0-9]{12}-[0-9a-f]{8}")
_MOST_KEPT = 200

State = Literal["queued", "running", "done", "failed", "canceled"]


class Record(pydantic.BaseModel):
    """A fit: what is asked, and how far it is."""

    model_config = pydantic.ConfigDict(extra="forbid")

    id: str
    name: str
    target: str
    seed: int | None
    time_limit_s: float
    replace: bool
    state: State = "queued"
    n_done: int = 0
    n_total: int | None = None
    n_starts: int = 0
    created_at: str
    ended_at: str | None = None
    detail: str | None = None


class JobFolder:
    """Records of fits in a hidden folder of the model directory, each with its table and output."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.path = directory / FOLDER
        if self.path.is_symlink():
            raise StorageError(f"{self.path} is a link; jobs need a directory of their own there")
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be made: {error.strerror}") from None

    def records(self) -> list[Record]:
        """Read all records that are sound, the oldest first."""
        found = []
        for folder in sorted(self.path.iterdir()):
            if _ID.fullmatch(folder.name):
                with suppress(OSError, ValueError):
                    record = Record.model_validate_json((folder / _RECORD).read_bytes())
                    if record.id == folder.name and NAME.fullmatch(record.name):
                        found.append(record)
        return found

    def add(self, record: Record, table: bytes) -> None:
        """Keep a new record and its table."""
        folder = self.path / record.id
        folder.mkdir()
        write_whole(folder / _TABLE, table)
        self.save(record)

    def save(self, record: Record) -> None:
        """Write a record as it is now."""
        write_whole(self.path / record.id / _RECORD, record.model_dump_json().encode())

    def request(self, record: Record) -> dict[str, object]:
        """Return what the fitting process is told."""
        folder = self.path / record.id
        return {
            "table": str(folder / _TABLE),
            "output": str(folder / _FIT),
            "target": record.target,
            "seed": record.seed,
            "time_limit_s": record.time_limit_s,
        }

    def is_taken(self, name: str) -> bool:
        """Whether something of this name is in the model directory."""
        return any(os.path.lexists(path) for path in self._places(name))

    def place(self, record: Record) -> None:
        """Put a finished fit where models are; what it replaces goes only then."""
        folder = self.path / record.id
        replaced = folder / _REPLACED
        try:
            if record.replace:
                replaced.mkdir(exist_ok=True)
                for old in self._places(record.name):
                    if os.path.lexists(old):
                        old.rename(replaced / f"{secrets.token_hex(4)}-{old.name}")
            elif self.is_taken(record.name):
                raise StorageError(f"the name '{record.name}' was taken meanwhile")
            (folder / _FIT).rename(self._directory / record.name)
        except OSError as error:
            raise StorageError(f"the model cannot be put in place: {error.strerror}") from None
        shutil.rmtree(replaced, ignore_errors=True)

    def tidy(self, record: Record) -> None:
        """Drop what an ended job no longer needs."""
        folder = self.path / record.id
        shutil.rmtree(folder / _FIT, ignore_errors=True)
        with suppress(OSError):
            (folder / _TABLE).unlink()

    def forget_oldest(self, records: list[Record]) -> list[Record]:
        """Drop the oldest of the ended jobs when there are many; return those that stay."""
        ended = [r for r in records if r.state in ENDED]
        dropped = {r.id for r in ended[: max(0, len(ended) - _MOST_KEPT)]}
        for job_id in dropped:
            shutil.rmtree(self.path / job_id, ignore_errors=True)
        return [r for r in records if r.id not in dropped]

    def _places(self, name: str) -> tuple[Path, Path]:
        return self._directory / name, self._directory / (name + SUFFIX)


def new_id() -> str:
    """Return the name of a new job; names sort by age."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}"


def now() -> str:
    """Return the time, for people."""
    return datetime.now(UTC).isoformat(timespec="seconds")
