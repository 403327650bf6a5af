"""All splits of a campaign, made before any fit so that impossible ones are refused early."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretell.model.campaigns import AllRows, Campaign
from foretell.model.campaigns.validation import Split, make_splits
from foretell.model.table import Table

ALL = "all"
MOST_PREDICTIONS = 3_000  # of held-out runs, kept for the report


@dataclass(frozen=True)
class OuterSplit:
    """One validation split, and the keys of the selection splits of its training rows."""

    key: str
    run: int
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
    return OuterSplit(key, run, tuple(keys))


def _straddles(campaign: Campaign, table: Table, splits: dict[str, Split]) -> bool:
    methods = {"validation": campaign.validation, "selection": campaign.search.splits}
    return any(
        split.straddled_by(table.configuration)
        for key, split in splits.items()
        if key != ALL
        and not isinstance(methods["selection" if "/" in key else "validation"], AllRows)
    )
