"""Contract 4, traces: samples of one run over time, and the small file that keeps them.

A trace file has two lines of text and then plain numbers: what it is, a JSON header, and the
columns one after the other as little-endian 64-bit floats. Reading it executes nothing.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretell.errors import DatasetError
from foretell.files.content import read_content

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SUFFIX = ".trace"
TIME = "time_s"
_SUM = "crc32"
_KEYS = {"columns", "n_samples", "about", _SUM}
_MAGIC = b"foretell trace 1\n"
_MOST_BYTES = 2**28  # of a file that is read
_MOST_HEADER = 2**20


@dataclass(frozen=True, eq=False)
class Trace:
    """Samples of one run.

    Attributes
    ----------
    times_s
        When each sample was taken, in seconds since the job began; they increase.
    columns
        One value per sample for each thing that was looked at; NaN where it was not known.
        Counters, such as ``cpu_time_s``, are totals since the job began, so that leaving samples
        out loses nothing of them; amounts, such as ``memory_bytes``, are those of the moment.
    about
        What the samples are of, as plain JSON: the configuration of the run, for example.

    >>> import numpy as np
    >>> trace = Trace(np.array([0.0, 0.5]), {"memory_bytes": np.array([10.0, 30.0])}, {"n": 4})
    >>> Trace.from_bytes(trace.to_bytes()).columns["memory_bytes"].tolist()
    [10.0, 30.0]
    """

    times_s: Array
    columns: Mapping[str, Array]
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        import numpy as np

        for name, values in {TIME: self.times_s, **self.columns}.items():
            if np.shape(values) != (len(self.times_s),):
                raise ValueError(f"'{name}' must have one value for each of {len(self)} samples")
        if TIME in self.columns:
            raise ValueError(f"'{TIME}' is the name of the samples' time; rename the column")
        if not (np.isfinite(self.times_s).all() and (np.diff(self.times_s) > 0).all()):
            raise ValueError("the times of samples must be finite and increase")

    def __len__(self) -> int:
        return len(self.times_s)

    def frame(self) -> pd.DataFrame:
        """Return the samples as a table, one row each."""
        import pandas as pd

        return pd.DataFrame({TIME: self.times_s, **self.columns})

    def to_bytes(self) -> bytes:
        """Return the content of a file; equal traces give equal files."""
        import numpy as np

        about = json.loads(json.dumps(self.about))  # as it is read: keys are texts
        header = {"columns": list(self.columns), "n_samples": len(self), "about": about}
        arrays = [self.times_s, *self.columns.values()]
        numbers = b"".join(np.asarray(array, "<f8").tobytes() for array in arrays)
        text = json.dumps({**header, _SUM: _checksum(header, numbers)}, sort_keys=True).encode()
        return _MAGIC + text + b"\n" + numbers

    @classmethod
    def from_bytes(cls, content: bytes) -> Trace:
        """Read the content of a file; raise a ValueError if anything is wrong with it."""
        import numpy as np

        if not content.startswith(_MAGIC):
            raise ValueError("it does not begin as a trace does")
        text, end, numbers = content[len(_MAGIC) :].partition(b"\n")
        if not end or len(text) > _MOST_HEADER:
            raise ValueError("it has no header")
        header = _header(text)
        names, n_samples, about = _checked(header)
        n_expected = 8 * n_samples * (1 + len(names))
        if len(numbers) != n_expected:
            raise ValueError(f"{n_expected} bytes of numbers are expected, not {len(numbers)}")
        told = header.pop(_SUM, None)  # files of earlier versions have none
        if told is not None and told != _checksum(header, numbers):
            raise ValueError("it is damaged: its content does not fit its checksum")
        arrays = np.frombuffer(numbers, "<f8").reshape(1 + len(names), n_samples)
        times_s, *values = arrays.astype(np.float64)
        return cls(times_s, dict(zip(names, values, strict=True)), about)


def _checksum(header: Mapping[str, Any], numbers: bytes) -> int:
    """Return what tells whether a file is as it was written; it is no proof of who wrote it."""
    return zlib.crc32(numbers, zlib.crc32(json.dumps(header, sort_keys=True).encode()))


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not (isinstance(header, dict) and header.keys() <= _KEYS):
        raise ValueError("its header cannot be read")
    return header


def _checked(header: Mapping[str, Any]) -> tuple[list[str], int, dict[str, Any]]:
    try:
        names, n_samples, about = header["columns"], header["n_samples"], header["about"]
    except KeyError:
        raise ValueError("its header cannot be read") from None
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or len(set(names)) < len(names):
        raise ValueError("its columns must be a list of names that differ")
    if isinstance(n_samples, bool) or not isinstance(n_samples, int) or n_samples < 0:
        raise ValueError(f"it cannot have {n_samples!r} samples")
    if not isinstance(about, dict):
        raise ValueError("what it is about must be a table")
    return names, n_samples, about


def read_trace(path: Path | str) -> Trace:
    """Read a trace that `foretell measure` wrote; raise a DatasetError if it is none."""
    try:
        return Trace.from_bytes(read_content(Path(path), _MOST_BYTES))
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}; check the path") from None
    except ValueError as error:
        raise DatasetError(
            f"{path} is not a trace of foretell: {error}. A sweep with traces = true writes them."
        ) from None
