"""Keeps the samples of a run for its trace, in bounded memory however long the run is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from foretell.traces import Trace

_MOST_SAMPLES = 4096


class Recorder:
    """Keeps every sample at first; when there are too many, every second, then every fourth.

    Parameters
    ----------
    columns
        What samples may have values of; those without one become NaN.
    """

    def __init__(self, columns: Sequence[str], most_samples: int = _MOST_SAMPLES) -> None:
        self._columns = list(dict.fromkeys(columns))
        self._most_samples = most_samples
        self._rows: list[list[float]] = []
        self._every = 1
        self._n_offered = 0

    def is_due(self, *, is_last: bool = False) -> bool:
        """Whether the next sample is to be kept; the last one always is."""
        self._n_offered += 1
        return is_last or (self._n_offered - 1) % self._every == 0

    def add(self, time_s: float, values: Mapping[str, float]) -> None:
        """Keep one sample, unless the clock has not moved since the one before."""
        if self._rows and time_s <= self._rows[-1][0]:
            return
        if len(self._rows) >= self._most_samples:
            self._rows = self._rows[::2]
            self._every *= 2
        self._rows.append([time_s, *(values.get(name, math.nan) for name in self._columns)])

    def trace(self) -> Trace | None:
        """Return what was kept; None if there was nothing to look at."""
        import numpy as np

        if not self._rows:
            return None
        times_s, *values = np.array(self._rows).T.copy()
        return Trace(times_s, dict(zip(self._columns, values, strict=True)))
