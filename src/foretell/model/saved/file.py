"""The file of a saved model: a zip of one JSON header and plain arrays, checked while reading."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from foretell.errors import ModelError

_HEADER = "model.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that equal models are equal files
_MOST_BYTES = 2**31  # unpacked; a small file may claim to hold far more
_ARRAY_FORMAT = (1, 0)


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of a file; equal parts give equal files."""
    buffer = io.BytesIO()
    n_bytes = 0
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _parts(header, arrays):
            n_bytes += len(content)
            if n_bytes > _MOST_BYTES:  # it would not be read
                raise ModelError("the model takes more than 2 GiB; choose smaller hyperparameters")
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()


def _parts(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Iterator[tuple[str, bytes]]:
    yield _HEADER, json.dumps(header, indent=1).encode()
    for name in sorted(arrays):
        content = io.BytesIO()
        array = np.ascontiguousarray(arrays[name])
        np.lib.format.write_array(content, array, _ARRAY_FORMAT, allow_pickle=False)
        yield f"{name}.npy", content.getvalue()


class Archive:
    """An open file; anything wrong in it raises an exception, and nothing in it is executed."""

    def __init__(self, file: IO[bytes], name: str | Path) -> None:
        start = file.read(4)
        if start.startswith(b"\x80"):
            raise ModelError(
                f"{name} is not a foretell model (it looks like a Python pickle). "
                "foretell never loads pickles: they can run code."
            )
        if start != b"PK\x03\x04":
            raise ModelError(f"{name} is not a foretell model; `foretell fit` writes them")
        self._zip = zipfile.ZipFile(file)
        self._entries = {entry.filename: entry for entry in self._zip.infolist()}
        if len(self._entries) < len(self._zip.infolist()):
            raise ValueError("two of its parts have the same name")
        if sum(entry.file_size for entry in self._entries.values()) > _MOST_BYTES:
            raise ModelError(
                f"{name} unpacks to more than 2 GiB, which no foretell model does; fit it again"
            )
        if _HEADER not in self._entries:
            raise ModelError(
                f"{name} is not a foretell model: it has no {_HEADER}; `foretell fit` writes them"
            )

    def header(self) -> Any:
        """Read the header, which may be anything that JSON can say."""
        return json.loads(self._read(_HEADER))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Read all arrays."""
        return {
            name.removesuffix(".npy"): _read_array(self._read(name))
            for name in self._entries
            if name.endswith(".npy")
        }

    def _read(self, name: str) -> bytes:
        entry = self._entries[name]
        # Only these two unpack no more than they are asked for, whatever size the entry claims.
        if entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise ValueError(f"{name} is compressed in an unknown way")
        with self._zip.open(entry) as file:
            content = file.read(entry.file_size)
            if len(content) < entry.file_size or file.read(1):
                raise ValueError(f"{name} is not of the size it claims")
        return content


def _read_array(content: bytes) -> NDArray[Any]:
    """Read plain numbers; the size is checked before anything is allocated for them."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != _ARRAY_FORMAT:
        raise ValueError("an array is written in an unknown way")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in "biuf":
        raise ValueError(f"an array holds {dtype}, and only numbers are read")
    if math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"an array is not of the size it claims, {shape}")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)
