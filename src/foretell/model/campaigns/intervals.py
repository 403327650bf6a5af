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
    thinned,
)
from foretell.model.features.feature import CATEGORY
from foretell.model.features.levels import level_names
from foretell.model.passports.calibration import Calibration, Rehearsed, calibrate
from foretell.model.passports.measured_range import MeasuredRange, total_distance
from foretell.model.passports.questions import Question
from foretell.model.table import Table

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: With fewer held-out rows inside the measured range, selection splits are used as well.
_ENOUGH = 20
#: With fewer than this in total there are no intervals: quantiles of so few say nothing.
_FEWEST = 5


def selection_evidence(table: Table, plan: CampaignSplits) -> tuple[str, ...]:
    """Return the selection splits to predict for intervals; none where validation rows suffice."""
    tests = [(plan.splits[s.key], plan.n_predictions) for s in plan.outer]
    n_inside = sum(int((~_place(table, split, most).is_outside).sum()) for split, most in tests)
    return plan.final.selection_keys if n_inside < _ENOUGH else ()


def n_kept(n_splits: int) -> int:
    """Return how many predictions to keep of each of some splits."""
    return max(1, MOST_PREDICTIONS // max(1, n_splits))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions for the test rows of one split; of many rows, at most ``most``, evenly chosen."""

    split: Split
    most: int
    predicted: Sequence[float]


def campaign_calibration(
    table: Table, target: str, held_out: Iterable[HeldOut]
) -> tuple[Calibration | None, str | None]:
    """Learn how wide intervals must be; without enough evidence, return the reason instead."""
    if not (table.y > 0).all():
        return None, f"intervals are relative, and '{target}' is not positive in every row"
    parts = [_Residuals.of(table, h) for h in held_out]
    inside = _inside(parts)
    if len(inside) < _FEWEST:
        n_rows = "no row was" if not len(inside) else f"only {len(inside)} rows were"
        return None, f"{n_rows} held out inside the measured range, and {_FEWEST} are needed"
    none = np.zeros(len(inside))
    each = np.arange(len(inside))
    rehearsed = [Rehearsed(Question.INSIDE, (), 0, inside, none, none + 1, each)]
    rehearsed += _unknown(parts)
    for part in parts:
        rehearsed += part.elsewhere()
    return calibrate(rehearsed, np.zeros(0), float(np.ptp(np.log(table.y)))), None


@dataclass(frozen=True, eq=False)
class _Place:
    """Where the held-out rows of a split lie relative to its training rows.

    Attributes
    ----------
    unknown_level
        The level of a category that training never saw, with its column; empty if there is none.
        A row with several has the one of the first column.
    """

    rows: Rows
    names: list[str]
    distance: Array
    ratio: Array
    between: Mask
    unknown_level: NDArray[np.object_]
    is_repeat: Mask
    configuration: Rows

    @property
    def is_unknown(self) -> Mask:
        """Which rows have a level never seen."""
        return np.asarray(self.unknown_level != "", dtype=bool)

    @property
    def is_outside(self) -> Mask:
        """Which rows leave the training rows: beyond the range, or with a level never seen."""
        outside: Mask = (self.distance != 0).any(axis=1) | self.is_unknown
        return outside


def _place(table: Table, split: Split, most: int) -> _Place:
    rows = split.test[thinned(len(split.test), most)]
    rows = rows[~np.isin(rows, split.train)]  # an error on a training row is not evidence
    names = table.feature_map.numbers
    values = table.frame[names].to_numpy(dtype=float)
    measured = MeasuredRange.of(values[split.train])
    distance = measured.distance(values[rows])
    unknown_level = np.full(len(rows), "", dtype=object)
    for column in table.feature_map.columns:
        if column.kind == CATEGORY:
            levels = level_names(table.frame[column.name])
            is_new = ~np.isin(levels[rows], np.unique(levels[split.train]))
            for i in np.flatnonzero(is_new & (unknown_level == "")):
                unknown_level[i] = f"{column.name}={levels[rows[i]]}"
    return _Place(
        rows,
        names,
        distance,
        measured.ratio(values[rows], distance),
        measured.between(values[rows], distance),
        unknown_level,
        np.isin(table.configuration[rows], table.configuration[split.train]),
        table.configuration[rows],
    )


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Measured minus predicted logs of held-out rows, with where these lie."""

    place: _Place
    values: Array

    @classmethod
    def of(cls, table: Table, held_out: HeldOut) -> _Residuals:
        split = held_out.split
        chosen = split.test[thinned(len(split.test), held_out.most)]
        predicted = np.array(held_out.predicted)[~np.isin(chosen, split.train)]
        place = _place(table, split, held_out.most)
        return cls(place, np.log(table.y[place.rows]) - np.log(predicted))

    def elsewhere(self) -> list[Rehearsed]:
        """Return the residuals between levels and beyond the range."""
        place = self.place
        is_beyond = (place.distance != 0).any(axis=1) & ~place.is_unknown
        found = []
        for j in range(len(place.names)):
            is_between = place.between[:, j] & ~place.is_outside
            found.append(self._taken(Question.BETWEEN, is_between, j, 0))
            # A row beyond several ranges counts for the column along which it is farthest out.
            farthest = is_beyond & (np.abs(place.distance).argmax(axis=1) == j)
            for direction in (-1, 1):
                rows = farthest & (np.sign(place.distance[:, j]) == direction)
                found.append(self._taken(Question.BEYOND, rows, j, direction))
        return [r for r in found if len(r.residuals)]

    def by_unknown_level(self) -> dict[str, Rehearsed]:
        """Return the residuals of each unknown level."""
        place = self.place
        return {
            level: self._taken(Question.UNKNOWN, place.unknown_level == level, None, 0)
            for level in np.unique(place.unknown_level[place.is_unknown])
        }

    def _taken(self, kind: Question, rows: Mask, column: int | None, direction: int) -> Rehearsed:
        place = self.place
        return Rehearsed(
            kind,
            () if column is None else (place.names[column],),
            direction,
            self.values[rows],
            total_distance(place.distance[rows]),
            place.ratio[rows].max(axis=1, initial=1.0),
            place.configuration[rows],
        )


def _unknown(parts: Sequence[_Residuals]) -> list[Rehearsed]:
    """Return the residuals of each unknown level, merged over splits.

    A level that several splits hold out is still one level, and its runs are wrong together.
    """
    by_level: dict[str, list[Rehearsed]] = {}
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
            place = part.place
            is_between = place.between.any(axis=1) & ~place.is_repeat
            rows = (is_between == wants_between) & (place.is_repeat == wants_repeat)
            found = np.concatenate([found, part.values[rows & ~place.is_outside]])
        if len(found) >= _ENOUGH:
            break
    return found
