"""Epochs, profiles and marks of all searches: what trainings learn from each other."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from foretell.closeable import Closeable
from foretell.files.directory import cache_folder
from foretell.tune.store.database import Database
from foretell.tune.store.rows import LEASE, LEFT_OUT, EpochRow, ProfileRow, packed

if TYPE_CHECKING:
    import pandas as pd

#: A trial that was silent for so many epochs, and so many seconds more, has ended.
_SILENT_EPOCHS, _SILENT_S = 3, 3.0
#: Trials that must have ended after an epoch before it counts as a rung.
_LEAST_ENDS = 2
#: Probes that did not end before a setting counts as infeasible for all trials of a job.
_LOST_PROBES = 2
_EPOCH_COLUMNS = (
    "job", "trial", "epoch", "phase", "hyper", "system", "epoch_s", "core_s", "load_others",
    "n_siblings", "machine",
)  # fmt: skip

#: Stores of before have no such table.
_REASONS = """
CREATE TABLE IF NOT EXISTS reasons (
    job TEXT NOT NULL, trial TEXT NOT NULL, epoch INTEGER NOT NULL, reason TEXT NOT NULL,
    UNIQUE (job, trial, epoch, reason))
"""


def default_path() -> Path:
    """Return where the store is by default: in the user's cache."""
    return Path(os.environ.get("FORETELL_STORE") or cache_folder() / "tune.sqlite")


def open_store(path: str | Path | Store | None = None) -> Store:
    """Open the store of searches; a file that cannot be used is left alone, and memory is used.

    Parameters
    ----------
    path
        The file, which is made if it does not exist; ``":memory:"`` keeps nothing; by default
        ``FORETELL_STORE``, or ``foretell/tune.sqlite`` in the user's cache.

    >>> store = open_store(":memory:")
    >>> store.add_epochs([EpochRow("lenet", "t1", 0, "warm-up", {"lr": 0.1}, {"threads": 2}, 1.5)])
    >>> store.epochs("lenet")[["trial", "h.lr", "s.threads", "epoch_s"]].to_dict("records")
    [{'trial': 't1', 'h.lr': 0.1, 's.threads': 2, 'epoch_s': 1.5}]
    """
    if isinstance(path, Store):
        return path
    if path == ":memory:":
        return Store(None)
    return Store(Path(path) if path is not None else default_path())


class Store(Closeable):
    """Epochs and profiles of all searches; safe to use from many processes and threads."""

    def __init__(self, path: Path | None, *, is_needed: bool = False) -> None:
        self._data = Database(path, is_needed=is_needed)

    @property
    def path(self) -> Path | None:
        """The file; None if nothing is kept."""
        return self._data.path

    def close(self) -> None:
        """Close the file."""
        self._data.close()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Open the same file where a copy is sent, such as by Ray."""
        return open_store, (":memory:" if self.path is None else str(self.path),)

    # Epochs

    def add_epochs(self, rows: Iterable[EpochRow], *, replacing: bool = False) -> None:
        """Add epochs; of an epoch that is there already, the first row stays unless replaced."""
        now_s, here = time.time(), machine_id()
        verb = "REPLACE" if replacing else "IGNORE"
        marks = ", ".join("?" * (len(_EPOCH_COLUMNS) + 1))
        names = ", ".join((*_EPOCH_COLUMNS, "at_s"))
        words = f"INSERT OR {verb} INTO epochs ({names}) VALUES ({marks})"  # noqa: S608 - ours
        statements = []
        for r in rows:
            values = [
                r.job, r.trial, r.epoch, r.phase, packed(r.hyper), packed(r.system), r.epoch_s,
                r.core_s, r.load_others, r.n_siblings, r.machine or here, now_s,
            ]  # fmt: skip
            statements.append((words, values))
        if statements:
            self._data.run_many(statements)

    def rows(
        self, job: str | None = None, *, share: bool = False, most: int = -1
    ) -> list[EpochRow]:
        """Return the newest epochs of a job, oldest first; of other machines only to share them."""
        words, values = _where(job, share)
        found = self._data.run(
            f"SELECT {', '.join(_EPOCH_COLUMNS)} FROM epochs {words} "  # noqa: S608 - ours
            "ORDER BY id DESC LIMIT ?",
            [*values, most],
        )
        return [_epoch_row(row) for row in reversed(found)]

    def epochs(self, job: str | None = None, *, share: bool = False) -> pd.DataFrame:
        """Return the epochs of a job, or of all jobs, as a table.

        Hyperparameters are columns ``h.NAME``, and system settings ``s.NAME``.
        """
        import pandas as pd

        records = []
        for row in self.rows(job, share=share):
            record: dict[str, Any] = {
                "job": row.job, "trial": row.trial, "epoch": row.epoch, "phase": row.phase,
            }  # fmt: skip
            record |= {f"h.{name}": value for name, value in row.hyper.items()}
            record |= {f"s.{name}": value for name, value in row.system.items()}
            record |= {
                "epoch_s": row.epoch_s, "core_s": row.core_s, "load_others": row.load_others,
                "n_siblings": row.n_siblings, "machine": row.machine,
            }  # fmt: skip
            records.append(record)
        outcomes = ["epoch_s", "core_s", "load_others", "n_siblings", "machine"]
        table = pd.DataFrame(records, columns=None if records else ["job", "trial", *outcomes])
        inputs = [name for name in table.columns if name not in outcomes]
        return table[[*inputs, *outcomes]]

    def left_out(self, job: str | None = None) -> list[float]:
        """Return how many cores others used in each epoch of this machine that teaches nothing."""
        words = "SELECT load_others FROM epochs WHERE phase = ? AND machine = ?"
        values = [LEFT_OUT, machine_id()]
        if job is not None:
            words, values = f"{words} AND job = ?", [*values, job]
        return [float(load) for (load,) in self._data.run(words, values)]

    def n_rows(self, job: str) -> int:
        """Return how many epochs of a job were measured on this machine."""
        words, values = _where(job, False)
        return int(self._data.run(f"SELECT COUNT(*) FROM epochs {words}", values)[0][0])  # noqa: S608 - ours

    def jobs(self) -> list[str]:
        """Return the names of all jobs."""
        words, values = _where(None, True)
        found = self._data.run(f"SELECT DISTINCT job FROM epochs {words} ORDER BY job", values)  # noqa: S608 - ours
        return [job for (job,) in found]

    def merge(self, other: Store) -> None:
        """Add the epochs of another store, such as that of another machine."""
        self.add_epochs(other.rows(share=True))

    # Where trials ended

    def add_end(self, job: str, trial: str, n_epochs: int, reason: str) -> None:
        """Note after how many epochs a trial ended, and why: complete, stopped or error.

        What a training says itself counts more than what its search saw of it.
        """
        words = "INSERT OR REPLACE INTO ends VALUES (?, ?, ?, ?)"
        if reason == "stopped":
            words = "INSERT OR IGNORE INTO ends VALUES (?, ?, ?, ?)"
        self._data.run(words, [job, trial, n_epochs, reason])

    def ends(self, job: str) -> dict[str, tuple[int, str]]:
        """Return after how many epochs each trial of a job ended, and why."""
        found = self._data.run("SELECT trial, n_epochs, reason FROM ends WHERE job = ?", [job])
        return {trial: (int(n), reason) for trial, n, reason in found}

    def rungs(self, job: str, n_epochs: int) -> tuple[int, ...]:
        """Return after how many epochs trials of a job were stopped before, as far as is known."""
        silent: Counter[int] = Counter()
        ended = dict(self._data.run("SELECT trial, reason FROM ends WHERE job = ?", [job]))
        times: dict[str, list[tuple[int, float, float]]] = {}
        for trial, epoch, epoch_s, at_s in self._data.run(
            "SELECT trial, epoch, epoch_s, at_s FROM epochs WHERE job = ? AND machine = ?",
            [job, machine_id()],
        ):
            times.setdefault(trial, []).append((epoch, epoch_s, at_s))
        for trial, rows in times.items():
            typical_s = statistics.median(row[1] for row in rows)
            quiet_s = time.time() - max(row[2] for row in rows)
            is_over = quiet_s > _SILENT_EPOCHS * typical_s + _SILENT_S
            if ended.get(trial) == "stopped" or (is_over and trial not in ended):
                silent[max(row[0] for row in rows) + 1] += 1
        return tuple(sorted(n for n, k in silent.items() if k >= _LEAST_ENDS and n < n_epochs))

    # Why settings were chosen, for the callback of a search

    def add_reasons(self, job: str, trial: str, reasons: Sequence[tuple[int, str]]) -> None:
        """Note what a trial changed before which epoch, and why."""
        words = "INSERT OR IGNORE INTO reasons VALUES (?, ?, ?, ?)"
        rows = [(words, [job, trial, epoch, why]) for epoch, why in reasons]
        self._data.run_many([(_REASONS, []), *rows])

    def reasons(self, job: str, trial: str) -> list[tuple[int, str]]:
        """Return what a trial changed before which epoch, and why."""
        words = "SELECT epoch, reason FROM reasons WHERE job = ? AND trial = ? ORDER BY rowid"
        found = self._data.run_many([(_REASONS, []), (words, [job, trial])])[-1]
        return [(int(epoch), why) for epoch, why in found]

    def has_own_rows(self, job: str, trial: str) -> bool:
        """Tell whether a trial stores its epochs itself: with more settings than its lease."""
        words = "SELECT DISTINCT system FROM epochs WHERE job = ? AND trial = ? AND machine = ?"
        found = self._data.run(words, [job, trial, machine_id()])
        return any(set(json.loads(system)) - {LEASE} for (system,) in found)

    # Probes under way, and settings that never come to an end

    def begin_probe(self, job: str, trial: str, system: Mapping[str, Any]) -> None:
        """Note that a setting is on trial: if the process dies of it, the note stays."""
        self._data.run(
            "INSERT OR REPLACE INTO probes VALUES (?, ?, ?, ?, ?, ?)",
            [job, trial, machine_id(), packed(system), os.getpid(), time.time()],
        )

    def end_probe(self, job: str, trial: str, system: Mapping[str, Any]) -> None:
        """Note that an epoch under the setting came to its end."""
        self._data.run(
            "DELETE FROM probes WHERE job = ? AND trial = ? AND machine = ? AND system = ?",
            [job, trial, machine_id(), packed(system)],
        )

    def infeasible(self, job: str, trial: str) -> list[dict[str, float | str]]:
        """Return the settings whose probes did not end: once in this trial, or twice in the job."""
        found = self._data.run(
            "SELECT trial, system, pid FROM probes WHERE job = ? AND machine = ? ORDER BY system",
            [job, machine_id()],
        )
        under_way = {pid for _, _, pid in found if pid != os.getpid() and psutil.pid_exists(pid)}
        found = [row for row in found if row[2] not in under_way]
        lost = Counter(system for _, system, _ in found)
        own = {system for name, system, _ in found if name == trial}
        return [json.loads(s) for s, n in lost.items() if s in own or n >= _LOST_PROBES]

    # Profiles, for paper mode

    def add_profile(self, row: ProfileRow) -> None:
        """Add a profile, or what became of it; a best setting that was found stays."""
        best_s = None if row.best_s == float("inf") else row.best_s
        self._data.run(
            "INSERT INTO profiles (job, trial, machine, batch, counters, was_known, best, best_s) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, trial, machine) DO UPDATE SET "
            "best = excluded.best, best_s = excluded.best_s WHERE excluded.best_s IS NOT NULL",
            [row.job, row.trial, machine_id(), row.batch, packed(row.counters),
             int(row.was_known), packed(row.best), best_s],
        )  # fmt: skip

    def profiles(self) -> list[ProfileRow]:
        """Return all profiles of this machine, the oldest first: other jobs may be similar."""
        found = self._data.run(
            "SELECT job, trial, batch, counters, was_known, best, best_s FROM profiles "
            "WHERE machine = ? ORDER BY id",
            [machine_id()],
        )
        return [
            ProfileRow(job, trial, batch, json.loads(counters), bool(known), json.loads(best),
                       float("inf") if best_s is None else best_s)
            for job, trial, batch, counters, known, best, best_s in found
        ]  # fmt: skip

    # Trainings that run now

    def enter(self, job: str, started_s: float) -> None:
        """Note that this process trains, and when it was started."""
        values = [os.getpid(), started_s, machine_id(), job]
        self._data.run("INSERT OR REPLACE INTO hooks VALUES (?, ?, ?, ?)", values)

    def leave(self, pid: int) -> None:
        """Note that a process does not train any more."""
        self._data.run("DELETE FROM hooks WHERE pid = ? AND machine = ?", [pid, machine_id()])

    def trainings(self) -> list[tuple[int, float]]:
        """Return the processes that train on this machine, and when each was started."""
        found = self._data.run(
            "SELECT pid, started_s FROM hooks WHERE machine = ? ORDER BY pid", [machine_id()]
        )
        return [(int(pid), float(started_s)) for pid, started_s in found]

    # Restarts, for leases

    def add_restart(self, restart_s: float) -> None:
        """Note how long a trial took to go on after its lease was changed."""
        self._data.run(
            "INSERT INTO restarts (machine, restart_s) VALUES (?, ?)", [machine_id(), restart_s]
        )

    def restart_s(self, prior_s: float) -> float:
        """Return how long restarts take: the median of the prior and those seen lately."""
        found = self._data.run(
            "SELECT restart_s FROM restarts WHERE machine = ? ORDER BY id DESC LIMIT 9",
            [machine_id()],
        )
        return float(statistics.median([prior_s, *(seconds for (seconds,) in found)]))


def _where(job: str | None, share: bool) -> tuple[str, list[str]]:
    parts, values = ["phase != ?"], [LEFT_OUT]
    if job is not None:
        parts.append("job = ?")
        values.append(job)
    if not share:
        parts.append("machine = ?")
        values.append(machine_id())
    return "WHERE " + " AND ".join(parts), values


def _epoch_row(row: Sequence[Any]) -> EpochRow:
    named = dict(zip(_EPOCH_COLUMNS, row, strict=True))
    named |= {name: json.loads(named[name]) for name in ("hyper", "system")}
    return EpochRow(**named)


@cache
def machine_id() -> str:
    """Return a name for machines on which epochs take equally long; it does not tell which one.

    The processor, the cores that may be used, and the host: two hosts of one kind have two names.
    """
    from foretell.executors.cores import n_cores
    from foretell.measure.running.machine import describe_machine

    about = describe_machine()
    parts = (platform.node(), about["cpu"], about["n_threads"], n_cores(), about["architecture"])
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
