"""Several sweeps of one job in one table: which run belongs to which, and what may come on top."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foretell.dataset import description_path, read_description
from foretell.errors import StorageError, UsageError, listing
from foretell.files.journal import decode
from foretell.measure.sweep import Sweep
from foretell.measure.table import Record

_KIND = "sweep"


def dumped(sweep: Sweep) -> dict[str, Any]:
    """Return a sweep as plain values, without what goes without saying."""
    return sweep.model_dump(mode="json", by_alias=True, exclude_defaults=True)


@dataclass
class Belonging:
    """A sweep, and the table it writes to.

    The header of a journal names the sweep that the table was made for. Every other one is
    announced by a record of its own, and its runs are marked.

    Attributes
    ----------
    first
        The fingerprint of the sweep that the table was made for, and that sweep; None if it is
        this one.
    others
        All sweeps that came on top, in their order.
    """

    sweep: Sweep
    first: tuple[str, dict[str, Any]] | None = None
    others: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def on_top(cls, table: Path, sweep: Sweep) -> Belonging:
        """Come on top of a table; raise an error unless it holds runs of the same job."""
        records = _journal(table)
        first = _described_sweep(table)
        _check_same_job(table, first, sweep)
        return cls.of(records, sweep, first)

    @classmethod
    def of(
        cls, records: Sequence[Record], sweep: Sweep, first: dict[str, Any] | None = None
    ) -> Belonging:
        """Look up in a journal's records whose table it is."""
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
        """What tells runs of a sweep that came on top from the others."""
        return {} if self.first is None else {"of_sweep": self.sweep.fingerprint()}

    def own(self, runs: Iterable[Record]) -> list[Record]:
        """Keep the runs of this sweep."""
        mark = self.mark.get("of_sweep")
        return [run for run in runs if run.get("of_sweep") == mark]

    def announced(self, records: Iterable[Record]) -> list[dict[str, Any]]:
        """Note the sweeps that a journal knows; return what must be added to it."""
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
    """Return the sweeps that came on top of a table, finished or not, in their order."""
    path = table.with_suffix(".journal")
    records = decode(path.read_bytes())[0] if path.is_file() else []
    return [r[_KIND] for r in records if r["kind"] == _KIND]


def _journal(table: Path) -> list[dict[str, Any]]:
    path = table.with_suffix(".journal")
    if not table.exists() and not path.exists():
        raise UsageError(f"there is no table {table} to add runs to; -o {table} writes a new one")
    records = decode(path.read_bytes())[0] if path.is_file() else []
    if not records or _KIND not in records[0]:
        raise StorageError(
            f"{table} has no journal of foretell beside it ({path.name}), which says what was "
            "measured; runs are added to tables that foretell measured. -o writes a new one."
        )
    return records


def _described_sweep(table: Path) -> dict[str, Any]:
    """Return the sweep that a table was made for, by the file beside it."""
    sweep = read_description(table).get(_KIND)
    if not isinstance(sweep, dict):
        raise StorageError(
            f"{description_path(table)}, which says how {table.name} was measured, is missing or "
            "no longer what foretell wrote; the command that measured the table writes it again"
        )
    return sweep


def _check_same_job(table: Path, first: dict[str, Any], sweep: Sweep) -> None:
    if first.get("workload") != dumped(sweep)["workload"]:
        raise StorageError(
            f"{table} holds runs of another workload; results never mix. -o writes a new table."
        )
    listed = (name for c in first.get("configurations", []) for name in c)
    names = {*first.get("parameters", {}), *listed}
    if names != set(sweep.names):
        raise StorageError(
            f"{table} was measured with other parameters ({listing(sorted(names))}); give all of "
            "them, and no other"
        )
