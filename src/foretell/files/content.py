"""The content of a file or of an open stream, up to a limit: a stream may never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

#: The most that is read from a stream, whose size is not known beforehand.
MOST_STREAM_BYTES = 256_000_000
_CHUNK_BYTES = 1_000_000
_SQLITE = b"SQLite format 3\0"
_STANDARD_INPUT = Path("/dev/stdin")
#: Streams that the caller has opened: standard input, and those of ``<(command)`` in a shell.
_OPEN_STREAMS = (_STANDARD_INPUT, Path("/dev/fd"), Path("/proc/self/fd"))


def is_database(path: Path) -> bool:
    """Whether a path leads to a file of SQLite."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(_SQLITE)) == _SQLITE


def read_content(path: Path, most_bytes: int) -> bytes:
    """Read a whole file, or with ``-`` standard input, once: a stream cannot be read twice.

    Raises an OSError, as opening a file does, when there is more than may be read, and for named
    pipes and devices: opening a pipe that nothing writes to would wait forever.
    """
    if path == Path("-"):
        path = _STANDARD_INPUT
    if not (path in _OPEN_STREAMS or path.parent in _OPEN_STREAMS):
        refuse_special(path, "; give a file, or - to read standard input")
    with path.open("rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            if status.st_size > most_bytes:
                raise _too_large(f"it has {status.st_size:,} bytes, more than {most_bytes:,}")
            return file.read()
        most_bytes = min(most_bytes, MOST_STREAM_BYTES)
        content = bytearray()
        while chunk := file.read(_CHUNK_BYTES):
            content += chunk
            if len(content) > most_bytes:
                raise _too_large(f"it does not end within {most_bytes:,} bytes")
        return bytes(content)


def refuse_special(path: Path, remedy: str = "") -> None:
    """Raise an OSError for a named pipe, a socket or a device, without opening it."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, f"it is a named pipe or a device{remedy}")


def _too_large(reason: str) -> OSError:
    return OSError(errno.EFBIG, f"{reason}, the most that is read")
