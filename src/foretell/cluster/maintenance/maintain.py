"""Maintenance, the one path: completed tasks in, refitted models out where they are not worse.

A round is a journal: which tasks it uses, what was judged, what was promoted. After a crash, the
next call goes on with the same round, on the same tasks.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foretell.cluster.maintenance.completed import CompletedTask, CompletedTasks
from foretell.cluster.maintenance.outcome import Maintained, ModelOutcome
from foretell.cluster.maintenance.places import COMPLETED, ROUNDS, records_folder
from foretell.cluster.maintenance.promote import discard_older, promote
from foretell.cluster.maintenance.refit import (
    Lesson,
    ModelFile,
    error_on,
    model_files_of,
    refit,
)
from foretell.decide.placement.cluster import Cluster, read_cluster
from foretell.errors import ForetellError, StorageError, UsageError
from foretell.files.directory import LOCK, locked
from foretell.files.journal import Journal
from foretell.model.saved.model import model_files
from foretell.wording import counted

_FITS, _REPLACED = "fits", "replaced"
_FINGERPRINT = {"records": "rounds of maintenance"}
_N_REPLACED = 3  # of each model


def maintain_models(
    cluster: Path | str | Mapping[str, Any] | Cluster,
    *,
    n_jobs: int | None = None,
    now_s: float | None = None,
) -> Maintained:
    """Refit the models of a cluster on the tasks that completed; promote those not worse.

    Parameters
    ----------
    cluster
        A cluster file with ``records`` in [maintenance], or a dict of its shape.
    n_jobs
        Worker processes of the fits. The result does not depend on it.
    now_s
        The end of the window, in seconds since 1970; by default now.
    """
    read = read_cluster(cluster)
    folder = records_folder(read)
    if folder is None:
        raise UsageError(
            "the cluster file does not say where completed tasks are stored; "
            'write records = "records" under [maintenance]'
        )
    files = model_files_of(_paths(read))
    if not files:
        raise UsageError("no node type has models, so there are none to maintain; name some")
    _make(folder)
    with locked(folder / LOCK, folder), Journal(folder / ROUNDS, _FINGERPRINT) as journal:
        return _Round(read, folder, journal, time.time() if now_s is None else now_s).run(
            files, n_jobs
        )


def _paths(cluster: Cluster) -> dict[str, list[Path]]:
    return {
        table.name: [
            file.resolve() for p in table.model_paths for file in model_files(cluster.folder / p)
        ]
        for table in cluster.node_type
    }


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be made: {error.strerror}; check the permissions"
        ) from None


class _Round:
    """One round: the one that a crash left, or a new one."""

    def __init__(self, cluster: Cluster, folder: Path, journal: Journal, now_s: float) -> None:
        self.rules, self.folder, self.journal = cluster.maintenance, folder, journal
        started = [r for r in journal.records if r["kind"] == "started"]
        ended = {r["round"] for r in journal.records if r["kind"] == "ended"}
        if not started or started[-1]["round"] in ended:
            number = len(started) + 1
            journal.append([{"kind": "started", "round": number, "until_s": now_s}])
            started = [journal.records[-1]]
        self.number, self.until_s = started[-1]["round"], started[-1]["until_s"]

    def run(self, files: Sequence[ModelFile], n_jobs: int | None) -> Maintained:
        since_s = self.until_s - self.rules.window_s
        tasks = CompletedTasks(self.folder / COMPLETED).read(since_s, self.until_s)
        outcomes = [self._maintain(file, file.usable(tasks), n_jobs) for file in files]
        self.journal.append([{"kind": "ended", "round": self.number}])
        shutil.rmtree(self.folder / _FITS, ignore_errors=True)
        return Maintained(self.number, tuple(outcomes), self.folder / _REPLACED)

    def _maintain(
        self, file: ModelFile, tasks: Sequence[CompletedTask], n_jobs: int | None
    ) -> ModelOutcome:
        judged = self._known("judged", file)
        if judged is None:
            judged = self._judge(file, tasks, n_jobs)
            self.journal.append([judged])
        outcome = ModelOutcome.from_json(judged["outcome"])
        if outcome.verdict == "promoted" and self._known("promoted", file) is None:
            kept = self.folder / _REPLACED / _slug(file)
            promote(file, self.folder / judged["fit"], kept / f"{self.number:06d}")
            self._note("promoted", file)
            discard_older(kept, _N_REPLACED)
        return outcome

    def _judge(
        self, file: ModelFile, tasks: Sequence[CompletedTask], n_jobs: int | None
    ) -> dict[str, Any]:
        """Refit a model, and compare both on the newest tasks."""
        fit, newest = "", tasks[-1].uid if tasks else ""
        if len(tasks) < self.rules.min_tasks:
            outcome = _too_few(file, len(tasks), self.rules.min_tasks)
        elif newest == self._last_newest(file):
            outcome = _nothing_new(file, len(tasks))
        else:
            lesson = Lesson.of(file, tasks, self.rules)
            fit = f"{_FITS}/{_slug(file)}-{lesson.digest}"
            outcome = _judged(file, lesson, self.folder / fit, n_jobs)
        return {"kind": "judged", "round": self.number, "model": str(file.path), "fit": fit,
                "newest": newest, "outcome": outcome.to_json()}  # fmt: skip

    def _last_newest(self, file: ModelFile) -> str | None:
        """Return the newest task by which the model was last compared with a refitted one."""
        for record in reversed(self.journal.records):
            is_own = record["kind"] == "judged" and record["model"] == str(file.path)
            if is_own and record["outcome"]["new_error"] is not None:
                found: str | None = record.get("newest")
                return found
        return None

    def _known(self, kind: str, file: ModelFile) -> dict[str, Any] | None:
        wanted = (kind, self.number, str(file.path))
        for record in self.journal.records:
            if (record["kind"], record["round"], record.get("model")) == wanted:
                return record
        return None

    def _note(self, kind: str, file: ModelFile) -> None:
        self.journal.append([{"kind": kind, "round": self.number, "model": str(file.path)}])


def _judged(file: ModelFile, lesson: Lesson, fit: Path, n_jobs: int | None) -> ModelOutcome:
    def outcome(verdict: Any, **more: Any) -> ModelOutcome:
        n_runs = len(lesson.train.drop_duplicates())
        return ModelOutcome(
            str(file.path), file.types, file.model.target, verdict, lesson.n_tasks,
            lesson.n_accurate, n_runs, **more,
        )  # fmt: skip

    try:
        _make(fit.parent)
        new = refit(file, lesson, fit, n_jobs)
    except StorageError:
        raise  # about the disk, not about the data
    except ForetellError as error:
        return outcome("failed", reason=str(error))
    old_error, new_error = error_on(file.model, lesson.newest), error_on(new, lesson.newest)
    verdict = "promoted" if new_error <= old_error else "kept"
    return outcome(verdict, n_newest=len(lesson.newest), old_error=old_error, new_error=new_error)


def _too_few(file: ModelFile, n_tasks: int, least: int) -> ModelOutcome:
    energies = "" if file.is_of_time else " with a measured energy"
    reason = f"{counted(n_tasks, 'task')}{energies} completed in the window, and {least} are needed"
    return ModelOutcome(
        str(file.path), file.types, file.model.target, "too few tasks", n_tasks, reason=f"{reason}."
    )


def _nothing_new(file: ModelFile, n_tasks: int) -> ModelOutcome:
    reason = "No task completed since it was last compared with a refitted one."
    return ModelOutcome(
        str(file.path), file.types, file.model.target, "kept", n_tasks, reason=reason
    )


def _slug(file: ModelFile) -> str:
    """Return a name for the folders of a model."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", f"{file.types[0]} {file.model.target}").strip("-")
    return f"{words}-{hashlib.sha256(str(file.path).encode()).hexdigest()[:8]}"
