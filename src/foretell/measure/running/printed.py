"""What jobs print: a plain file, of which only the end takes up space on the disk."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

_LOOK_EVERY_S = 0.1
_BLOCK = 1 << 20  # what is given back begins and ends at multiples of it
_KEEP_SIZE_AND_PUNCH_HOLE = 1 | 2  # of Linux


class Printed:
    """A file that jobs print to.

    It is a plain file, so that no job is slowed, blocked or ended by how much it prints, and no run
    waits for a process that keeps it open. What is older than the end is given back to the file
    system while the job goes on. That is possible on Linux, with nearly every file system;
    elsewhere everything is kept until the file is closed. At least ``most_bytes`` of the end stay.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._n_given_back = 0
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - until close

    @property
    def n_bytes(self) -> int:
        """How much was printed so far."""
        return os.fstat(self.file.fileno()).st_size

    def end(self, most_bytes: int, since: int = 0) -> str:
        """Return the end of what was printed, and nothing that came before some place in it."""
        n_bytes = self.n_bytes
        start = max(since, n_bytes - min(most_bytes, self._most_bytes))
        # Not by seeking: the job prints at the position of this file.
        return os.pread(self.file.fileno(), max(0, n_bytes - start), start).decode(errors="replace")

    def trim(self) -> None:
        """Give back what is older than the end, if that is much."""
        old = (self.n_bytes - self._most_bytes) // _BLOCK * _BLOCK
        if old > self._n_given_back and _give_back(self.file.fileno(), self._n_given_back, old):
            self._n_given_back = old

    @contextmanager
    def trimmed(self) -> Iterator[None]:
        """Trim it now and then, as long as this is open."""
        is_over = threading.Event()

        def trim() -> None:
            while not is_over.wait(_LOOK_EVERY_S):
                self.trim()

        thread = threading.Thread(target=trim, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def close(self) -> None:
        """Remove the file."""
        self.file.close()


def _give_back(descriptor: int, start: int, end: int) -> bool:
    """Give a part of a file back to the file system; return whether that is done."""
    fallocate = getattr(ctypes.CDLL(None), "fallocate", None) if sys.platform == "linux" else None
    if fallocate is None:
        return False
    place = (ctypes.c_int64(start), ctypes.c_int64(end - start))
    return bool(fallocate(descriptor, _KEEP_SIZE_AND_PUNCH_HOLE, *place) == 0)
