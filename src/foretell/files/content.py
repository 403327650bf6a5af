"""The content of a file, up to a limit: a device or a pipe may never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

#: The most that is read from a pipe or a device, whose size is not known beforehand.
MOST_STREAM_BYTES = 256_000_000
_CHUNK_BYTES = 1_000_000


def read_content(path: Path, most_bytes: int) -> bytes:
    """Read a whole file, once: a pipe cannot be read twice.

    Raises an OSError, as opening a file does, when there is more than may be read.
    """
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


def _too_large(reason: str) -> OSError:
    return OSError(errno.EFBIG, f"{reason}, the most that is read")
