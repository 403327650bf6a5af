"""Tables in files: CSV, TSV and Parquet read into a frame, with a clear error for other files."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.errors import DatasetError, error_lines
from foretell.files.content import read_content
from foretell.files.text_file import near_file

if TYPE_CHECKING:
    import pandas as pd

#: From the names of a table's columns to those whose values are kept as they are written.
TextColumns = Callable[[list[str]], Collection[str]]

_MOST_BYTES = 4_000_000_000
_DELIMITERS = ",;\t|"
#: UTF-32 comes first: its mark begins with that of UTF-16.
_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
#: How the first line of another kind of file looks. A column may be called {0} or <script>.
_OTHERS = {
    "HTML or XML": r"(?i)<(!doctype|!--|\?xml|html|head|body|table|svg)\b|<[a-z][^,;\t|]*>$",
    "JSON": r"""\{\s*("[^"]*"\s*:|\}|$)|\[\s*([\[{]|$)""",
}


def read_table(path: Path, text_columns: TextColumns) -> pd.DataFrame:
    """Read a table from a file; what is not called .parquet or .pq is text."""
    content = _content(path)
    if _is_parquet(path):
        return _parse_parquet(content, path)
    return parse_text(content, str(path), text_columns)


def read_text(path: Path) -> bytes | None:
    """Return the content of a text file with a table, once; None of a Parquet table."""
    return None if _is_parquet(path) else _content(path)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in {".parquet", ".pq"}


def parse_cells(content: bytes, name: str) -> pd.DataFrame:
    """Read the cells of a table as they are written, but for blanks around them."""
    return parse_text(content, name, list, keep_default_na=False, na_values=[""])


def parse_text(content: bytes, name: str, text_columns: TextColumns, **how: Any) -> pd.DataFrame:
    """Read a table from the content of a text file, called by a name in messages.

    Parameters
    ----------
    how
        Further options of ``pandas.read_csv``.
    """
    import pandas as pd

    delimiter, written = _header(_first_line_of(content, name), name)
    header = [column.strip() for column in written]
    refuse_duplicates([column for column in header if column], name)
    as_text = text_columns(header)
    try:
        frame: pd.DataFrame = pd.read_csv(
            io.BytesIO(content),
            sep=delimiter,
            encoding="utf-8-sig",
            skipinitialspace=True,
            low_memory=False,
            dtype={column: str for column in written if column.strip() in as_text},
            **how,
        )
    except (pd.errors.ParserError, ValueError) as error:
        raise DatasetError(_parsing_problem(error, name)) from None
    if not isinstance(frame.index, pd.RangeIndex):
        raise DatasetError(
            f"{name} is not a table: its rows have more values than its header has names "
            f"({len(header)}); name every column in the first line"
        )
    # Spreadsheets write the delimiters of empty columns too.
    unnamed = [column for column, given in zip(frame, header, strict=False) if not given]
    frame = frame.drop(columns=[column for column in unnamed if frame[column].isna().all()])
    frame.columns = pd.Index([str(c).strip() for c in frame.columns])
    for column in frame.select_dtypes(include=["object", "string"]):
        frame[column] = _tidied(frame[column])
    return frame


def refuse_duplicates(columns: Sequence[str], table: str) -> None:
    """Raise a DatasetError if two columns have one name."""
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise DatasetError(
            f"{table} has more than one column '{twice[0]}'; rename or remove one of them"
        )


def _content(path: Path) -> bytes:
    try:
        return read_content(path, _MOST_BYTES)
    except FileNotFoundError:
        hint = near_file(path) or "; check the path"
        raise DatasetError(f"there is no file {path}{hint}") from None
    except IsADirectoryError:
        raise DatasetError(
            f"{path} is a directory; name a table (.csv, .tsv or .parquet)"
        ) from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}; check the path") from None


def _parse_parquet(content: bytes, path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise DatasetError(
            f"reading {path} needs pyarrow: install foretell[parquet], or convert it to CSV"
        ) from None
    except Exception as error:
        raise DatasetError(
            f"{path} is not a Parquet table ({error_lines(error)[0]}); export it again"
        ) from None


def _tidied(values: pd.Series[Any]) -> pd.Series[Any]:
    """Strip blanks around names, and read whole numbers beyond 64 bits as numbers."""
    import pandas as pd

    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind == "string":
        return values.str.strip()  # 'm4 ' would be another machine than 'm4'
    if kind == "integer":  # beyond 64 bits
        return pd.to_numeric(values.astype(str), errors="coerce")
    return values


def _first_line_of(content: bytes, name: str) -> str:
    """Return the first line that is not blank, or refuse what is not UTF-8 text."""
    for mark, encoding in _MARKS.items():
        if content.startswith(mark):
            raise DatasetError(f"{name} is {encoding} text; save it as UTF-8")
    if b"\0" in content:
        raise DatasetError(f"{name} is not a table: it is not text; export it as CSV")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DatasetError(f"{name}, line {line}: not UTF-8 text; save it as UTF-8") from None
    first = re.search(r"[^\r\n]*\S[^\r\n]*", text)
    if first is None:
        raise DatasetError(f"{name} is empty; the first line must name the columns")
    return first.group()


def _header(first: str, name: str) -> tuple[str, list[str]]:
    """Return the delimiter of a table and the names in its first line."""
    for kind, start in _OTHERS.items():
        if re.match(start, first.strip()):
            raise DatasetError(f"{name} is not a table: it looks like {kind}; export it as CSV")
    try:
        # Parsed rather than counted: a quoted name may contain the other delimiters.
        fields = {
            d: next(csv.reader([first], delimiter=d, skipinitialspace=True)) for d in _DELIMITERS
        }
    except csv.Error as error:
        raise DatasetError(
            f"{name} is not a table: its first line must name the columns ({error})"
        ) from None
    delimiter = max(_DELIMITERS, key=lambda d: len(fields[d]))
    return delimiter, fields[delimiter]


def _parsing_problem(error: Exception, name: str) -> str:
    text = error_lines(error)[0].removeprefix("Error tokenizing data. C error: ")
    found = re.fullmatch(r"Expected (\d+) fields in line (\d+), saw (\d+)\s*", text)
    if found is None:
        return f"{name} is not a table: {text}"
    expected, line, came = found.groups()
    return (
        f"{name}, line {line}: {came} values, and the header names {expected} columns; quote "
        "values that contain the delimiter"
    )
