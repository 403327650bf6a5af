"""The table of co-runs, derived from the journal: one row per job; and read back from it."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretell.corun.calibration import PAIR, PINNED, SHIFTED, TRIPLE
from foretell.corun.measuring.set_file import ALONE, NAME
from foretell.decide.corun.jobs import PINS
from foretell.errors import DatasetError, suggest
from foretell.files.directory import write_whole
from foretell.statuses import Status
from foretell.wording import counted

TABLE = "runs.csv"
#: How many jobs a run of each kind has.
_N_JOBS = {ALONE: 1, PAIR: 2, SHIFTED: 2, PINNED: 2, TRIPLE: 3}
COLUMNS = (
    "key", "kind", "program", "place", "beside", "repeat", "shift", "pin", "start_s", "end_s",
    "wall_time_s", "alone_s", "slowdown", "cpu_time_s", "waited_s", "status", "disturbed",
    "steal", "other_load", "n_attempts",
)  # fmt: skip


@dataclass(frozen=True)
class CoRunJob:
    """One job of a measured co-run: when it started and ended, in seconds."""

    program: str
    start_s: float
    end_s: float

    @property
    def wall_s(self) -> float:
        """How long it took."""
        return self.end_s - self.start_s


@dataclass(frozen=True)
class MeasuredCoRun:
    """One measured run of one or several programs."""

    key: str
    kind: str
    jobs: tuple[CoRunJob, ...]
    pin: str
    status: str
    repeat: int = 0

    @property
    def is_usable(self) -> bool:
        """Whether models may learn from it and be judged by it."""
        return self.status == "ok"


def write_table(folder: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write the table of runs into the folder of a measurement."""
    rows = list(records)
    alone = alone_times(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in rows:
        for place, job in enumerate(record["jobs"]):
            writer.writerow(_row(record, place, job, alone.get(job["name"], math.nan)))
    write_whole(folder / TABLE, text.getvalue().encode())


def alone_times(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the median time of each program alone, by undisturbed runs where there are any."""
    times: dict[str, dict[str, list[float]]] = {}
    for record in records:
        if record["kind"] == "alone" and record["status"] != "failed":
            job = record["jobs"][0]
            found = times.setdefault(job["name"], {})
            found.setdefault(record["status"], []).append(job["ended_s"] - job["began_s"])
    return {
        name: statistics.median(found.get("ok") or found["disturbed"])
        for name, found in times.items()
    }


def _row(
    record: Mapping[str, Any], place: int, job: Mapping[str, Any], alone_s: float
) -> list[Any]:
    wall_s = job["ended_s"] - job["began_s"]
    others = [name for k, name in enumerate(record["programs"]) if k != place]
    return [
        record["key"], record["kind"], job["name"], place + 1, "+".join(others), record["repeat"],
        record["shift"], record["pin"], round(job["began_s"], 4), round(job["ended_s"], 4),
        round(wall_s, 4), round(alone_s, 4), round(wall_s / alone_s, 4),
        round(job["cpu_time_s"], 4), round(job["waited_s"], 4), record["status"],
        round(record["disturbed"], 4), round(record["steal"], 4), round(record["other_load"], 3),
        record["n_attempts"],
    ]  # fmt: skip


def read_co_runs(folder: Path | str) -> list[MeasuredCoRun]:
    """Read the table of a measurement; a DatasetError names the line that is wrong."""
    path = Path(folder) / TABLE
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise DatasetError(
            f"{path} cannot be read: {why}; foretell corun measure writes it"
        ) from None
    found: dict[str, list[dict[str, str]]] = {}
    for line, row in enumerate(rows, start=2):
        _check(path, line, row)
        found.setdefault(row["key"], []).append(row)
    return [_co_run(path, own) for own in found.values()]


def _check(path: Path, line: int, row: Mapping[str, str]) -> None:
    missing = [name for name in COLUMNS if row.get(name) is None]
    if missing:
        raise DatasetError(
            f"{path}, line {line}: there is no value of '{missing[0]}'; measure the set again"
        )
    if not NAME.fullmatch(row["program"]):
        raise DatasetError(f"{path}, line {line}: {row['program']!r} is not the name of a program")
    if not row["repeat"].isdecimal():
        raise DatasetError(f"{path}, line {line}: repeat must be a number, not '{row['repeat']}'")
    for name in ("start_s", "end_s", "wall_time_s"):
        try:
            is_time = 0 <= float(row[name]) < math.inf
        except ValueError:
            is_time = False
        if not is_time:
            raise DatasetError(f"{path}, line {line}: {name} must be a time, not '{row[name]}'")
    if row["status"] != Status.FAILED and float(row["end_s"]) <= float(row["start_s"]):
        raise DatasetError(
            f"{path}, line {line}: a job that starts at {row['start_s']} s ends later, not at "
            f"{row['end_s']} s"
        )
    for name, known in (("kind", tuple(_N_JOBS)), ("pin", ("", *PINS))):
        if row[name] not in known:
            raise DatasetError(
                f"{path}, line {line}: {name} cannot be '{row[name]}'. {suggest(row[name], known)}"
            )


def _co_run(path: Path, rows: Sequence[Mapping[str, str]]) -> MeasuredCoRun:
    first, n_jobs = rows[0], _N_JOBS[rows[0]["kind"]]
    if len(rows) != n_jobs or {row["kind"] for row in rows} != {first["kind"]}:
        raise DatasetError(
            f"{path}: the run {first['key']} must have {counted(n_jobs, 'line')} of the kind "
            f"{first['kind']}, and has {len(rows)}"
        )
    jobs = tuple(
        CoRunJob(row["program"], float(row["start_s"]), float(row["end_s"])) for row in rows
    )
    repeat = int(first["repeat"])
    return MeasuredCoRun(first["key"], first["kind"], jobs, first["pin"], first["status"], repeat)
