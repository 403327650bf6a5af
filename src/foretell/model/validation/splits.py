"""Splits of rows into training and test rows, for validation and for selection alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from foretell.errors import UsageError
from foretell.model.campaign import (
    AllRows,
    Extrapolation,
    HoldOut,
    Interpolation,
    KFold,
    Splits,
)
from foretell.model.table import Table

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Positions of the rows that train and of those that test."""

    train: Rows
    test: Rows

    def straddled_by(self, configuration: NDArray[np.int64]) -> bool:
        """Whether some configuration has repeats on both sides."""
        return bool(np.isin(configuration[self.test], configuration[self.train]).any())


def make_splits(
    splits: Splits, table: Table, rows: Rows, *, random: np.random.Generator, place: str
) -> list[Split]:
    """Split some rows of a table; raise a UsageError when a side would be empty.

    Parameters
    ----------
    place
        What the splits are for, ``validation`` or ``selection``, for messages.
    """
    match splits:
        case AllRows():
            return [Split(rows, rows)]
        case HoldOut():
            made = [_hold_out(splits, rows, random, place)]
        case KFold():
            made = _folds(splits, rows, random, place)
        case Interpolation():
            made = [_between(splits, table, rows, place)]
        case Extrapolation():
            made = [_beyond(splits, table, rows, place)]
        case _:
            assert_never(splits)
    return made


def _hold_out(splits: HoldOut, rows: Rows, random: np.random.Generator, place: str) -> Split:
    n_test = int(len(rows) * splits.ratio)
    if not 0 < n_test < len(rows):
        raise UsageError(
            f"{place}, HoldOut: a ratio of {splits.ratio:g} of {len(rows)} rows leaves "
            f"{n_test} test rows and {len(rows) - n_test} training rows; both need one at least"
        )
    test = np.sort(random.choice(rows, size=n_test, replace=False))
    return Split(np.setdiff1d(rows, test, assume_unique=True), test)


def _folds(splits: KFold, rows: Rows, random: np.random.Generator, place: str) -> list[Split]:
    if splits.folds > len(rows):
        raise UsageError(
            f"{place}, KFold: {splits.folds} folds of {len(rows)} rows leave some fold empty; "
            f"use at most {len(rows)} folds"
        )
    parts = [np.sort(part) for part in np.array_split(random.permutation(rows), splits.folds)]
    return [Split(np.setdiff1d(rows, part, assume_unique=True), part) for part in parts]


def _between(splits: Interpolation, table: Table, rows: Rows, place: str) -> Split:
    test = np.zeros(len(rows), dtype=bool)
    for name, step in splits.columns.items():
        values = table.number_column(name, wanted_by=f"{place}, Interpolation")[rows]
        levels = np.unique(values)
        held = np.array(step) if isinstance(step, list) else levels[:: round(step)]
        missing = np.setdiff1d(held, levels)
        if len(missing) == len(held):
            raise UsageError(
                f"{place}, Interpolation: column '{name}' has none of the values "
                f"{', '.join(f'{v:g}' for v in missing)}; it has "
                f"{', '.join(f'{v:g}' for v in levels[:12])}"
            )
        test |= np.isin(values, held)
    return _two_sided(rows, test, f"{place}, Interpolation on {', '.join(splits.columns)}")


def _beyond(splits: Extrapolation, table: Table, rows: Rows, place: str) -> Split:
    test = np.zeros(len(rows), dtype=bool)
    ranges = []
    for name, bound in splits.columns.items():
        values = table.number_column(name, wanted_by=f"{place}, Extrapolation")[rows]
        test |= values > bound
        ranges.append(f"'{name}' > {bound:g}, with values {values.min():g} to {values.max():g}")
    return _two_sided(rows, test, f"{place}, Extrapolation on {'; '.join(ranges)}")


def _two_sided(rows: Rows, test: NDArray[np.bool_], what: str) -> Split:
    for side, mask in (("test", test), ("training", ~test)):
        if not mask.any():
            raise UsageError(f"{what}: no {side} row is left of {len(rows)}; change the bounds")
    return Split(rows[~test], rows[test])
