"""Contract 1, the table of runs: reading CSV, TSV, Parquet and frames, with early checks."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.errors import DatasetError, listing, suggest

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

_DELIMITERS = ",;\t|"
_ROWS_SHOWN = 5


@dataclass(frozen=True)
class Dataset:
    """A table of runs, one row each, and the name to call it by in messages.

    Rows are counted from 1, the first one below the header.
    """

    frame: pd.DataFrame
    name: str

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return [str(c) for c in self.frame.columns]

    def require(self, columns: Iterable[str], *, wanted_by: str = "") -> None:
        """Raise a DatasetError unless all these columns exist."""
        for column in columns:
            if column not in self.frame.columns:
                where = f"{wanted_by}: " if wanted_by else ""
                raise DatasetError(
                    f"{where}{self.name} has no column '{column}'. "
                    f"{suggest(column, self.columns)} Columns: {listing(self.columns)}."
                )


def read_dataset(source: str | Path | pd.DataFrame | Dataset) -> Dataset:
    """Read a table from a file (.csv, .tsv, .txt, .parquet) or take a frame.

    >>> import pandas as pd
    >>> read_dataset(pd.DataFrame({"nodes": [1, 2], "time_s": [9.0, 5.0]})).columns
    ['nodes', 'time_s']
    """
    import pandas as pd

    if isinstance(source, Dataset):
        return source
    if isinstance(source, pd.DataFrame):
        dataset = Dataset(source.rename(columns=str).reset_index(drop=True), "the frame")
        _refuse_duplicates(dataset.columns, dataset.name)
    else:
        dataset = _read_file(Path(source))
    if dataset.frame.empty:
        raise DatasetError(f"{dataset.name} has no rows below its header; a model needs runs")
    return dataset


def _read_file(path: Path) -> Dataset:
    if not path.exists():
        near = suggest(path.name, [p.name for p in path.parent.glob("*") if p.is_file()])
        hint = f" {near}" if near.startswith("Did") else ""
        raise DatasetError(f"there is no file {path}.{hint}")
    if path.is_dir():
        raise DatasetError(f"{path} is a directory; a table (.csv, .tsv or .parquet) is needed")
    if path.suffix.lower() in {".parquet", ".pq"}:
        return _read_parquet(path)
    return _read_text(path)


def _read_parquet(path: Path) -> Dataset:
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except ImportError:
        raise DatasetError(
            f"reading {path} needs pyarrow: install foretell[parquet], or convert it to CSV"
        ) from None
    except Exception as error:
        raise DatasetError(f"{path} is not a Parquet table ({_first_line(error)})") from None
    return Dataset(frame.rename(columns=str).reset_index(drop=True), str(path))


def _read_text(path: Path) -> Dataset:
    import pandas as pd

    delimiter, header = _header(path)
    _refuse_duplicates(header, str(path))
    try:
        frame = pd.read_csv(
            path, sep=delimiter, encoding="utf-8-sig", skipinitialspace=True, low_memory=False
        )
    except (pd.errors.ParserError, UnicodeDecodeError, ValueError) as error:
        raise DatasetError(f"{path} is not a table: {_first_line(error)}") from None
    if not isinstance(frame.index, pd.RangeIndex):
        raise DatasetError(
            f"{path} is not a table: its rows have more values than its header has names "
            f"({len(header)})"
        )
    frame.columns = pd.Index([str(c).strip() for c in frame.columns])
    return Dataset(frame, str(path))


def _header(path: Path) -> tuple[str, list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            first = lines.readline()
    except UnicodeDecodeError:
        raise DatasetError(f"{path} is not a table: it is not text") from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from None
    if "\0" in first:
        raise DatasetError(f"{path} is not a table: it is not text")
    if not first.strip():
        raise DatasetError(f"{path} is empty; the first line must name the columns")
    delimiter = max(_DELIMITERS, key=first.count)
    return delimiter, [name.strip() for name in next(csv.reader([first], delimiter=delimiter))]


def _refuse_duplicates(names: Sequence[str], table: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DatasetError(
            f"{table} has more than one column '{twice[0]}'; rename or remove one of them"
        )


def describe_rows(mask: NDArray[np.bool_], row_numbers: NDArray[Any]) -> str:
    """Say which rows a mask marks, for a message: ``3 values (rows 4, 9, 17)``."""
    marked = row_numbers[mask]
    noun = "value" if len(marked) == 1 else "values"
    rows = "row" if len(marked) == 1 else "rows"
    return f"{len(marked)} {noun} ({rows} {listing(marked.tolist(), most=_ROWS_SHOWN)})"


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
