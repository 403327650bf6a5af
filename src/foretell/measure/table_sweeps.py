"""Several sweeps of one job in one table: which runs are whose, and which may be appended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretell.dataset import description_path, read_description
from foretell.errors import Option, StorageError, UsageError, listing
from foretell.files.journal import decode
from foretell.measure.sweep import Sweep
from foretell.measure.table import Record

_KIND = "sweep"


def dumped(sweep: Sweep) -> dict[str, Any]:
    """Return a sweep as plain values, without those that are the default."""
    return sweep.model_dump(mode="json", by_alias=True, exclude_defaults=True)


@dataclass
class SweepInTable:
    """A sweep, and the table that its runs go to.

    The header of a journal names the sweep that the table was made for. Every appended sweep has a
    record of its own, and its runs are marked.

    Attributes
    ----------
    first
        The fingerprint of the sweep that the table was made for, and that sweep; None if it is
        this one.
    others
        All sweeps that were appended, in their order.
    """

    sweep: Sweep
    first: tuple[str, dict[str, Any]] | None = None
    others: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def appended_to(cls, table: Path, sweep: Sweep) -> SweepInTable:
        """Append to a table; raise an error unless it holds runs of the same job."""
        records = _records_to_append_to(table)
        first = read_description(table).get(_KIND)
        if not isinstance(first, dict):
            raise StorageError(
                f"{description_path(table)}, which says how {table.name} was measured, is missing "
                "or changed; to write it again, run the command that measured the table"
            )
        _check_same_job(table, first, sweep)
        return cls.of(records, sweep, first)

    @classmethod
    def of(
        cls, records: Sequence[Record], sweep: Sweep, first: dict[str, Any] | None = None
    ) -> SweepInTable:
        """Find out from the records of a journal which sweep the table was made for."""
        owner = records[0].get(_KIND) if records else None
        if owner is None or owner == sweep.fingerprint():
            return cls(sweep)
        return cls(sweep, (str(owner), first or {}))

    @property
    def header(self) -> dict[str, str]:
        """The fingerprint that the journal was begun with."""
        return {_KIND: self.sweep.fingerprint() if self.first is None else self.first[0]}

    @property
    def mark(self) -> dict[str, str]:
        """What marks the runs of an appended sweep."""
        return {} if self.first is None else {"of_sweep": self.sweep.fingerprint()}

    def own_runs(self, runs: Iterable[Record]) -> list[Record]:
        """Keep the runs of this sweep."""
        mark = self.mark.get("of_sweep")
        return [run for run in runs if run.get("of_sweep") == mark]

    def new_records(self, records: Iterable[Record]) -> list[dict[str, Any]]:
        """Note the sweeps in a journal; return the records that must be added to it."""
        known = [dict(r) for r in records if r["kind"] == _KIND]
        new = {"kind": _KIND, "of_sweep": self.mark.get("of_sweep"), _KIND: dumped(self.sweep)}
        is_new = self.first is not None and new["of_sweep"] not in {r["of_sweep"] for r in known}
        added = [new] if is_new else []
        self.others = [r[_KIND] for r in [*known, *added]]
        return added

    def described(self) -> dict[str, Any]:
        """Return what the description of the table says of its sweeps."""
        first = dumped(self.sweep) if self.first is None else self.first[1]
        return {_KIND: first, **({"appended": self.others} if self.others else {})}


def appended_sweeps(table: Path) -> list[dict[str, Any]]:
    """Return the sweeps that were appended to a table, finished or not, in their order."""
    return [r[_KIND] for r in journaled(table) if r["kind"] == _KIND]


def journaled(table: Path) -> list[dict[str, Any]]:
    """Return the records in the journal of a table, without touching any file."""
    path = table.with_suffix(".journal")
    return decode(path.read_bytes())[0] if path.is_file() else []


def _records_to_append_to(table: Path) -> list[dict[str, Any]]:
    path = table.with_suffix(".journal")
    if not table.exists() and not path.exists():
        raise UsageError(
            f"there is no table {table} to add runs to",
            remedy=("write a new one with ", Option("output", str(table))),
        )
    records = journaled(table)
    if not records or _KIND not in records[0]:
        raise StorageError(
            f"{table} has no journal of foretell beside it ({path.name}). Add runs only to "
            "tables that foretell measured",
            remedy=("write a new one with ", Option("output", "FILE")),
        )
    return records


def _check_same_job(table: Path, first: dict[str, Any], sweep: Sweep) -> None:
    if first.get("workload") != dumped(sweep)["workload"]:
        raise StorageError(
            f"{table} has runs of another workload; results never mix",
            remedy=("write a new table with ", Option("output", "FILE")),
        )
    listed = (name for c in first.get("configurations", []) for name in c)
    names = {*first.get("parameters", {}), *listed}
    if names != set(sweep.names):
        raise StorageError(
            f"{table} was measured with other parameters ({listing(sorted(names))}); give all of "
            "these and no others"
        )
