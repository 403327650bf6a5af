"""The SQLite file under the store: opened by many processes, whole after any of them is killed.

What cannot be used (damaged, locked, of another version) is left as it is: the database is then
kept in memory, and one line in the log says so.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foretell.errors import StorageError

LOG = logging.getLogger("foretell.tune")

#: Statements of SQL with their values, which belong together.
Statements = Sequence[tuple[str, Sequence[Any]]]

VERSION = 1
#: How long to wait for other processes; a training should not wait longer.
_WAIT_S = 2.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS epochs (
    id INTEGER PRIMARY KEY, job TEXT NOT NULL, trial TEXT NOT NULL, epoch INTEGER NOT NULL,
    phase TEXT NOT NULL, machine TEXT NOT NULL, hyper TEXT NOT NULL, system TEXT NOT NULL,
    epoch_s REAL NOT NULL, core_s REAL NOT NULL, load_others REAL NOT NULL,
    n_siblings INTEGER NOT NULL, at_s REAL NOT NULL, UNIQUE (job, trial, epoch, machine));
CREATE TABLE IF NOT EXISTS profiles (
    id INTEGER PRIMARY KEY, job TEXT NOT NULL, trial TEXT NOT NULL, machine TEXT NOT NULL,
    batch TEXT NOT NULL, counters TEXT NOT NULL, was_known INTEGER NOT NULL,
    best TEXT NOT NULL, best_s REAL, UNIQUE (job, trial, machine));
CREATE TABLE IF NOT EXISTS probes (
    job TEXT NOT NULL, trial TEXT NOT NULL, machine TEXT NOT NULL, system TEXT NOT NULL,
    pid INTEGER NOT NULL, at_s REAL NOT NULL, UNIQUE (job, trial, machine, system));
CREATE TABLE IF NOT EXISTS hooks (
    pid INTEGER PRIMARY KEY, started_s REAL NOT NULL, machine TEXT NOT NULL, job TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS restarts (
    id INTEGER PRIMARY KEY, machine TEXT NOT NULL, restart_s REAL NOT NULL);
CREATE TABLE IF NOT EXISTS ends (
    job TEXT NOT NULL, trial TEXT NOT NULL, n_epochs INTEGER NOT NULL, reason TEXT NOT NULL,
    UNIQUE (job, trial));
"""


class Database:
    """A file of SQLite, or memory if it cannot be used.

    Parameters
    ----------
    path
        The file; None for memory from the start.
    is_needed
        Raise an error if the file cannot be used: memory would be of no use.
    """

    def __init__(self, path: Path | None, *, is_needed: bool = False) -> None:
        self.path, self._is_needed = path, is_needed
        self._lock = threading.RLock()
        self._put_off: deque[Statements] = deque()
        self._open()

    @property
    def is_in_memory(self) -> bool:
        """Whether nothing is kept after this process."""
        return self.path is None

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement by itself, and return its rows."""
        return self.run_many([(statement, values)])[-1]

    def run_many(self, statements: Statements) -> list[list[tuple[Any, ...]]]:
        """Run statements in one transaction, and return the rows of each.

        A training that is collected ends wherever its thread is, even in the middle of a
        transaction. What it writes then comes after that, and returns no rows.
        """
        with self._lock:
            if self._pid != os.getpid():  # a connection must not cross a fork
                self._open()
            try:
                if self._connection.in_transaction:
                    if _is_reading(statements):
                        return self._execute(statements)
                    self._put_off.append(statements)
                    return [[] for _ in statements]
                found = self._transact(statements)
            except sqlite3.Error as error:
                if self.is_in_memory:
                    raise
                self._forget(error)
                found = self._transact(statements)
            while self._put_off:
                self.run_many(self._put_off.popleft())
            return found

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._pid == os.getpid():
                self._connection.close()

    def _transact(self, statements: Statements) -> list[list[tuple[Any, ...]]]:
        with self._connection:
            if not _is_reading(statements):
                self._connection.execute("BEGIN IMMEDIATE")
            return self._execute(statements)

    def _execute(self, statements: Statements) -> list[list[tuple[Any, ...]]]:
        return [self._connection.execute(*each).fetchall() for each in statements]

    def _open(self) -> None:
        self._pid = os.getpid()
        try:
            self._connection = _connect(self.path)
        except (sqlite3.Error, OSError) as error:
            if self.path is None:
                raise
            self._forget(error)

    def _forget(self, error: Exception) -> None:
        """Go on in memory, if that is of use."""
        if self._is_needed:
            raise StorageError(
                f"{self.path} cannot be used as a store of epochs: {error}; name another one, or "
                "one that no other program holds and that can be written to"
            ) from error
        LOG.warning(
            "%s cannot be used (%s); what is learned now is not kept after this run",
            self.path, error,
        )  # fmt: skip
        self.path = None
        self._connection = _connect(None)


def _is_reading(statements: Statements) -> bool:
    return all(words.lstrip().startswith("SELECT") for words, _ in statements)


def is_store(path: Path) -> bool:
    """Tell whether a file is a store of epochs, of any version."""
    words = "SELECT name FROM sqlite_master WHERE type = 'table'"
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_WAIT_S)) as connection:
            names = {name for (name,) in connection.execute(words)}
    except sqlite3.OperationalError:
        return True  # locked, or read-only: who opens it is told
    except sqlite3.DatabaseError:
        return False
    return {"epochs", "ends"} <= names


def _connect(path: Path | None) -> sqlite3.Connection:
    """Open a database and make what it lacks; raise sqlite3.Error if it is not one of ours."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(
        path or ":memory:", timeout=_WAIT_S, isolation_level=None, check_same_thread=False
    )
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    _check(connection)
    # In WAL mode readers and one writer go on together, and a killed writer leaves nothing half.
    _use_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    if _version(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")  # another process may be making the tables
    for statement in filter(None, map(str.strip, _SCHEMA.split(";"))):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check(connection: sqlite3.Connection) -> None:
    """Refuse databases of others and of other versions; a new file is empty."""
    connection.execute("BEGIN")
    version = _version(connection)
    tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    connection.execute("COMMIT")
    if version != VERSION and (version or tables):
        raise sqlite3.DatabaseError(f"its version is {version}, and {VERSION} is needed")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch modes; SQLite does not wait for others here as it does elsewhere."""
    until_s = time.monotonic() + _WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.01)
        else:
            return
