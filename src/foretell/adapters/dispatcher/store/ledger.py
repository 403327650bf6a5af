"""The ledger: the state of the queue with the journal and the table of runs under it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from foretell.adapters.dispatcher.jobs import Job, new_id
from foretell.adapters.dispatcher.store.records import QueueState, Record
from foretell.adapters.dispatcher.store.runs import RunsTable, has_other_columns, set_aside
from foretell.closeable import Closeable
from foretell.errors import Option, StorageError
from foretell.files.directory import JOURNAL, TakenError, claimed
from foretell.files.journal import Journal, is_journal, read_journal

RUNS, JOBS, ASIDE = "runs.csv", "jobs", "aside"
_FINGERPRINT = {"holds": "jobs of a queue"}
#: A journal is compacted when it has so many more records than are needed.
_MOST_NEEDLESS = 20_000


class Ledger(Closeable):
    """The folder of a queue, claimed by this process.

    Attributes
    ----------
    state
        What the records add up to.
    queue_id
        A name of this queue that no other has; it stays the same after a restart.
    table_aside
        Where a table of runs is now that had other columns; None if there was none.
    """

    def __init__(self, folder: Path, class_names: Sequence[str]) -> None:
        self.folder, self.state = folder, QueueState(class_names)
        self._closing = ExitStack()
        self._pending: list[Record] = []
        self._ended: list[Job] = []
        self._n_records = 0
        self._failure: StorageError | None = None
        self.table_aside: Path | None = None
        try:
            self._closing.enter_context(claimed(folder))
            self._journal = self._closing.enter_context(
                Journal(folder / JOURNAL, _FINGERPRINT, is_remembering=False)
            )
            self._replay()
        except TakenError:
            self._closing.close()
            raise StorageError(
                f"a dispatcher runs already for this queue, and writes to {folder}; submit jobs "
                "to that one, or stop it first"
            ) from None
        except StorageError as error:
            self._closing.close()
            raise _about_state(error) from None

    def _replay(self) -> None:
        first, *records = self._journal.records or [{"id": new_id(), "runs_bytes": 0}]
        self._journal.records = []
        self.queue_id = first["id"]
        ended = [job for job in map(self.state.apply, records) if job is not None]
        self.state.check_classes()
        if has_other_columns(self.folder / RUNS):
            first = {**first, "kind": "queue", "runs_bytes": 0}
            self._journal.rewrite([first, *records])  # a crash after this begins a table, too
            self.table_aside = set_aside(self.folder / RUNS)
        self._runs = self._closing.enter_context(RunsTable(self.folder / RUNS, first["runs_bytes"]))
        self._runs.append(ended)
        self.compact()

    def write(self, records: Iterable[Record]) -> None:
        """Write records to disk, and only then change the state; on an error nothing is changed."""
        assert not self._pending
        written = list(records)
        self._append(written)
        for record in written:
            self._apply(record)
        self._tell_ended()

    def note(self, record: Record) -> None:
        """Change the state; the record is written by the next ``sync``."""
        self._apply(record)
        self._pending.append(record)

    def sync(self) -> None:
        """Write all that was noted; nothing that follows from it may be done before."""
        pending, self._pending = self._pending, []
        if pending:
            try:
                self._append(pending)
            except StorageError as error:
                self._failure = error  # the state is ahead of the journal: a restart is right
                raise
            self._tell_ended()

    def _append(self, records: list[Record]) -> None:
        if self._failure is not None:
            raise self._failure
        self._journal.append(records)
        self._n_records += len(records)

    def tidy(self) -> None:
        """Compact the journal if it has grown much longer than it needs to be."""
        if self._n_records > _MOST_NEEDLESS + 2 * len(self.state.jobs):
            self.compact()

    def compact(self) -> None:
        """Write the fewest records that add up to the state; jobs that ended are in the table."""
        if self._failure is not None:
            raise self._failure
        first = {"kind": "queue", "id": self.queue_id, "runs_bytes": self._runs.sync()}
        self._journal.rewrite([first, *self.state.records()])
        self._n_records = 0

    def close(self) -> None:
        """Release the folder."""
        self._closing.close()

    def _apply(self, record: Record) -> None:
        job = self.state.apply(record)
        if job is not None:
            self._ended.append(job)

    def _tell_ended(self) -> None:
        ended, self._ended = self._ended, []
        try:
            self._runs.append(ended)
        except StorageError as error:
            self._failure = error  # the table lacks rows: a restart writes them
            raise


def read_state(folder: Path, class_names: Sequence[str]) -> QueueState:
    """Read the state of a queue that a dispatcher may be working on."""
    state = QueueState(class_names)
    for record in read_journal(folder / JOURNAL)[1:]:
        state.apply(record)
    state.check_classes()
    return state


def has_state(folder: Path) -> bool:
    """Whether a folder is that of a queue, rather than missing, empty, or of something else."""
    try:
        if not is_journal(folder / JOURNAL):
            return False
    except OSError as error:
        raise StorageError(f"{folder} cannot be read: {error.strerror}") from None
    return all(record.get("kind") == "queue" for record in read_journal(folder / JOURNAL)[:1])


def _about_state(error: StorageError) -> StorageError:
    """Return an error with the option of a queue where files of results have another."""
    remedy: list[Any] = [
        Option("state") if isinstance(p, Option) and p.name == "output" else p for p in error.remedy
    ]
    return StorageError(error.text, at=error.at, option=error.option, remedy=tuple(remedy))
