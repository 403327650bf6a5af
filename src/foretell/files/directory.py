"""Where results are written: by one process at a time, and never half a file."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from foretell.errors import Option, StorageError
from foretell.files.content import refuse_special
from foretell.files.journal import is_journal

LOCK, JOURNAL, LOG = "lock", "journal", "log.txt"

_OUTPUT = Option("output")
_ELSEWHERE = ("Give another place with ", _OUTPUT, ".")
_LOCK_WAIT_S = 3.0  # a process killed a moment ago may still be ending
_claims: set[Path] = set()  # locks that this process holds


class TakenError(StorageError):
    """Another process, or another thread, writes there."""


@contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Create the directory if needed, and keep other processes out of it."""
    try:
        _check_free(directory)
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(directory, error) from None
    with locked(directory / LOCK, directory):
        yield


def is_claimed(directory: Path) -> bool:
    """Whether a process, this one or another, holds the lock of a directory."""
    import fcntl

    path = directory / LOCK
    if path.resolve() in _claims:  # closing the file again would release the lock
        return True
    try:
        with path.open("rb") as lock:
            fcntl.lockf(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return False


@contextmanager
def locked(path: Path, results: Path) -> Iterator[None]:
    """Hold a lock, so that no other process writes the same results."""
    if path.resolve() in _claims:  # closing the file again would release the lock
        raise _taken(results)
    try:
        if path.exists():
            refuse_special(path)
        lock = path.open("a")
    except OSError as error:
        raise _unwritable(results, error) from None
    with lock:
        _acquire(lock, results)
        # Other threads of this process, too: the whole process owns the lock of a file.
        claim = path.resolve()
        if claim in _claims:
            raise _taken(results)
        _claims.add(claim)
        try:
            yield
        finally:
            _claims.discard(claim)


def _unwritable(results: Path, error: OSError) -> StorageError:
    reason = error.strerror or type(error).__name__
    return StorageError(f"{results} cannot be written: {reason}.", remedy=_ELSEWHERE)


def _taken(results: Path) -> TakenError:
    return TakenError(
        f"another foretell is writing to {results}.",
        remedy=("Wait for it to end, or give another place with ", _OUTPUT, "."),
    )


def _check_free(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise StorageError(
            f"{directory} is a file, and results need a directory.", remedy=_ELSEWHERE
        )
    if not directory.exists():
        return
    # Without a journal there is no telling who wrote the rest, even if it is called best.foretell.
    found = sorted(p.name for p in directory.iterdir() if p.name != LOCK)
    if found and not (JOURNAL in found and is_journal(directory / JOURNAL)):
        raise StorageError(
            f"{directory} holds other files (such as {found[0]}) and no journal of foretell; "
            "nothing is overwritten.",
            remedy=("Give a new directory with ", _OUTPUT, "."),
        )


def _acquire(lock: IO[str], results: Path) -> None:
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
                raise _taken(results) from None
            time.sleep(0.1)
        else:
            return


@contextmanager
def logged(path: Path) -> Iterator[logging.Logger]:
    """Open a log file; each run appends to it."""
    # Not a named logger: the logging of the application around us stays as it is.
    logger = logging.Logger("foretell", level=logging.INFO)
    try:
        handler = _Log(path, encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror}. Free some space or change its "
            "permissions, and run the same command again."
        ) from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    try:
        yield logger
    except BaseException as error:
        logger.error("stopped by %s: %s", type(error).__name__, error)
        raise
    finally:
        with suppress(OSError):
            handler.close()


class _Log(logging.FileHandler):
    """A log that does not stop the work when the disk is full: the results matter more."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Ignore the error; logging itself would print a traceback."""


def cache_folder() -> Path:
    """Return the folder in which foretell keeps what this user can measure again."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "foretell"


def make_folder(folder: Path) -> None:
    """Make a folder unless it is there; raise a StorageError if that fails."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be made: {error.strerror}; check the permissions"
        ) from None


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
        with suppress(OSError):
            part.unlink()
        raise StorageError(
            f"{path} cannot be written: {error.strerror}. Free some space or change its "
            "permissions, and run the same command again; what is finished is kept."
        ) from None


def check_free(path: Path, *, force: bool) -> None:
    """Raise a StorageError if something exists where the user wants to write, unless forced."""
    if path.exists() and not force:
        raise StorageError(
            f"{path} exists already", remedy=("name another file, or set ", Option("force"))
        )


def check_new(path: Path, *, force: bool) -> None:
    """Raise a StorageError if a file that the user named cannot be made, or exists, unless forced.

    To be called before the work, so that none is lost.
    """
    try:
        if path.is_dir():
            raise StorageError(f"{path} is a directory; name a file to write")
        check_free(path, force=force)
        if not path.parent.is_dir():
            raise StorageError(
                f"{path} cannot be written: there is no directory {path.parent}; make it first"
            )
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror}; name another file"
        ) from None


def write_new(path: Path, content: bytes, *, force: bool) -> None:
    """Write a file that the user named; one that exists is kept unless forced."""
    check_new(path, force=force)
    write_whole(path, content)
