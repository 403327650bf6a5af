"""All meters of a run together, and the samples that are kept for its trace."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from foretell.measure.meters._base import Meter, Tree
from foretell.traces import Trace

_MOST_SAMPLES = 4096


class Recorder:
    """Keeps the samples of a run in bounded memory: if there are too many, every second or fourth.

    Samples may have values of the columns; those without one become NaN.
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


class Panel:
    """Starts, samples and reads meters; slow ones start first and stop last.

    A meter that fails costs its own columns, and nothing else.
    """

    def __init__(self, meters: Sequence[Meter], *, is_traced: bool = False) -> None:
        self._columns = [column for meter in meters for column in meter.columns]
        self._working = sorted(meters, key=lambda meter: not meter.is_slow)
        traced = [column for meter in meters for column in meter.trace_columns]
        self._recorder = Recorder(traced) if is_traced else None
        self._started = 0.0
        self.complaints: list[str] = []

    def start(self, tree: Tree) -> None:
        """Start all; the job begins right after."""
        self._each(lambda meter: meter.start(tree))
        self._started = time.monotonic()

    def sample(self, tree: Tree) -> None:
        """Let all look at the job."""
        self._each(lambda meter: meter.sample(tree))
        self._record(tree)

    def stop(self, tree: Tree) -> dict[str, float]:
        """Read all that work, and return what they measured, in the order of the meters."""
        self._record(tree, is_last=True)
        found: dict[str, float] = {}
        self._working.reverse()
        self._each(lambda meter: found.update(meter.stop(tree)))
        return {column: found[column] for column in self._columns if column in found}

    def trace(self) -> Trace | None:
        """Return the samples, if they were to be kept and the job began."""
        return None if self._recorder is None else self._recorder.trace()

    def _record(self, tree: Tree, *, is_last: bool = False) -> None:
        if self._recorder is not None and self._recorder.is_due(is_last=is_last):
            values: dict[str, float] = {}
            self._each(lambda meter: values.update(meter.reading(tree)))
            self._recorder.add(time.monotonic() - self._started, values)

    def _each(self, work: Callable[[Meter], Any]) -> None:
        for meter in list(self._working):
            try:
                work(meter)
            except Exception as error:  # meters of other packages may raise anything
                self._working.remove(meter)
                name = type(meter).__name__
                self.complaints.append(f"{name} failed: {type(error).__name__}: {error}")
