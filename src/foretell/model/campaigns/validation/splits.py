"""Splits of rows into training and test rows, for validation and for selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from foretell.errors import UsageError, listing
from foretell.model.campaigns import (
    AllRows,
    Extrapolation,
    HoldOut,
    Interpolation,
    KFold,
    Splits,
)
from foretell.model.table import Table

Rows = NDArray[np.int64]
Place = tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """Positions of the training rows and of the test rows."""

    train: Rows
    test: Rows

    def straddled_by(self, configuration: NDArray[np.int64]) -> bool:
        """Whether repeats of some configuration are on both sides."""
        return bool(np.isin(configuration[self.test], configuration[self.train]).any())


def make_splits(
    splits: Splits, table: Table, rows: Rows, *, random: np.random.Generator, at: Place
) -> list[Split]:
    """Split some rows of a table; raise a UsageError if a side would be empty.

    Parameters
    ----------
    at
        The campaign option that asks for these splits, for messages.
    """
    match splits:
        case AllRows():
            return [Split(rows, rows)]
        case HoldOut():
            made = [_hold_out(splits, rows, random, at)]
        case KFold():
            made = _folds(splits, rows, random, at)
        case Interpolation():
            made = [_between(splits, table, rows, at)]
        case Extrapolation():
            made = [_beyond(splits, table, rows, at)]
        case _:
            assert_never(splits)
    return made


def _hold_out(splits: HoldOut, rows: Rows, random: np.random.Generator, at: Place) -> Split:
    n_test = int(len(rows) * splits.ratio)
    if not 0 < n_test < len(rows):
        raise UsageError(
            f"a ratio of {splits.ratio:g} of {len(rows)} rows leaves {n_test} test rows and "
            f"{len(rows) - n_test} training rows, and both need at least one; change the ratio",
            at=at,
        )
    test = np.sort(random.choice(rows, size=n_test, replace=False))
    return Split(np.setdiff1d(rows, test, assume_unique=True), test)


def _folds(splits: KFold, rows: Rows, random: np.random.Generator, at: Place) -> list[Split]:
    if splits.folds > len(rows):
        raise UsageError(
            f"{splits.folds} folds of {len(rows)} rows would leave some fold empty; "
            f"use at most {len(rows)} folds",
            at=at,
        )
    parts = [np.sort(part) for part in np.array_split(random.permutation(rows), splits.folds)]
    return [Split(np.setdiff1d(rows, part, assume_unique=True), part) for part in parts]


def _between(splits: Interpolation, table: Table, rows: Rows, at: Place) -> Split:
    test = np.zeros(len(rows), dtype=bool)
    described = []
    for name, step in splits.columns.items():
        values = table.number_column(name, at=at)[rows]
        levels = np.unique(values)
        held = np.array(step) if isinstance(step, list) else levels[:: round(step)]
        missing = np.setdiff1d(held, levels)
        if len(missing) == len(held):
            raise UsageError(
                f"column '{name}' has none of the values {_numbers(missing)}; choose among "
                f"{_numbers(levels)}",
                at=at,
            )
        test |= np.isin(values, held)
        described.append(f"'{name}' at {_numbers(held)}, among {_numbers(levels)}")
    return _two_sided(rows, test, f"Interpolation ({'; '.join(described)})", at)


def _beyond(splits: Extrapolation, table: Table, rows: Rows, at: Place) -> Split:
    test = np.zeros(len(rows), dtype=bool)
    described = []
    for name, bound in splits.columns.items():
        values = table.number_column(name, at=at)[rows]
        test |= values > bound
        described.append(f"'{name}' > {bound:g}, with values {values.min():g} to {values.max():g}")
    return _two_sided(rows, test, f"Extrapolation ({'; '.join(described)})", at)


def _two_sided(rows: Rows, test: NDArray[np.bool_], what: str, at: Place) -> Split:
    for side, mask in (("test", test), ("training", ~test)):
        if not mask.any():
            raise UsageError(
                f"{what} leaves no {side} row of {len(rows)}; change the columns or their values",
                at=at,
            )
    return Split(rows[~test], rows[test])


def _numbers(values: NDArray[np.float64]) -> str:
    return listing(f"{value:g}" for value in values)
