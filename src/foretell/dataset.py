"""Contract 1, the table of runs: reading CSV, TSV, Parquet and frames, with early checks.

A table that `foretell measure` wrote has a description beside it, which says what each column is:
a parameter that was set, or something that is known only after the run.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.errors import DatasetError, listing, suggest

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

_DELIMITERS = ",;\t|"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
#: How files that are no tables start, and what they are.
_OTHERS = {"HTML or XML": r"<[!?a-zA-Z]", "JSON": r"\{|\[\s*([\[{]|$)"}
_ROWS_SHOWN = 5

#: What the description of a table of runs says it is; the role of a setting of a run.
KIND_OF_RUNS, PARAMETER = "foretell runs", "parameter"
#: How a run ended, as the column ``status`` says it.
STATUS_OK, STATUS_FAILED, STATUS_TIMED_OUT = "ok", "failed", "timed out"
STATUS_OUT_OF_MEMORY, STATUS_LOST = "out of memory", "lost"
#: What a table is called that came from no file.
FRAME_NAME = "the frame"
_MOST_DESCRIPTION = 50_000_000  # bytes

#: From the names of a table's columns to those that are read as they are written.
TextColumns = Callable[[list[str]], Collection[str]]


@dataclass(frozen=True)
class Dataset:
    """A table of runs, one row each, and the name to call it by in messages.

    Rows are counted from 1, the first one below the header. ``roles`` says what columns are, where
    the table was measured by foretell; it is empty for any other. ``rows`` has the numbers of the
    rows that are here, where others were left out.
    """

    frame: pd.DataFrame
    name: str
    roles: Mapping[str, str] = field(default_factory=dict)
    rows: Sequence[int] | None = None

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
            if column not in self.frame.columns:
                raise DatasetError(
                    f"{self.name} has no column '{column}'. {self._near(column)}", at=at
                )

    def for_target(self, target: str, kept: Collection[str] = ()) -> tuple[Dataset, list[str]]:
        """Leave out what a model of the target must not see; also return notices of it.

        Of a table that foretell measured: runs that did not go well, and columns that nobody knows
        before a run, but for the target and those to be kept.
        """
        if not self.roles or target not in self.frame.columns:
            return self, []
        notices = []
        frame, rows = self.frame, self.rows
        if "status" in frame.columns:
            is_ok = frame["status"] == STATUS_OK
            if not is_ok.all():
                counts = frame.loc[~is_ok, "status"].value_counts()
                told = ", ".join(f"{n} {status}" for status, n in counts.items())
                notices.append(f"{(~is_ok).sum()} of {len(frame)} runs were left out: {told}.")
                rows = self.row_numbers[is_ok].tolist()
                frame = frame[is_ok].reset_index(drop=True)
        if "is_shared" in frame.columns and (n_shared := int((frame["is_shared"] == "yes").sum())):
            notices.append(
                f"{n_shared} of {len(frame)} runs shared the machine with other load, which may "
                "have made them slower."
            )
        known = [
            name for name in self.columns
            if name in {target, *kept} or self.roles.get(name, PARAMETER) == PARAMETER
        ]  # fmt: skip
        if frame.empty:
            raise DatasetError(f"{self.name} has no run that went well; measure again")
        return Dataset(frame[known], self.name, self.roles, rows), notices

    def _near(self, column: str) -> str:
        if len(self.columns) == 1:
            return (
                f"Its only column is '{self.columns[0]}'; columns are separated by comma, "
                "semicolon, tab or |."
            )
        near = suggest(column, self.columns)
        hint = f"{near} " if near.startswith("Did") else ""
        return f"{hint}Columns: {listing(self.columns)}."


@dataclass(frozen=True)
class TextTable:
    """The content of a text file with a table, and the name to call it by in messages."""

    content: bytes
    name: str


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
    """Read a table; in a text file, take the values of some columns as they are written.

    Otherwise the type of a column depends on all its rows: 1.10 is a text beside 1.10.1, and the
    number 1.1 without it.
    """
    import pandas as pd

    if isinstance(source, Dataset):
        return source
    if isinstance(source, pd.DataFrame):
        dataset = Dataset(source.rename(columns=str).reset_index(drop=True), FRAME_NAME)
        _refuse_duplicates(dataset.columns, dataset.name)
    elif isinstance(source, TextTable):
        dataset = Dataset(_read_text(source.content, source.name, text_columns), source.name)
    elif isinstance(source, str | Path):
        dataset = _read_file(Path(source), text_columns)
    else:
        raise DatasetError(
            f"a table is a file or a pandas DataFrame, not a {type(source).__name__}; "
            "pandas.DataFrame makes one of it"
        )
    if dataset.frame.empty:
        raise DatasetError(f"{dataset.name} has no rows below its header; write one row per run")
    return dataset if dataset.roles else replace(dataset, roles=_roles_of_layout(dataset.columns))


def description_path(table: Path) -> Path:
    """Return where the description of a table lies: ``runs.json`` beside ``runs.csv``."""
    return table.with_suffix(".json")


def read_description(table: Path) -> dict[str, Any]:
    """Return what the file beside a table says of it; nothing, where it is none of ours."""
    path = description_path(table)
    try:
        if path.stat().st_size > _MOST_DESCRIPTION:
            return {}
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    is_ours = isinstance(found, dict) and found.get("kind") == KIND_OF_RUNS
    return found if is_ours and found.get("table") == table.name else {}


def _read_roles(table: Path) -> dict[str, str]:
    """Return what each column is, if a description says so."""
    columns = read_description(table).get("columns")
    if not isinstance(columns, dict):
        return {}
    return {str(name): str(role) for name, role in columns.items()}


def _roles_of_layout(columns: list[str]) -> dict[str, str]:
    """Return what the columns are of a measured table whose description is not beside it.

    They follow one another as it was written: settings, ``repeat`` and ``status``, what was
    measured, and remarks.
    """
    if columns[-2:] != ["started_at", "reason"] or not {"repeat", "n_attempts"} <= {*columns}:
        return {}
    n_settings = columns.index("repeat")
    if columns[n_settings + 1] != "status":
        return {}
    return {name: PARAMETER if i < n_settings else "measured" for i, name in enumerate(columns)}


def _read_file(path: Path, text_columns: TextColumns) -> Dataset:
    content = _content(path)
    if path.suffix.lower() in {".parquet", ".pq"}:
        return Dataset(_read_parquet(content, path), str(path))
    return Dataset(_read_text(content, path, text_columns), str(path), _read_roles(path))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()  # once and for all: a pipe cannot be read twice
    except FileNotFoundError:
        others = [p.name for p in path.parent.glob("*") if p.is_file()]
        near = suggest(path.name, others)
        hint = f". {near}" if near.startswith("Did") else "; check the path"
        raise DatasetError(f"there is no file {path}{hint}") from None
    except IsADirectoryError:
        raise DatasetError(
            f"{path} is a directory; name a table (.csv, .tsv or .parquet)"
        ) from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}; check the path") from None


def _read_parquet(content: bytes, path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        frame = pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise DatasetError(
            f"reading {path} needs pyarrow: install foretell[parquet], or convert it to CSV"
        ) from None
    except Exception as error:
        raise DatasetError(
            f"{path} is not a Parquet table ({_first_line(error)}); export it again"
        ) from None
    frame = frame.rename(columns=str).reset_index(drop=True)
    _refuse_duplicates(list(frame.columns), str(path))
    return frame


def _read_text(content: bytes, path: str | Path, text_columns: TextColumns) -> pd.DataFrame:
    import pandas as pd

    delimiter, written = _header(_first_text(content, path), path)
    header = [name.strip() for name in written]
    _refuse_duplicates(header, str(path))
    as_text = text_columns(header)
    try:
        frame = pd.read_csv(
            io.BytesIO(content),
            sep=delimiter,
            encoding="utf-8-sig",
            skipinitialspace=True,
            low_memory=False,
            dtype={name: str for name in written if name.strip() in as_text},
        )
    except (pd.errors.ParserError, ValueError) as error:
        raise DatasetError(_parsing_problem(error, path)) from None
    if not isinstance(frame.index, pd.RangeIndex):
        raise DatasetError(
            f"{path} is not a table: its rows have more values than its header has names "
            f"({len(header)}); name every column in the first line"
        )
    frame.columns = pd.Index([str(c).strip() for c in frame.columns])
    for name in frame.select_dtypes(include=["object", "string"]):
        frame[name] = _tidied(frame[name])
    return frame


def _tidied(values: pd.Series[Any]) -> pd.Series[Any]:
    """Mend two habits of pandas' reader: blanks after names, and whole numbers as objects."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind == "string":
        return values.str.strip()  # 'm4 ' would be another machine than 'm4'
    if kind == "integer":  # beyond 64 bits
        return pd.to_numeric(values.astype(str), errors="coerce")
    return values


def _first_text(content: bytes, path: str | Path) -> str:
    """Return the first line that is not blank, or refuse what is not text."""
    if content.startswith(_UTF_16):
        raise DatasetError(f"{path} is UTF-16 text; save it as UTF-8")
    if b"\0" in content:
        raise DatasetError(f"{path} is not a table: it is not text; export it as CSV")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DatasetError(f"{path}, line {line}: not UTF-8 text; save it as UTF-8") from None
    first = re.search(r"[^\r\n]*\S[^\r\n]*", text)
    if first is None:
        raise DatasetError(f"{path} is empty; the first line must name the columns")
    return first.group()


def _header(first: str, path: str | Path) -> tuple[str, list[str]]:
    for kind, start in _OTHERS.items():
        if re.match(start, first.strip()):
            raise DatasetError(f"{path} is not a table: it looks like {kind}; export it as CSV")
    try:
        # Parsed, not counted: a quoted name may contain the other delimiters.
        fields = {d: _fields(first, d) for d in _DELIMITERS}
    except csv.Error as error:
        raise DatasetError(
            f"{path} is not a table: its first line must name the columns ({error})"
        ) from None
    delimiter = max(_DELIMITERS, key=lambda d: len(fields[d]))
    return delimiter, fields[delimiter]


def _fields(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))


def _parsing_problem(error: Exception, path: str | Path) -> str:
    text = _first_line(error).removeprefix("Error tokenizing data. C error: ")
    found = re.fullmatch(r"Expected (\d+) fields in line (\d+), saw (\d+)\s*", text)
    if found is None:
        return f"{path} is not a table: {text}"
    expected, line, came = found.groups()
    return (
        f"{path}, line {line}: {came} values, and the header names {expected} columns; quote "
        "values that contain the delimiter"
    )


def _refuse_duplicates(names: Sequence[str], table: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DatasetError(
            f"{table} has more than one column '{twice[0]}'; rename or remove one of them"
        )


def describe_rows(mask: NDArray[np.bool_], row_numbers: NDArray[Any], what: str = "value") -> str:
    """Say how many values a mask marks and in which rows: ``3 values ≤ 0 (rows 4, 9, 17)``.

    Parameters
    ----------
    what
        What one such value is called; the word ``value`` in it becomes a plural.
    """
    marked = row_numbers[mask]
    rows = "row" if len(marked) == 1 else "rows"
    many = what if len(marked) == 1 else what.replace("value", "values", 1)
    return f"{len(marked)} {many} ({rows} {listing(marked.tolist(), most=_ROWS_SHOWN)})"


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
