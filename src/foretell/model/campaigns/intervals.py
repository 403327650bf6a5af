"""Intervals for the models of a campaign, from rows that were held out when winners were fitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from foretell.model.campaigns.validation.splits import (
    MOST_PREDICTIONS,
    CampaignSplits,
    Split,
)
from foretell.model.passports.calibration import Calibration, Rehearsed, Spot, calibrate
from foretell.model.passports.measured_range import total_distance
from foretell.model.passports.passport import spot_in_table
from foretell.model.passports.questions import QuestionKind
from foretell.model.table import Table
from foretell.spaces.levels import level_names

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Level = tuple[str, str]

#: With fewer held-out rows inside the measured range, selection splits are used as well.
_ENOUGH = 20
#: With fewer than this in total there are no intervals: quantiles of so few say nothing.
_FEWEST = 5


def selection_evidence(table: Table, plan: CampaignSplits) -> tuple[str, ...]:
    """Return the selection splits to predict for intervals; none where validation rows suffice."""
    n_inside = 0
    for split in (plan.splits[outer.key] for outer in plan.outer):
        rows = split.kept(plan.n_predictions)
        spot = spot_in_table(table, split.train, rows[~np.isin(rows, split.train)])
        n_inside += int((~spot.is_beyond & ~spot.is_unknown).sum())
    return plan.final.selection_keys if n_inside < _ENOUGH else ()


def n_kept(n_splits: int) -> int:
    """Return how many predictions to keep of each of some splits."""
    return max(1, MOST_PREDICTIONS // max(1, n_splits))


#: A split, how many of its test rows are kept at most, and what was predicted for those.
Predicted = tuple[Split, int, Sequence[float]]


def campaign_calibration(
    table: Table, target: str, held_out: Iterable[Predicted]
) -> tuple[Calibration | None, str | None]:
    """Learn how wide intervals must be; without enough evidence, return the reason instead."""
    if not (table.y > 0).all():
        return None, f"intervals are relative, and '{target}' is not positive in every row"
    parts = [_Residuals.of(table, *h) for h in held_out]
    inside = _inside(parts)
    if len(inside) < _FEWEST:
        n_rows = "no row was" if not len(inside) else f"only {len(inside)} rows were"
        return None, f"{n_rows} held out inside the measured range, and {_FEWEST} are needed"
    none = np.zeros(len(inside))
    each = np.arange(len(inside))
    rehearsed = [Rehearsed(QuestionKind.INSIDE, (), 0, inside, none, none + 1, each)]
    rehearsed += _unknown(parts)
    for part in parts:
        rehearsed += part.elsewhere()
    return calibrate(rehearsed, np.zeros(0), float(np.ptp(np.log(table.y)))), None


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Measured minus predicted logs of held-out rows, with where these lie.

    ``unknown_level``: of each row, the column and the level that training never saw; None if there
    is none. A row with several has the one of the first column.
    """

    values: Array
    spot: Spot
    unknown_level: list[Level | None]
    is_repeat: Mask
    configuration: Rows

    @classmethod
    def of(cls, table: Table, split: Split, most: int, predictions: Sequence[float]) -> _Residuals:
        kept = split.kept(most)
        is_evidence = ~np.isin(kept, split.train)  # an error on a training row is not
        rows, predicted = kept[is_evidence], np.array(predictions)[is_evidence]
        spot = spot_in_table(table, split.train, rows)
        unknown_level: list[Level | None] = [None] * len(rows)
        for name, is_new in spot.unknown.items():
            levels = level_names(table.frame[name])
            for i in np.flatnonzero(is_new):
                unknown_level[i] = unknown_level[i] or (name, str(levels[rows[i]]))
        configuration = table.configuration[rows]
        is_repeat = np.isin(configuration, table.configuration[split.train])
        values = np.log(table.y[rows]) - np.log(predicted)
        return cls(values, spot, unknown_level, is_repeat, configuration)

    @property
    def is_outside(self) -> Mask:
        """Which rows leave the training rows: beyond the range, or with a level never seen."""
        return self.spot.is_beyond | self.spot.is_unknown

    def elsewhere(self) -> list[Rehearsed]:
        """Return the residuals between levels and beyond the range."""
        found = [
            self._taken(kind, rows, name, direction=direction)
            for kind, name, direction, rows in self.spot.by_column()
        ]
        return [r for r in found if len(r.residuals)]

    def by_unknown_level(self) -> dict[Level, Rehearsed]:
        """Return the residuals of each unknown level."""
        found = {}
        for level in sorted({level for level in self.unknown_level if level is not None}):
            rows = np.array([own == level for own in self.unknown_level])
            found[level] = self._taken(QuestionKind.UNKNOWN, rows, level[0])
        return found

    def _taken(
        self, kind: QuestionKind, rows: Mask, *columns: str, direction: int = 0
    ) -> Rehearsed:
        return Rehearsed(
            kind,
            columns,
            direction,
            self.values[rows],
            total_distance(self.spot.distance[rows]),
            self.spot.ratio[rows].max(axis=1, initial=1.0),
            self.configuration[rows],
        )


def _unknown(parts: Sequence[_Residuals]) -> list[Rehearsed]:
    """Return the residuals of each unknown level, merged over splits.

    A level that several splits hold out is still one level, and its runs are wrong together.
    """
    by_level: dict[Level, list[Rehearsed]] = {}
    for part in parts:
        for level, found in part.by_unknown_level().items():
            by_level.setdefault(level, []).append(found)
    return [
        replace(
            same[0],
            residuals=np.concatenate([r.residuals for r in same]),
            distance=np.concatenate([r.distance for r in same]),
            ratio=np.concatenate([r.ratio for r in same]),
            configuration=np.concatenate([r.configuration for r in same]),
        )
        for same in by_level.values()
    ]


def _inside(parts: Sequence[_Residuals]) -> Array:
    """Return residuals inside the range, of the best kind of which there are enough.

    Best are new configurations at measured levels. Rows between levels are harder to predict and
    repeats of trained configurations easier, so both only join where there are too few.
    """
    found = np.zeros(0)
    for wants_between, wants_repeat in ((False, False), (True, False), (False, True)):
        for part in parts:
            is_between = part.spot.between.any(axis=1) & ~part.is_repeat
            rows = (is_between == wants_between) & (part.is_repeat == wants_repeat)
            found = np.concatenate([found, part.values[rows & ~part.is_outside]])
        if len(found) >= _ENOUGH:
            break
    return found
