"""The output directory: one campaign and one process at a time, and files that appear whole."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from foretell.errors import StorageError

LOCK, JOURNAL, LOG = "lock", "journal", "log.txt"
RESULTS, SUMMARY, LEADERBOARD = "results.json", "results.txt", "leaderboard.csv"
CAMPAIGN, BEST = "campaign.toml", "best.foretell"

_OURS = {LOCK, JOURNAL, LOG, RESULTS, SUMMARY, LEADERBOARD, CAMPAIGN}
_LOCK_WAIT_S = 3.0  # a process killed a moment ago may not be quite gone


@contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Make the directory if need be and keep other processes out of it."""
    try:
        _check_free(directory)
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / LOCK).open("a")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StorageError(
            f"the output directory {directory} cannot be written: {reason}. "
            "Give another one with -o."
        ) from None
    with lock:
        _acquire(lock, directory)
        yield


def _check_free(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise StorageError(f"{directory} is a file; -o names a directory for the results")
    if not directory.exists():
        return
    foreign = [
        p.name
        for p in directory.iterdir()
        if p.name not in _OURS and p.suffix != ".foretell" and not p.name.endswith(".part")
    ]
    if foreign and not (directory / JOURNAL).exists():
        raise StorageError(
            f"{directory} holds other files (such as {sorted(foreign)[0]}) and no results of "
            "foretell; nothing is written over. Give a new directory with -o."
        )


def _acquire(lock: IO[str], directory: Path) -> None:
    # A record lock belongs to this process alone: forked workers do not keep it alive.
    import fcntl

    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in {errno.EACCES, errno.EAGAIN}:
                raise
            if time.monotonic() > deadline:
                raise StorageError(
                    f"another foretell works in {directory}. Wait for it to end, or give "
                    "another directory with -o."
                ) from None
            time.sleep(0.1)
        else:
            return


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of one."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StorageError(
            f"{path} cannot be written: {error.strerror}. What is finished is kept in the "
            "journal; run the same command again to continue."
        ) from None
