"""The table of runs, derived from the journal, and the file beside it that describes it."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foretell.dataset import KIND_OF_RUNS, PARAMETER, description_path
from foretell.errors import StorageError
from foretell.files.directory import write_whole
from foretell.measure.supervisor import OK

FORMAT = 1
#: Cores kept busy by others from which on a run has shared the machine.
_HEAVY_LOAD = 0.25

#: Remarks on runs that were made on a cluster.
_OF_CLUSTERS = ("node", "n_lost")

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
    remarks = ["is_shared", "n_attempts", *_OF_CLUSTERS, "started_at", "reason"]
    inner = [name for name in measured if name not in {*settings, *remarks}]
    return [*settings, *inner, *(name for name in remarks if name in measured)]


def to_csv(records: Sequence[Record]) -> bytes:
    """Write records as a table."""
    columns = columns_of(records)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(to_row(r) for r in records)
    return text.getvalue().encode()


def check_untouched(path: Path, records: Sequence[Record]) -> None:
    """Raise a StorageError if a table is not what foretell wrote from its journal."""
    if not path.exists():
        return
    content = path.read_bytes()
    if not records:
        raise StorageError(
            f"{path} exists already, and no journal of foretell beside it; nothing is written "
            "over. Give another file with -o."
        )
    n_rows = sum(1 for _ in csv.reader(io.StringIO(content.decode(errors="replace")))) - 1
    if n_rows > len(records) or to_csv(records[: max(n_rows, 0)]) != content:
        raise StorageError(
            f"{path} was changed since foretell wrote it, and would be written over. Move it away "
            "to keep the changes, and run the same command again: the journal has every run."
        )


def describe(
    records: Sequence[Record], table: Path, sources: Mapping[str, str], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the table does not say: what each column is, and where it was measured."""
    settings = {name for r in records for name in r["configuration"]}
    columns = {
        name: PARAMETER if name in settings else sources.get(name, _role(name))
        for name in columns_of(records)
    }
    return {
        "kind": KIND_OF_RUNS,
        "format": FORMAT,
        "table": table.name,
        "columns": columns,
        "runs": dict(Counter(r["status"] for r in records)),
        **about,
    }


def _role(name: str) -> str:
    remarks = {
        "repeat", "status", "is_shared", "n_attempts", *_OF_CLUSTERS, "started_at", "reason"
    }  # fmt: skip
    return "remark" if name in remarks else "measured"


def write_table(records: Sequence[Record], table: Path, description: Mapping[str, Any]) -> None:
    """Write the table and its description, each whole."""
    write_whole(table, to_csv(records))
    text = json.dumps(description, indent=1) + "\n"
    write_whole(description_path(table), text.encode())


def n_usable(records: Sequence[Record]) -> int:
    """Count the runs that went well."""
    return sum(r["status"] == OK for r in records)
