"""The journal: an append-only record of finished work that makes resuming exact.

One line per record: a checksum, a space, a JSON object. A record counts once its line is synced.
A last line cut short by a crash is dropped; damage anywhere else is refused.
"""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from foretell.closeable import Closeable
from foretell.errors import Option, StorageError
from foretell.files.complaints import shown

FORMAT = 1
_MOST_HEADER_BYTES = 1_000_000
_GROUP_S = 0.5

_CHECKSUM = re.compile(rb"[0-9a-f]{8} ")
#: A first line, or the part of it that a crash left.
_START = re.compile(rb"[0-9a-f]{0,8}|[0-9a-f]{8} (\{.*)?")


class Journal(Closeable):
    """An open journal; the caller holds the lock of its directory.

    Parameters
    ----------
    fingerprint
        What the records depend on. A journal with another fingerprint is refused.
    is_remembering
        Whether ``records`` also has those that are appended; one that grows for months must not.
    """

    def __init__(
        self, path: Path, fingerprint: Mapping[str, str], *, is_remembering: bool = True
    ) -> None:
        self._path, self._is_remembering = path, is_remembering
        self._header = {"kind": "header", "format": FORMAT, **fingerprint}
        try:
            self.records = self._read()
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise StorageError(
                f"{path} cannot be opened: {error.strerror}.",
                remedy=("Give another place with ", Option("output"), "."),
            ) from None
        try:
            if not self.records:
                self._write([self._header])
        except BaseException:
            self.close()
            raise
        self.records = self.records[1:]

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write records and sync them to disk, so that they survive a crash."""
        written = [dict(r) for r in records]
        self._write(written)
        if self._is_remembering:
            self.records += written

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Replace all records by fewer ones; a crash leaves the old ones or the new ones."""
        part = self._path.with_name(self._path.name + ".part")
        written = [dict(r) for r in records]
        try:
            with part.open("wb") as file:
                file.writelines(map(encode, [self._header, *written]))
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._path)
            self._file.close()
            self._file = self._path.open("ab", buffering=0)
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            raise self._unwritable(error) from None
        self.records = written if self._is_remembering else []

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, records: list[dict[str, Any]]) -> None:
        size = self._file.seek(0, os.SEEK_END)
        content = b"".join(encode(r) for r in records)
        try:
            while content:
                content = content[self._file.write(content) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(size)  # the next record must not follow half of this one
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> StorageError:
        return StorageError(
            f"{self._path} cannot be written: {error.strerror}. What is finished is kept; "
            "free some space, and run the same command again to continue."
        )

    def _read(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        records, sound = _sound_records(self._path)
        if records:
            self._check_header(records[0])
        if sound < self._path.stat().st_size:
            with self._path.open("r+b") as file:
                file.truncate(sound)
        return records

    def _check_header(self, found: dict[str, Any]) -> None:
        differing = sorted(k for k, v in self._header.items() if found.get(k) != v)
        if differing:
            words = {
                "data": "other data",
                "campaign": "another campaign",
                "sweep": "another sweep",
                "format": "another format",
            }
            reasons = " and ".join(
                words.get(k, f"{k} {shown(found.get(k))} (here {shown(self._header[k])})")
                for k in differing
            )
            raise StorageError(
                f"{self._path} holds results from {reasons}; results are never mixed.",
                remedy=("Give another place with ", Option("output"), ", or move that one away."),
            )


class GroupedRecords(Closeable):
    """Appends records in groups, where computing one takes less time than syncing it.

    A crash loses the work of half a second at most; an error or the end of a `with` statement
    loses nothing.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: list[Mapping[str, Any]] = []
        self._appended_s = time.monotonic()

    def append(self, record: Mapping[str, Any]) -> None:
        """Take a record, and append all that wait if the last time is long ago."""
        self._waiting.append(record)
        if time.monotonic() - self._appended_s > _GROUP_S:
            self.close()

    def close(self) -> None:
        """Append what waits."""
        if self._waiting:
            self._journal.append(self._waiting)
        self._waiting = []
        self._appended_s = time.monotonic()


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Read the records of a journal that another process may be writing to."""
    try:
        return _sound_records(path)[0][1:]
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}; check the path") from None


def _sound_records(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return all records with the header, and where they end; refuse damage before the end."""
    content = path.read_bytes()
    records, sound = decode(content)
    if sound < len(content) and not _is_cut_short(content[sound:]):
        raise StorageError(
            f"{path} is damaged at byte {sound}, before its last line. Move it away to start again."
        )
    return records, sound


def is_journal(path: Path) -> bool:
    """Whether a file is a journal, or the part of one that a crash left."""
    if not path.is_file():  # opening a named pipe would wait for someone to write to it
        return False
    with path.open("rb") as file:
        return starts_journal(file)


def starts_journal(file: BinaryIO) -> bool:
    """Whether an open file starts like a journal, or like the part of one that a crash left."""
    first = file.readline(_MOST_HEADER_BYTES)
    return _START.fullmatch(first.removesuffix(b"\n")) is not None


def encode(record: Mapping[str, Any]) -> bytes:
    """Write one record as a line; its keys keep their order."""
    body = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode(content: bytes) -> tuple[list[dict[str, Any]], int]:
    """Read records up to the first damaged line; return them and where that line starts."""
    records: list[dict[str, Any]] = []
    start = 0
    while (end := content.find(b"\n", start)) != -1:
        checksum, _, body = content[start:end].partition(b" ")
        if checksum != b"%08x" % zlib.crc32(body):
            break
        records.append(json.loads(body))
        start = end + 1
    return records, start


def _is_cut_short(rest: bytes) -> bool:
    """Whether what follows the sound records is one line that a crash cut short.

    A damaged line break joins two lines, so a sound record inside the line also means damage.
    """
    if b"\n" in rest[:-1]:
        return False
    return not any(decode(rest[found.start() :])[0] for found in _CHECKSUM.finditer(rest))
