"""Files of Spark event logs: one or rolling, plain or zstd, read line by line and within limits."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from foretell.errors import UsageError
from foretell.files.content import refuse_special

_CHUNK_BYTES = 1 << 20
#: A longer line is skipped: the plan of a query may be large, and is not needed.
_MOST_LINE_BYTES = 64 << 20
#: Unpacked; a small file may claim to unpack to any size.
_MOST_LOG_BYTES = 20 << 30
_MOST_WINDOW_BYTES = 128 << 20
_MOST_FILES = 100_000

_ZSTD = b"\x28\xb5\x2f\xfd"
_CODECS = ("zstd", "lz4", "lzf", "snappy")
_ROLLING = "eventlog_v2_"
_ROLLED = re.compile(r"events_(?P<index>\d{1,9})_(?P<rest>.+)")
_NAMED = re.compile(rb'\{"Event":"([\w.$]+)"')


@dataclass
class EventLog:
    """The log of one application.

    Attributes
    ----------
    is_cut
        Whether the end is missing: the application still runs, was killed, or a file is damaged.
    n_unread
        How many lines were no events, or too long.
    """

    path: Path
    files: list[Path]
    is_cut: bool = False
    n_unread: int = field(default=0)

    @property
    def starts_packed(self) -> bool:
        """Whether the first file begins as one that zstd packed."""
        if not self.files:
            return False
        with self.files[0].open("rb") as stream:
            return stream.read(len(_ZSTD)) == _ZSTD

    def events(self, names: frozenset[str]) -> Iterator[dict[str, Any]]:
        """Yield the events of some names."""
        for file in self.files:
            with _opened(file) as stream:
                for line in self._lines(stream):
                    if event := self._event(line, names):
                        yield event

    def _event(self, line: bytes, names: frozenset[str]) -> dict[str, Any] | None:
        named = _NAMED.match(line)
        if named and named[1].decode() not in names:
            return None  # most lines, and the longest
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            self.n_unread += 1
            return None
        is_event = isinstance(event, dict) and str(event.get("Event")) in names
        return event if is_event else None

    def _lines(self, stream: IO[bytes]) -> Iterator[bytes]:
        """Yield whole lines; the rest after a cut or a damage is left."""
        line, n_bytes, is_too_long = b"", 0, False
        while chunk := self._chunk(stream):
            n_bytes += len(chunk)
            first, *others = chunk.split(b"\n")
            line = b"" if is_too_long else line + first
            for part in others:
                if line and not is_too_long:
                    yield line
                line, is_too_long = part, False
            if len(line) > _MOST_LINE_BYTES:
                line, is_too_long = b"", True
                self.n_unread += 1
            if n_bytes > _MOST_LOG_BYTES:
                self.is_cut = True
                return
        self.is_cut = self.is_cut or bool(line)

    def _chunk(self, stream: IO[bytes]) -> bytes:
        try:
            return stream.read(_CHUNK_BYTES)
        except Exception:  # the codec has its own errors for damage
            self.is_cut = True
            return b""


def find_logs(folder: Path) -> list[EventLog]:
    """Find the event logs in a folder; a UsageError says why there are none."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder '{folder}'; give that of spark.eventLog.dir")
    if folder.name.startswith(_ROLLING):
        return [_rolling(folder)]
    found = []
    for i, path in enumerate(sorted(folder.iterdir())):
        if i >= _MOST_FILES:
            raise UsageError(f"{folder} has more than {_MOST_FILES:,} files; give another folder")
        if path.name.startswith("."):
            continue
        if path.is_dir() and path.name.startswith(_ROLLING):
            found.append(_rolling(path))
        elif path.is_file():
            found.append(EventLog(path, [path], is_cut=path.name.endswith(".inprogress")))
    if not found:
        raise UsageError(
            f"{folder} has no event logs; run Spark with spark.eventLog.enabled=true and "
            f"spark.eventLog.dir={folder}"
        )
    return found


def _rolling(folder: Path) -> EventLog:
    """Put the files of a rolling log in order; a compacted one stands for those before it."""
    rolled = {}
    for path in folder.iterdir():
        if found := _ROLLED.fullmatch(path.name):
            rolled[int(found["index"]), path.name.endswith(".compact")] = path
    compacted = max((index for index, is_compact in rolled if is_compact), default=0)
    files = [
        path
        for (index, is_compact), path in sorted(rolled.items())
        if index > compacted or (index == compacted and is_compact)
    ]
    is_cut = any(path.name.startswith("appstatus_") and path.suffix == ".inprogress"
                 for path in folder.iterdir())  # fmt: skip
    return EventLog(folder, files, is_cut=is_cut)


def _opened(path: Path) -> AbstractContextManager[IO[bytes]]:
    codec = path.name.removesuffix(".inprogress").removesuffix(".compact").rpartition(".")[2]
    if codec in _CODECS and codec != "zstd":
        raise UsageError(
            f"{path} is compressed with {codec}, which is not read here; run Spark with "
            "spark.eventLog.compression.codec=zstd, or spark.eventLog.compress=false"
        )
    try:
        refuse_special(path)
        return _opened_zstd(path) if codec == "zstd" else path.open("rb")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _opened_zstd(path: Path) -> AbstractContextManager[IO[bytes]]:
    if importlib.util.find_spec("zstandard") is None:
        raise UsageError(
            f"{path} is compressed, and reading it needs: pip install 'foretell[spark]'"
        )
    import zstandard

    unpacking = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW_BYTES)
    reader: AbstractContextManager[IO[bytes]] = unpacking.stream_reader(
        path.open("rb"), read_across_frames=True, closefd=True
    )
    return reader
