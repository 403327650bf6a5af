"""Splits into training and test rows: all of a campaign, made before any fit to refuse early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from foretell.errors import UsageError, listing
from foretell.model.campaigns.schema import (
    AllRows,
    Campaign,
    Extrapolation,
    HoldOut,
    Interpolation,
    KFold,
    Splits,
)
from foretell.model.table import Table

Rows = NDArray[np.int64]
Place = tuple[str, ...]

ALL = "all"
MOST_PREDICTIONS = 3_000  # of held-out runs, kept for the report


@dataclass(frozen=True)
class Split:
    """Positions of the training rows and of the test rows."""

    train: Rows
    test: Rows

    def kept(self, most: int) -> Rows:
        """Return at most so many test rows, evenly spaced: those whose predictions are kept."""
        return self.test[thinned(len(self.test), most)]

    def straddled_by(self, configuration: NDArray[np.int64]) -> bool:
        """Whether repeats of some configuration are on both sides."""
        return bool(np.isin(configuration[self.test], configuration[self.train]).any())


def make_splits(
    splits: Splits, table: Table, rows: Rows, *, random: np.random.Generator, at: Place
) -> list[Split]:
    """Split some rows of a table; raise a UsageError if a side would be empty.

    ``at``: the campaign option that asks for these splits, for messages.
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


@dataclass(frozen=True)
class OuterSplit:
    """One validation split, and the keys of the selection splits of its training rows."""

    key: str
    selection_keys: tuple[str, ...]


@dataclass(frozen=True)
class CampaignSplits:
    """The outer splits of all runs, the final one over all rows, and every split by key."""

    outer: tuple[OuterSplit, ...]
    final: OuterSplit
    splits: dict[str, Split]
    repeats_straddle: bool

    @property
    def n_predictions(self) -> int:
        """How many predictions of each outer split are kept for the report."""
        return max(1, MOST_PREDICTIONS // len(self.outer))


def thinned(n: int, most: int) -> NDArray[np.int64]:
    """Return at most ``most`` of n positions, evenly spaced."""
    if n <= most:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, most).round().astype(np.int64))


def split_campaign(campaign: Campaign, table: Table) -> CampaignSplits:
    """Make all splits of a campaign from its seed."""
    splits: dict[str, Split] = {}
    rows = np.arange(len(table.y))
    outer = []
    for run in range(campaign.runs):
        random = np.random.default_rng([campaign.seed, run])
        made = make_splits(campaign.validation, table, rows, random=random, at=("validation",))
        for number, split in enumerate(made):
            key = f"{run}.{number}"
            splits[key] = split
            outer.append(_with_selection(campaign, table, key, run, number, splits))
    splits[ALL] = Split(rows, rows)
    final = _with_selection(campaign, table, ALL, campaign.runs, 0, splits)
    return CampaignSplits(tuple(outer), final, splits, _straddles(campaign, table, splits))


def _with_selection(
    campaign: Campaign, table: Table, key: str, run: int, number: int, splits: dict[str, Split]
) -> OuterSplit:
    # From 1, because NumPy treats the seed [a, b, 0] as [a, b], which the outer splits use.
    random = np.random.default_rng([campaign.seed, run, number + 1])
    made = make_splits(
        campaign.search.splits, table, splits[key].train, random=random, at=("search", "splits")
    )
    keys = []
    for fold, split in enumerate(made):
        keys.append(f"{key}/{fold}")
        splits[keys[-1]] = split
    return OuterSplit(key, tuple(keys))


def _straddles(campaign: Campaign, table: Table, splits: dict[str, Split]) -> bool:
    methods = {"validation": campaign.validation, "selection": campaign.search.splits}
    return any(
        split.straddled_by(table.configuration)
        for key, split in splits.items()
        if key != ALL
        and not isinstance(methods["selection" if "/" in key else "validation"], AllRows)
    )
