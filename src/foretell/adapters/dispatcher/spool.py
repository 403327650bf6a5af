"""The spool folder: files that appear in it by renaming become jobs, and none of them is lost.

A file is first moved aside under the id of its job, then the job is written to the journal, then
the file is moved to ``accepted``. After a crash in between, the next start goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import deque
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretell.adapters.dispatcher.events import Event, Kind
from foretell.adapters.dispatcher.intake import Intake
from foretell.adapters.dispatcher.jobs import MOST_BYTES, Request, check_size, is_id, new_id
from foretell.errors import ForetellError, StorageError, UsageError
from foretell.files.content import read_content
from foretell.files.directory import write_whole
from foretell.files.text_file import FileKind, read_toml_file
from foretell.files.typed import validated
from foretell.wording import plain

ACCEPTED, REJECTED, _TAKING = "accepted", "rejected", ".taking"
NOTE = ".rejected"
_LOOK_S = 0.02  # between looks at the time of the folder, which costs a few microseconds
_SCAN_S = 1.0  # between scans even if that time has not changed
_COARSE_NS = 50_000_000  # two changes that are so near may have the same time
_MOST_AT_ONCE = 200
_BREATH_S = 0.001  # between two times, for others that wait for the lock
_JOINT = "--"
_MOST_NAME = 150  # bytes; an id is added, and names have 255 at most
_ESCAPED = "backslashreplace"  # file names may have bytes that are no text
_JOB_FILE = FileKind("job", "class and run", (".json", ".toml"))


@dataclass(frozen=True)
class _Claim:
    """A file that was moved aside: the id of its job, its own name, and when it came."""

    path: Path
    arrived_at: float

    @property
    def id(self) -> str:
        return self.path.name.partition(_JOINT)[0]

    @property
    def name(self) -> str:
        return self.path.name.partition(_JOINT)[2]


class Spool:
    """A folder whose files become jobs, some at a time.

    Attributes
    ----------
    n_left
        How many files were there that are not yet taken.
    """

    def __init__(self, folder: Path, intake: Intake) -> None:
        self.folder, self._intake = folder, intake
        self._lock = threading.Lock()
        self._skipped: set[str] = set()
        self._folders: set[str] = set()  # those that were told
        self._left: list[_Claim] = []
        self._found: deque[tuple[Path, float]] = deque()
        self.n_left = 0
        self._seen_ns, self._scanned_s = -1, 0.0
        try:
            for place in (ACCEPTED, REJECTED, _TAKING):
                (folder / place).mkdir(parents=True, exist_ok=True)
            left = sorted((folder / _TAKING).iterdir())
            self._left = self._distinct([_Claim(p, p.lstat().st_ctime) for p in left])
        except OSError as error:
            raise StorageError(f"{folder} cannot be used as spool: {error.strerror}") from None
        self.take_some()

    def _distinct(self, claims: Sequence[_Claim]) -> list[_Claim]:
        """Give another id to each file that has that of one before it."""
        found: dict[str, _Claim] = {}
        for claim in claims:
            if claim.id in found:
                place = claim.path.with_name(f"{new_id()}{_JOINT}{claim.name}")
                claim = _Claim(claim.path.rename(place), claim.arrived_at)
            found[claim.id] = claim
        return list(found.values())

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take files as they appear, while the context lasts."""
        is_over = threading.Event()

        def watch() -> None:
            said = ""
            while not is_over.wait(_LOOK_S):
                try:
                    while self.take_some(only_if_changed=True) and not is_over.wait(_BREATH_S):
                        continue
                except Exception as error:  # such as a full disk; it is tried again
                    if _worded(error) != said:
                        said = _worded(error)
                        self._note("note", f"files of {self.folder} cannot be taken: {said}")

        thread = threading.Thread(target=watch, name="spool", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def take_some(self, *, only_if_changed: bool = False) -> bool:
        """Make jobs of some files, as far as there is room; say whether there may be more."""
        with self._lock:
            if not self._found:
                if only_if_changed and not self._has_changed():
                    return False
                self._list()
            try:
                claims = self._still_left() or self._claim(self._found)
                self._left = claims  # if they cannot be taken, they are the next ones again
                self.n_left = len(self._found)
                self._take(claims)
            except BaseException:
                self._found.clear()
                raise
            if not claims:  # there is no room, and later the list is an old one
                self._found.clear()
            return bool(claims)

    def _list(self) -> None:
        n_before, self._found = self.n_left, self._files()
        n = len(self._found)
        if n > _MOST_AT_ONCE and not n_before:
            self._note("note", f"{n:,} files are in {self.folder}: they are taken {_MOST_AT_ONCE} "
                       "at a time, and jobs start meanwhile")  # fmt: skip

    def _still_left(self) -> list[_Claim]:
        """Return what was left before, and keep the files of jobs that the journal has."""
        left, self._left = self._left, []
        for claim in left:
            if self._intake.knows(claim.id):
                self._keep(claim)
            else:
                self._left.append(claim)
        return self._left

    def _has_changed(self) -> bool:
        now_s = time.monotonic()
        with contextlib.suppress(OSError):
            changed_ns = self.folder.stat().st_mtime_ns
            is_recent = abs(time.time_ns() - changed_ns) < _COARSE_NS
            is_due = changed_ns != self._seen_ns or now_s - self._scanned_s > _SCAN_S or is_recent
            if is_due:
                self._seen_ns, self._scanned_s = changed_ns, now_s
            return is_due
        return False

    def _claim(self, files: deque[tuple[Path, float]]) -> list[_Claim]:
        """Move some of the files aside, under the ids of their jobs; the list gets shorter."""
        claims: list[_Claim] = []
        most = min(_MOST_AT_ONCE, self._intake.room)
        while files and len(claims) < most:
            path, arrived_at = files.popleft()
            is_known = path.stem in {c.id for c in claims} or self._intake.knows(path.stem)
            job_id = path.stem if is_id(path.stem) and not is_known else new_id()
            place = self.folder / _TAKING / f"{job_id}{_JOINT}{_cut(path.name)}"
            try:
                path.rename(place)
            except FileNotFoundError:
                continue  # its owner took it back
            except OSError as error:
                self._skipped.add(path.name)
                self._note("note", f"{path} cannot be taken: {error.strerror}")
                continue
            claims.append(_Claim(place, arrived_at))
        return claims

    def _files(self) -> deque[tuple[Path, float]]:
        """List the files that may be jobs, the oldest first, and when they came."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                self._tell_folder(entry)
                if entry.name not in self._skipped and _may_be_job(entry):
                    with contextlib.suppress(OSError):
                        changed_ns = entry.stat(follow_symlinks=False).st_ctime_ns
                        found.append((changed_ns, entry.name))
        now_s = time.time()
        return deque((self.folder / name, min(now_s, ns / 1e9)) for ns, name in sorted(found))

    def _tell_folder(self, entry: os.DirEntry[str]) -> None:
        is_like_a_job = entry.name.endswith(_JOB_FILE.suffixes) and entry.name[0] != "."
        if is_like_a_job and entry.name not in self._folders and _is_folder(entry):
            self._folders.add(entry.name)
            self._note("note", f"{entry.name} in {self.folder} is a folder, not a job; put files "
                       "there that are jobs")  # fmt: skip

    def _take(self, claims: Sequence[_Claim]) -> None:
        """Write the jobs to the journal, and move the files to where they stay."""
        requests = []
        for claim in claims:
            try:
                request = self._read(claim)
            except Exception as error:  # whatever is odd about one file, the others are taken
                self._reject(claim, _worded(error))
            else:
                requests.append((claim, request))
        self._left = [claim for claim, _ in requests]
        if requests:
            self._intake.accept([(c.id, r, c.arrived_at) for c, r in requests])
        self._left = []
        for claim, _ in requests:
            self._keep(claim)

    def _read(self, claim: _Claim) -> Request:
        request = self._intake.read(_values(claim.path))
        stem = Path(claim.name).stem
        if request.name or is_id(stem):
            return request
        return request.model_copy(update={"name": plain(stem)})

    def _keep(self, claim: _Claim) -> None:
        with contextlib.suppress(OSError):
            claim.path.rename(self.folder / ACCEPTED / claim.path.name)

    def _reject(self, claim: _Claim, reason: str) -> None:
        place = self.folder / REJECTED / claim.name
        if place.exists():
            place = self.folder / REJECTED / claim.path.name
        reason = reason.replace(str(claim.path), claim.name)
        try:
            write_whole(place.with_name(place.name + NOTE), f"{reason}\n".encode(errors=_ESCAPED))
            claim.path.rename(place)
        except (OSError, StorageError) as error:
            reason = f"{reason} (and it cannot be set aside: {error})"
        self._note(
            "rejected", f"{claim.name} is not a job, and was moved to {place.parent}: {reason}"
        )

    def _note(self, kind: Kind, text: str) -> None:
        self._intake.tell(Event(kind, text=text.encode(errors=_ESCAPED).decode()))


def _may_be_job(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is to be taken: links are, too, and then refused."""
    is_hidden = entry.name.startswith(".") or entry.name.endswith((".part", ".tmp"))
    return not is_hidden and entry.name not in {ACCEPTED, REJECTED} and not _is_folder(entry)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # it is gone
        return False


def count_files(folder: Path, known: Container[str]) -> int:
    """Count the files of a spool folder that are yet to become jobs; ``known`` has ids of jobs."""
    n = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        n += sum(map(_may_be_job, entries))
    with contextlib.suppress(OSError), os.scandir(folder / _TAKING) as entries:
        n += sum(entry.name.partition(_JOINT)[0] not in known for entry in entries)
    return n


def _cut(name: str) -> str:
    """Return the end of a file name, which may be any bytes, without half a character."""
    whole = os.fsencode(name)
    if len(whole) <= _MOST_NAME:
        return name
    return os.fsdecode(whole[-_MOST_NAME:].lstrip(bytes(range(0x80, 0xC0))))


def _worded(error: Exception) -> str:
    return str(error) if isinstance(error, ForetellError) else f"{type(error).__name__}: {error}"


def _values(path: Path) -> dict[str, Any]:
    """Read a job file: JSON, or TOML."""
    if path.is_symlink():
        raise UsageError("it is a link, and jobs must be files; copy what it points to")
    if path.suffix == ".toml":
        return read_toml_file(path, _JOB_FILE)
    if path.suffix != ".json":
        raise UsageError("its name ends neither in .json nor in .toml; rename it")
    try:
        content = read_content(path, MOST_BYTES)
        found = json.loads(content)
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError("it must be a JSON object with class and run")
    return found


def write_job(folder: Path, values: dict[str, Any]) -> str:
    """Put a job into a spool folder, by renaming; return the id that it will have.

    Raises a UsageError for what no dispatcher would take.
    """
    request = validated(Request, values)
    content = json.dumps(values).encode()
    check_size(max(len(content), len(request.model_dump_json())))
    job_id = new_id()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}") from None
    write_whole(folder / f"{job_id}.json", content)
    return job_id


__all__ = ["ACCEPTED", "NOTE", "REJECTED", "Spool", "count_files", "write_job"]
