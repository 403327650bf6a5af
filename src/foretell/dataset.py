"""Contract 1: the table of runs, from a file or a frame, with early checks.

A table that `foretell measure` wrote has a description beside it, which says what each column is:
a parameter that was set, or something that is known only after the run.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from foretell.errors import DatasetError, Remedy, listing, nearest
from foretell.files.content import read_content
from foretell.files.plain_columns import plain_columns
from foretell.files.table_file import (
    TextColumns,
    parse_cells,
    parse_text,
    read_table,
    read_text,
    refuse_duplicates,
)
from foretell.statuses import Status

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

#: The kind that the description of a table of runs states; the role of a column that is a setting.
KIND_OF_RUNS, PARAMETER = "foretell runs", "parameter"
#: What a table is called that came from no file.
FRAME_NAME = "the frame"
_MOST_DESCRIPTION_BYTES = 50_000_000
_ROWS_SHOWN = 5

#: Endings of targets that are never zero, however short a run: a zero was too little to measure.
_NEVER_ZERO = ("_s", "_j", "peak_memory_bytes")
#: Endings of targets that only grow while a run lasts: at a time limit, they are lower bounds.
_GROWING = ("_s", "_ms", "_min", "_j", "_kj", "_bytes")
_UNITS = {"b", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib", "ns", "us", "µs", "ms", "s",
          "min", "h", "hz", "khz", "mhz", "ghz", "w", "kw", "j", "kj", "%"}  # fmt: skip
_WITH_UNIT = re.compile(r"[-+]?\d+(?:\.\d+)?\s*([a-zµ%]+)", re.IGNORECASE)
#: Columns with more levels are ids or measurements; their spelling is not worth a note.
_MOST_LEVELS = 1000


@dataclass(frozen=True)
class Dataset:
    """A table of runs, one row each.

    Attributes
    ----------
    name
        What the table is called in messages.
    roles
        What each column is, where foretell measured the table. In any other table, no more than
        ``status`` is known, if it holds the words of foretell.
    rows
        The numbers of the rows, where some were left out. Rows are counted from 1, the first one
        below the header.
    unreadable
        Columns that were left out because no model can use them, and what they hold.
    better
        By column, ``lower`` or ``higher``, where the source of the runs says which is better.
    notes
        What the user has to know about the runs.
    """

    frame: pd.DataFrame
    name: str
    roles: Mapping[str, str] = field(default_factory=dict)
    rows: Sequence[int] | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)
    better: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return [str(c) for c in self.frame.columns]

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """The number of each row in the table as it was read."""
        import numpy as np

        return np.arange(1, len(self.frame) + 1) if self.rows is None else np.array(self.rows)

    def require(self, columns: Iterable[str], *, at: tuple[str, ...] = ()) -> None:
        """Raise a DatasetError unless all these columns exist; ``at`` says who wants them."""
        for column in columns:
            if column in self.unreadable:
                raise DatasetError(
                    f"{self.name}, column '{column}' holds {self.unreadable[column]}, and must "
                    "hold one number or name per row; convert it",
                    at=at,
                )
            if column not in self.frame.columns:
                raise DatasetError(
                    f"{self.name} has no column '{column}'. {self._near(column)}", at=at
                )

    def refuse_missing(
        self,
        columns: Iterable[str],
        *,
        at: tuple[str, ...] = (),
        remedy: Remedy = ("Fill them in, or drop those rows.",),
    ) -> None:
        """Raise a DatasetError if any of these columns has gaps; it names all that have some."""
        missing = {name: self.frame[name].isna().to_numpy() for name in columns}
        told = [
            f"column '{name}' has {describe_rows(mask, self.row_numbers, 'missing value')}"
            for name, mask in missing.items()
            if mask.any()
        ]
        if told:
            raise DatasetError(f"{self.name}, {listing(told)}.", at=at, remedy=remedy)

    def measurements(
        self, target: str, chosen: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return which of the chosen rows have a target, as failed runs have none, and all targets.

        Raise a DatasetError if the target of a chosen row is not a finite number.
        """
        import numpy as np

        column = self.frame[target]
        is_empty = (column.isna() | (column.astype(str).str.strip() == "")).to_numpy(dtype=bool)
        values = as_numbers(column)
        is_measured = chosen & ~is_empty
        is_bad = is_measured & ~np.isfinite(values)
        if is_bad.any():
            told = describe_rows(is_bad, self.row_numbers, "other value")
            raise DatasetError(
                f"{self.name}, column '{target}' must hold numbers; it has {told}. Correct them, "
                "or leave them empty if the run failed."
            )
        return is_measured, values

    def for_target(self, target: str, kept: Collection[str] = ()) -> tuple[Dataset, list[str]]:
        """Leave out what a model of the target must not see; also return notes for the user.

        Where the table says how runs ended, this leaves out those that failed. From a table that
        foretell measured, it also leaves out runs in which the target was not measured, and columns
        that are not known before a run, except for the target and those to be kept.
        """
        notes = list(self.notes)
        notes += [
            f"Column '{name}' was left out: it holds {what}, and a model needs one number or name "
            "per row."
            for name, what in self.unreadable.items()
        ]
        found = self
        if self.roles and target in self.frame.columns:
            found = found._without_failed(notes)._without_unmeasured(target, notes)
            found._note_shared(notes)
            known = [
                name for name in found.columns
                if name in {target, *kept} or self.roles.get(name, PARAMETER) == PARAMETER
            ]  # fmt: skip
            found = replace(found, frame=found.frame[known])
        settings = found.frame.drop(columns=target, errors="ignore")
        return found, notes + _status_note(settings) + _spelling_notes(settings)

    def split_timed_out(self, target: str) -> tuple[Dataset, Dataset]:
        """Split off the runs that were stopped at a time limit, where the target was measured.

        Their target is a lower bound. There are none where the table does not say how runs ended,
        where the target does not grow during a run, or where no other run is left.
        """
        import numpy as np

        is_bound = np.zeros(len(self.frame), dtype=bool)
        is_growing = target.endswith(_GROWING) and "_per_" not in target
        is_growing &= self.roles.get(target) != PARAMETER
        if is_growing and target in self.frame.columns and (self.statuses == Status.OK).any():
            values = as_numbers(self.frame[target])
            is_late = (self.statuses == Status.TIMED_OUT).to_numpy()
            is_bound = is_late & np.isfinite(values) & (values > 0)
        return self.take(~is_bound), self.take(is_bound)

    @property
    def statuses(self) -> pd.Series[str]:
        """How each run ended; all went well where the table does not say it."""
        import pandas as pd

        if self.roles.get("status", PARAMETER) == PARAMETER or "status" not in self.frame.columns:
            return pd.Series(Status.OK.value, self.frame.index)
        return self.frame["status"]

    def _without_failed(self, notes: list[str]) -> Dataset:
        is_ok = (self.statuses == Status.OK).to_numpy()
        if not is_ok.any():
            raise DatasetError(f"{self.name} has no run that went well; measure again")
        if not is_ok.all():
            counts = self.statuses[~is_ok].value_counts()
            told = ", ".join(f"{n} {status}" for status, n in counts.items())
            notes.append(f"{(~is_ok).sum()} of {len(is_ok)} runs were left out: {told}.")
        return self.take(is_ok)

    def _without_unmeasured(self, target: str, notes: list[str]) -> Dataset:
        if self.roles.get(target, PARAMETER) == PARAMETER:
            return self
        values = self.frame[target]
        is_measured = values.notna().to_numpy()
        if target.endswith(_NEVER_ZERO):
            is_measured = is_measured & (values != 0).to_numpy()
        if not is_measured.any():
            raise DatasetError(
                f"{self.name} has no run in which '{target}' was measured; choose another target"
            )
        if not is_measured.all():
            notes.append(
                f"{(~is_measured).sum()} of {len(is_measured)} runs left out: {target} is missing "
                "or zero, as in runs too short to be measured "
                f"({_rows_text(self.row_numbers[~is_measured])})."
            )
        return self.take(is_measured)

    def _note_shared(self, notes: list[str]) -> None:
        if "is_shared" not in self.frame.columns:
            return
        if n_shared := int((self.frame["is_shared"] == "yes").sum()):
            notes.append(
                f"{n_shared} of {len(self.frame)} runs shared the machine with other load, which "
                "may have made them slower."
            )

    def take(self, is_kept: NDArray[np.bool_]) -> Self:
        """Return the table with some of its rows, which keep their numbers.

        Notes are about all rows, and need not hold for some.
        """
        if is_kept.all():
            return self
        frame = self.frame[is_kept].reset_index(drop=True)
        return replace(self, frame=frame, rows=self.row_numbers[is_kept].tolist(), notes=())

    def _near(self, column: str) -> str:
        if len(self.columns) == 1:
            return (
                f"Its only column is '{self.columns[0]}'; columns are separated by comma, "
                "semicolon, tab or |."
            )
        near = nearest(column, self.columns)
        hint = f"Did you mean '{near}'? " if near is not None else ""
        return f"{hint}Columns: {listing(self.columns)}."


@dataclass(frozen=True)
class TextTable:
    """The content of a text file with a table, and the name to call it by in messages."""

    content: bytes
    name: str

    def cells(self) -> pd.DataFrame:
        """Return all cells as they are written: 4 is not 4.0, whatever other rows hold."""
        return parse_cells(self.content, self.name)


def read_text_once(path: Path) -> TextTable | Path:
    """Read the content of a text file, which may be a pipe; a Parquet table stays a path."""
    content = read_text(path)
    return path if content is None else TextTable(content, str(path))


def read_dataset(source: str | Path | pd.DataFrame | Dataset | TextTable) -> Dataset:
    """Read a table from a file (.csv, .tsv, .txt, .parquet) or take a frame.

    >>> import pandas as pd
    >>> read_dataset(pd.DataFrame({"nodes": [1, 2], "time_s": [9.0, 5.0]})).columns
    ['nodes', 'time_s']
    """
    return read_with_text(source, lambda _: ())


def read_with_text(
    source: str | Path | pd.DataFrame | Dataset | TextTable, text_columns: TextColumns
) -> Dataset:
    """Read a table; in a text file, keep the values of some columns as they are written.

    Otherwise the type of a column depends on all its rows: 1.10 is a text beside 1.10.1, and the
    number 1.1 without it.
    """
    import pandas as pd

    roles: dict[str, str] = {}
    if isinstance(source, Dataset):
        return source
    if isinstance(source, pd.DataFrame):
        frame, name = source, FRAME_NAME
    elif isinstance(source, TextTable):
        frame, name = parse_text(source.content, source.name, text_columns), source.name
    elif isinstance(source, str | Path):
        path = Path(source)
        frame, name = read_table(path, text_columns), str(source)
        columns = read_description(path).get("columns")
        if isinstance(columns, dict):
            roles = {str(column): str(role) for column, role in columns.items()}
    else:
        raise DatasetError(
            f"a table is a file or a pandas DataFrame, not a {type(source).__name__}; convert it "
            "with pandas.DataFrame"
        )
    frame = frame.rename(columns=str).reset_index(drop=True)
    refuse_duplicates(list(frame.columns), name)
    if frame.empty:
        raise DatasetError(f"{name} has no rows below its header; write one row per run")
    frame, unreadable = plain_columns(frame)
    roles = {**_role_of_status(frame), **(roles or _roles_of_layout(list(frame.columns)))}
    return Dataset(frame, name, roles, None, unreadable)


def description_path(table: Path) -> Path:
    """Return where the description of a table is: ``runs.json`` beside ``runs.csv``."""
    return table.with_suffix(".json")


def read_description(table: Path) -> dict[str, Any]:
    """Return what the file beside a table says about it; nothing if foretell did not write it."""
    try:
        found = json.loads(read_content(description_path(table), _MOST_DESCRIPTION_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    is_ours = isinstance(found, dict) and found.get("kind") == KIND_OF_RUNS
    return found if is_ours and found.get("table") == table.name else {}


def _roles_of_layout(columns: list[str]) -> dict[str, str]:
    """Return what the columns are in a measured table that was moved away from its description.

    `foretell measure` writes them in this order: settings, ``repeat`` and ``status``, what was
    measured, remarks.
    """
    if columns[-2:] != ["started_at", "reason"] or not {"repeat", "n_attempts"} <= {*columns}:
        return {}
    n_settings = columns.index("repeat")
    if columns[n_settings + 1] != "status":
        return {}
    return {name: PARAMETER if i < n_settings else "measured" for i, name in enumerate(columns)}


def _role_of_status(frame: pd.DataFrame) -> dict[str, str]:
    """Return the role of a column ``status`` that says how runs ended, in the words of Status."""
    words = set(frame["status"].tolist()) if "status" in frame.columns else set()
    return {"status": "measured"} if words and words <= {*Status} else {}


def _status_note(settings: pd.DataFrame) -> list[str]:
    """Note a setting that probably says how runs ended, in other words than those of Status."""
    import pandas as pd

    if "status" not in settings or pd.api.types.is_numeric_dtype(settings["status"]):
        return []
    return [
        "Column 'status' was read as a setting. If it says how runs ended, write "
        f"{', '.join(Status)} in its cells."
    ]


def _spelling_notes(frame: pd.DataFrame) -> list[str]:
    """Note levels that were probably meant as numbers, or as one another."""
    import pandas as pd

    notes = []
    for name in frame.columns:
        if pd.api.types.is_numeric_dtype(frame[name]):
            continue
        levels = [str(level) for level in frame[name].dropna().unique()[: _MOST_LEVELS + 1]]
        if len(levels) <= _MOST_LEVELS:
            notes += [*_unit_note(name, levels), *_case_note(name, levels)]
    return notes


def _unit_note(name: str, levels: Sequence[str]) -> list[str]:
    found = [_WITH_UNIT.fullmatch(level) for level in levels]
    units = [match[1] for match in found if match and match[1].lower() in _UNITS]
    if not levels or len(units) < len(levels):
        return []
    unit = units[0].lower().replace("%", "percent")
    stem, _, end = name.rpartition("_")
    renamed = f"{stem if stem and end.lower() in {*_UNITS, 'percent'} else name}_{unit}"
    rename = "" if renamed.lower() == name.lower() else f"rename the column to {renamed} and "
    numbers = levels[0].removesuffix(units[0]).strip()
    if len({written.lower() for written in units}) > 1:
        numbers = f"all of them in {units[0]}, without the unit,"
    return [
        f"Column '{name}' looks like numbers with a unit ({levels[0]}) and was read as names. To "
        f"use the numbers, {rename}write {numbers} in its cells."
    ]


def _case_note(name: str, levels: Sequence[str]) -> list[str]:
    first: dict[str, str] = {}
    for level in levels:
        if (known := first.setdefault(level.casefold(), level)) != level:
            return [
                f"Column '{name}': '{known}' and '{level}' differ only in case, and count as "
                "different. If they are the same, spell them the same way."
            ]
    return []


def level_of_setting(value: Any) -> bool | float | str:
    """Return the value of a setting for a cell: None and lists become texts, for they are levels.

    >>> level_of_setting(None), level_of_setting([64, 64]), level_of_setting(0.5)
    ('None', '[64, 64]', 0.5)
    """
    return value if isinstance(value, bool | int | float | str) else str(value)


def as_numbers(values: pd.Series[Any]) -> NDArray[np.float64]:
    """Read numbers, and texts that are written as such; the rest comes out as NaN."""
    import numpy as np
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_complex_dtype(values):
        return values.to_numpy(float)
    if not (pd.api.types.is_object_dtype(values) or pd.api.types.is_string_dtype(values)):
        return np.full(len(values), np.nan)  # dates, which pandas would count in nanoseconds
    return np.array([_as_number(value) for value in values], dtype=float)


def _as_number(value: Any) -> float:
    try:
        return math.nan if "_" in str(value) else float(value)  # Python reads 1_000
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return math.nan


def describe_rows(mask: NDArray[np.bool_], row_numbers: NDArray[Any], what: str = "value") -> str:
    """Say how many values a mask marks and in which rows: ``3 values ≤ 0 (rows 4, 9, 17)``.

    The word ``value`` in what such a value is called becomes a plural.
    """
    marked = row_numbers[mask]
    many = what if len(marked) == 1 else what.replace("value", "values", 1)
    return f"{len(marked)} {many} ({_rows_text(marked)})"


def _rows_text(rows: NDArray[Any]) -> str:
    word = "row" if len(rows) == 1 else "rows"
    return f"{word} {listing(rows.tolist(), most=_ROWS_SHOWN)}"
