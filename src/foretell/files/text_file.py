"""Campaigns, sweeps and other text files, with a clear error when a file is not readable text."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretell.errors import UsageError, nearest
from foretell.files.content import read_content

_MOST_BYTES = 50_000_000


@dataclass(frozen=True)
class FileKind:
    """What a kind of file is called, what it must name at least, and the suffixes it may have."""

    name: str
    least: str
    suffixes: tuple[str, ...]


def read_text(path: Path, kind: FileKind) -> str:
    """Read such a file; raise a UsageError when it is missing, unreadable, binary or empty."""
    try:
        content = read_content(path, _MOST_BYTES)
    except FileNotFoundError:
        raise UsageError(f"there is no {kind.name} file '{path}'{near_file(path)}") from None
    except IsADirectoryError:
        found = sorted(str(f) for f in path.iterdir() if f.suffix in kind.suffixes)
        hint = f", such as {found[0]}" if found else ""
        raise UsageError(f"{path} is a directory, and a {kind.name} is a file{hint}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; check the path") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{path}, line {line}: not UTF-8 text, and a {kind.name} is a text file; "
            "save it as UTF-8"
        ) from None
    if "\0" in text:
        raise UsageError(f"{path} is not a text file, and a {kind.name} is one; check the path")
    if not text.strip():
        raise UsageError(f"{path} is empty; a {kind.name} must name at least {kind.least}")
    return text.replace("\r\n", "\n")


def read_toml_file(path: Path, kind: FileKind) -> dict[str, Any]:
    """Read such a file as TOML."""
    try:
        return tomllib.loads(read_text(path, kind))
    except RecursionError:
        raise UsageError(f"{path} nests lists or tables too deeply; write them flat") from None
    except ValueError as error:  # not TOML, or a number with thousands of digits
        raise UsageError(f"{path} is not valid TOML: {error}") from None


def near_file(path: Path) -> str:
    """Suggest a file of a similar name in the same directory; empty when there is none."""
    try:
        others = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    except OSError:
        return f": there is no directory '{path.parent}'" if not path.parent.is_dir() else ""
    near = nearest(path.name, others)
    return f". Did you mean '{path.parent / near}'?" if near is not None else ""
