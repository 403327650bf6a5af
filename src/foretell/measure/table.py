"""The table of runs, derived from the journal, and the file beside it that describes it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foretell.dataset import KIND_OF_RUNS, PARAMETER, description_path, read_description
from foretell.errors import Option, StorageError
from foretell.files.journal import is_journal
from foretell.statuses import Status

FORMAT = 1
#: Cores kept busy by others from which on a run has shared the machine.
_HEAVY_LOAD = 0.25

#: Remarks on runs that were made on a cluster; remarks before and after what was measured.
_OF_CLUSTERS = ("node", "n_lost")
_FIRST_REMARKS = ("repeat", "status")
_LAST_REMARKS = ("is_shared", "n_attempts", *_OF_CLUSTERS, "started_at", "reason")

Record = Mapping[str, Any]


def to_row(record: Record) -> dict[str, Any]:
    """Return one run as a row: settings, how it went, what was measured, and remarks."""
    load = record["values"].get("other_load")
    shared = {} if load is None else {"is_shared": "yes" if load >= _HEAVY_LOAD else "no"}
    return {
        **record["configuration"],
        "repeat": record["repeat"],
        "status": record["status"],
        **record["values"],
        **shared,
        "n_attempts": record["n_attempts"],
        **{name: record[name] for name in _OF_CLUSTERS if name in record},
        "started_at": record["started_at"],
        "reason": record["reason"],
    }


def columns_of(records: Sequence[Record]) -> list[str]:
    """Return all columns: settings first, then what was measured, then remarks."""
    settings = list(dict.fromkeys(name for r in records for name in r["configuration"]))
    measured = list(dict.fromkeys(name for r in records for name in to_row(r)))
    inner = [name for name in measured if name not in {*settings, *_LAST_REMARKS}]
    return [*settings, *inner, *(name for name in _LAST_REMARKS if name in measured)]


def to_csv(records: Sequence[Record]) -> bytes:
    """Write records as a table."""
    columns = columns_of(records)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(to_row(r) for r in records)
    return text.getvalue().encode()


def check_foreign(table: Path, journal: Path) -> None:
    """Raise a StorageError if foretell did not write a file that it would replace."""
    if journal.exists() and not is_journal(journal):
        raise _foreign(journal)
    if journal.exists():
        return
    for path in (table, description_path(table), table.with_suffix(".log"), traces_folder(table)):
        if path.exists():
            raise _foreign(path)


def _foreign(path: Path) -> StorageError:
    return StorageError(
        f"{path} exists already, and foretell did not write it for this sweep; it is kept",
        remedy=("name another table with ", Option("output", "FILE")),
    )


def deleted_rows(path: Path, records: Sequence[Record]) -> list[int]:
    """Return which records the user has deleted from a table; raise if it was changed otherwise.

    The table may lack the last runs because foretell was stopped before it wrote them. How many it
    had written is in the description.
    """
    if not path.exists():
        return []
    found, *rows = _rows(path.read_bytes()) or [b""]
    n_described = sum(read_description(path).get("runs", {}).values())
    n_written = min(max(len(rows), n_described), len(records))
    header, *written = _rows(to_csv(records[:n_written]))
    deleted = []
    left = iter(rows)
    row = next(left, None)
    for i, expected in enumerate(written):
        if expected == row:
            row = next(left, None)
        else:
            deleted.append(i)
    if found != header or row is not None:
        raise StorageError(
            f"{path} was changed since foretell wrote it, and would be replaced. Move it away to "
            "keep it, and run the same command again: the journal has every run."
        )
    return deleted


def _rows(table: bytes) -> list[bytes]:
    """Split a table into rows. A row has several lines if a cell has: a line break in quotes."""
    rows: list[bytes] = []
    is_in_quotes = False
    for line in io.BytesIO(table):
        if is_in_quotes:
            rows[-1] += line
        else:
            rows.append(line)
        is_in_quotes ^= line.count(b'"') % 2 == 1
    return rows


def traces_folder(table: Path) -> Path:
    """Return where the traces of a table are: ``runs.traces`` beside ``runs.csv``."""
    return table.with_suffix(".traces")


def describe(
    records: Sequence[Record],
    sessions: Sequence[Record],
    table: Path,
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the table does not contain: what each column is, and where it was measured."""
    settings = {name for r in records for name in r["configuration"]}
    columns = {
        name: PARAMETER if name in settings else _role(name, records, sessions)
        for name in columns_of(records)
    }
    own = ("started_at", "machine", "versions")
    return {
        "kind": KIND_OF_RUNS,
        "format": FORMAT,
        "table": table.name,
        "columns": columns,
        "runs": dict(Counter(r["status"] for r in records)),
        "started_at": min((r["started_at"] for r in records), default=None),
        "ended_at": max((r["ended_at"] for r in records), default=None),
        "machine": sessions[0]["machine"],
        "versions": sessions[0]["versions"],
        "sessions": [{name: session[name] for name in own} for session in sessions],
        **about,
    }


def _role(name: str, records: Sequence[Record], sessions: Sequence[Record]) -> str:
    """Return what a column is: a remark, or measured, and by what in each session that has it."""
    if name in {*_FIRST_REMARKS, *_LAST_REMARKS}:
        return "remark"
    used = dict.fromkeys(r["session"] for r in records if name in r["values"])
    sources = dict.fromkeys(sessions[i]["sources"].get(name, "measured") for i in used)
    return "; ".join(sources) or "measured"


def n_usable(records: Sequence[Record]) -> int:
    """Count the runs that went well."""
    return sum(r["status"] == Status.OK for r in records)
