"""Where configurations are: as processes measure distances, and as laws see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from foretell.dataset import as_numbers
from foretell.decide.advise.belief.drawn_laws import Places
from foretell.predictor import Predictor
from foretell.spaces.levels import trained_levels

Array = NDArray[np.float64]

#: With more numbers than this, their products do not count.
_MOST_MULTIPLIED = 6
#: How far apart levels of a category are along each of their coordinates. Before anything is
#: learned, two levels share half of an error.
_BETWEEN_LEVELS = 0.7
#: Laws are computed no further than this from the middle of the data, in logs.
_MOST_LOG = 50.0


@dataclass(frozen=True)
class Coordinates:
    """Where configurations are, in measured ranges.

    ``numbers``: by column, whether it counts in logs, where its measured range begins, and the
    width of it. Columns of true and false go from 0 to 1.
    """

    numbers: Mapping[str, tuple[bool, float, float]]
    categories: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, predictors: Sequence[Predictor]) -> Coordinates:
        """Take the ranges of models; if they differ, the widest."""
        ranges: dict[str, tuple[float, float]] = {}
        levels: dict[str, list[str]] = {}
        for predictor in predictors:
            for name, (low, high) in predictor.ranges.items():
                from_, to = ranges.get(name, (low, high))
                ranges[name] = (min(low, from_), max(high, to))
            for name, known in predictor.categories.items():
                levels[name] = list(dict.fromkeys([*levels.get(name, []), *known]))
        for name in (name for predictor in predictors for name in predictor.columns):
            if name not in levels:  # without a range, it is true or false
                ranges.setdefault(name, (0.0, 1.0))
        return cls({name: _scale(*ends) for name, ends in ranges.items()}, levels)

    def at(self, frame: pd.DataFrame) -> Array:
        """Return the coordinates of each row: numbers, totals, levels."""
        found, totals = [], []
        for name, (is_log, low, width) in self.numbers.items():
            values = as_numbers(frame[name])
            values = np.log(np.maximum(values, 1e-300)) if is_log else values
            found.append((values - low) / width)
            if is_log:
                totals.append((values - low, width))
        if len(totals) <= _MOST_MULTIPLIED:
            pairs = combinations(totals, 2)
            found += [(one + other) / (width + more) for (one, width), (other, more) in pairs]
        for name, levels in self.categories.items():
            written = trained_levels(frame[name], levels)
            found += [_BETWEEN_LEVELS * (written == level) for level in levels]
        return np.column_stack([np.zeros((len(frame), 0)), *found])

    @property
    def halves(self) -> Array:
        """Half the range of each column that counts in logs."""
        return np.array([width / 2 for is_log, _, width in self.numbers.values() if is_log])

    def places(self, frame: pd.DataFrame) -> Places:
        """Return where each row is, as laws see it."""
        logs, shares, none = [], [], np.zeros((len(frame), 0))
        for name, (is_log, low, width) in self.numbers.items():
            values = as_numbers(frame[name])
            if is_log:
                off = np.log(np.maximum(values, 1e-300)) - low - width / 2
                logs.append(np.clip(off, -_MOST_LOG, _MOST_LOG))
            else:
                shares.append((values - low) / width)
        known = []
        for name, levels in self.categories.items():
            at = pd.Index(levels).get_indexer(pd.Index(trained_levels(frame[name], levels)))
            known.append(np.where(at < 0, len(levels), at))
        return Places(
            np.column_stack([none, *logs]),
            np.column_stack([none, *shares]),
            np.column_stack([none.astype(np.int64), *known]),
        )


def _scale(low: float, high: float) -> tuple[bool, float, float]:
    if low > 0:
        return True, float(np.log(low)), float(np.log(high / low)) or 1.0
    return False, low, (high - low) or 1.0
